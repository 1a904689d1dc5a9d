//! A run as a picture: limit, pace, accepted, refusals and requests in flight over time.

use std::fmt::Write;

use super::trace::Sample;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;

/// A chart of the picture: where it stands, and what its top means.
#[derive(Clone, Copy)]
struct Chart {
    top: f64,
    height: f64,
    lasts: f64,
    most: f64,
}

impl Chart {
    fn x(self, at: f64) -> f64 {
        LEFT + at / self.lasts * (WIDTH - LEFT - RIGHT)
    }

    fn y(self, value: f64) -> f64 {
        self.top + self.height * (1.0 - (value / self.most).clamp(0.0, 1.0))
    }

    fn line(self, samples: &[Sample], figure: impl Fn(&Sample) -> f64) -> String {
        let mut path = String::new();
        let mut pen = 'M';
        for sample in samples {
            let value = figure(sample);
            if !value.is_finite() {
                pen = 'M';
                continue;
            }
            let (x, y) = (self.x(sample.at), self.y(value));
            path.push_str(&format!("{pen}{x:.1} {y:.1}"));
            pen = 'L';
        }
        path
    }

    fn axes(self, unit: &str, out: &mut String) -> std::fmt::Result {
        let step = nice(self.most / 4.0);
        let mut value = 0.0;
        while value <= self.most * 1.001 {
            let y = self.y(value);
            let right = WIDTH - RIGHT;
            writeln!(out, r##"<path d="M{LEFT} {y:.1}H{right}" stroke="#ddd"/>"##)?;
            let x = LEFT - 8.0;
            let y = y + 4.0;
            writeln!(
                out,
                r#"<text x="{x}" y="{y:.1}" text-anchor="end">{value}</text>"#
            )?;
            value += step;
        }
        let bottom = self.top + self.height + 16.0;
        let step = nice(self.lasts / 8.0);
        let mut at = 0.0;
        while at <= self.lasts * 1.001 {
            let x = self.x(at);
            writeln!(
                out,
                r#"<text x="{x:.1}" y="{bottom}" text-anchor="middle">{at} s</text>"#
            )?;
            at += step;
        }
        let y = self.top - 8.0;
        writeln!(
            out,
            r#"<text x="{LEFT}" y="{y}" font-weight="bold">{unit}</text>"#
        )
    }
}

/// The picture, as the text of an SVG file.
#[must_use]
pub fn svg(title: &str, samples: &[Sample]) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = draw(title, samples, &mut out);
    out
}

fn draw(title: &str, samples: &[Sample], out: &mut String) -> std::fmt::Result {
    let step = samples.first().map_or(0.5, |sample| sample.at);
    let lasts = samples.last().map_or(1.0, |sample| sample.at + step);
    let finite = |figure: fn(&Sample) -> f64| {
        let values = samples.iter().map(figure).filter(|value| value.is_finite());
        values.fold(0.0, f64::max)
    };
    let rates = Chart {
        top: 64.0,
        height: 240.0,
        lasts,
        most: nice_top(finite(|s| s.accepted).max(finite(|s| s.limit) * 1.1)),
    };
    let out_chart = Chart {
        top: 360.0,
        height: 80.0,
        lasts,
        most: nice_top(finite(|s| f64::from(s.in_flight))),
    };
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 490" font-family="sans-serif" font-size="12">"#
    )?;
    writeln!(out, r#"<rect width="{WIDTH}" height="490" fill="white"/>"#)?;
    writeln!(
        out,
        r#"<text x="{LEFT}" y="24" font-size="16">{}</text>"#,
        escaped(title)
    )?;
    rates.axes("requests a second", out)?;
    let area = rates.line(samples, |s| s.accepted);
    if let (Some(first), Some(last)) = (samples.first(), samples.last()) {
        let (from, until, floor) = (rates.x(first.at), rates.x(last.at), rates.y(0.0));
        writeln!(
            out,
            r##"<path d="{area}L{until:.1} {floor:.1}L{from:.1} {floor:.1}Z" fill="#2a9d5c" fill-opacity=".25"/>"##
        )?;
    }
    line(out, &area, "#2a9d5c", "")?;
    line(out, &rates.line(samples, |s| s.limit), "#777", "6 4")?;
    line(out, &rates.line(samples, |s| s.pace), "#1f6fd0", "")?;
    for sample in samples.iter().filter(|sample| sample.refused > 0.0) {
        let (x, y) = (rates.x(sample.at), rates.y(0.0));
        // At least a mark; its length is the share of what was sent.
        let share = (sample.refused / sample.sent.max(sample.refused)).clamp(0.05, 1.0);
        let length = share * rates.height / 2.0;
        writeln!(
            out,
            r##"<path d="M{x:.1} {y:.1}v-{length:.1}" stroke="#d03030" stroke-width="2"/>"##
        )?;
    }
    out_chart.axes("in flight, and the cap that was learned", out)?;
    line(
        out,
        &out_chart.line(samples, |s| f64::from(s.in_flight)),
        "#444",
        "",
    )?;
    let cap = |s: &Sample| s.cap.map_or(f64::INFINITY, f64::from);
    line(out, &out_chart.line(samples, cap), "#1f6fd0", "6 4")?;
    let legend = [
        ("#777", "limit"),
        ("#1f6fd0", "pace"),
        ("#2a9d5c", "accepted"),
        ("#d03030", "refused"),
    ];
    for (nth, (colour, name)) in legend.into_iter().enumerate() {
        let x = WIDTH - RIGHT - 360.0 + nth as f64 * 90.0;
        writeln!(
            out,
            r#"<rect x="{x}" y="44" width="12" height="12" fill="{colour}"/>"#
        )?;
        let x = x + 18.0;
        writeln!(out, r#"<text x="{x}" y="54">{name}</text>"#)?;
    }
    writeln!(out, "</svg>")
}

fn line(out: &mut String, path: &str, colour: &str, dash: &str) -> std::fmt::Result {
    if path.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        r#"<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dash}"/>"#
    )
}

/// 1, 2 or 5 times a power of ten, not below `value`.
fn nice(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(1e-3).log10().floor());
    let step = [1.0, 2.0, 5.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= value * 0.999);
    // Powers below one have a tail of digits that nobody wants to read.
    let step = step.unwrap_or(10.0 * power);
    (step * 1e4).round() / 1e4
}

fn nice_top(value: f64) -> f64 {
    let step = nice(value.max(1.0) / 4.0);
    (value.max(1.0) / step).ceil() * step
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_an_axis_are_round() {
        assert_eq!(nice(0.9), 1.0);
        assert_eq!(nice(1.0), 1.0);
        assert_eq!(nice(13.0), 20.0);
        assert_eq!(nice(0.03), 0.05);
        assert_eq!(nice(60.0), 100.0);
        assert_eq!(nice_top(110.0), 150.0);
        assert_eq!(nice_top(0.0), 1.0);
    }

    #[test]
    fn the_picture_has_every_line_and_no_broken_text() {
        let sample = |nth: u32| Sample {
            at: f64::from(nth) + 0.5,
            limit: 50.0,
            pace: if nth == 3 { f64::INFINITY } else { 40.0 },
            cap: None,
            in_flight: 5,
            sent: 41.0,
            accepted: 40.0,
            refused: if nth == 7 { 1.0 } else { 0.0 },
        };
        let samples: Vec<Sample> = (0..10).map(sample).collect();
        let picture = svg("a < b & c", &samples);
        assert!(picture.contains("a &lt; b &amp; c"));
        assert!(
            !picture.contains("NaN") && !picture.contains("inf"),
            "{picture}"
        );
        assert_eq!(
            picture.matches("#d03030").count(),
            2,
            "one refusal and the legend"
        );
        assert!(picture.trim_end().ends_with("</svg>"));
        assert!(svg("nothing", &[]).contains("</svg>"));
    }
}
