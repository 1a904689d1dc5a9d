//! A run as three small charts of block characters: pace, accepted and refused over time.

use super::trace::Sample;

const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Columns of a chart; with its label a line has 78.
const WIDTH: usize = 64;
const GREEN: &str = "32";
const BLUE: &str = "34";
const RED: &str = "31";

/// The charts, at most 78 columns wide. Pace and accepted have one scale, so that they can be compared.
#[must_use]
pub fn strip(samples: &[Sample], colour: bool) -> String {
    let width = WIDTH.min(samples.len());
    if width == 0 {
        return String::new();
    }
    let pace = fold(samples, width, |sample| sample.pace, mean);
    let accepted = fold(samples, width, |sample| sample.accepted, mean);
    let refused = fold(samples, width, |sample| sample.refused, most);
    let limit = most(&fold(samples, width, |sample| sample.limit, mean));
    // A pace far above what comes back would flatten everything else.
    let top = most(&accepted).max(limit * 1.05).max(1e-3);
    let mut out = String::new();
    if pace.iter().any(|pace| pace.is_finite()) {
        chart(&mut out, "pace /s", &pace, top, 3, colour.then_some(BLUE));
    }
    chart(
        &mut out,
        "accepted /s",
        &accepted,
        top,
        4,
        colour.then_some(GREEN),
    );
    let refusals = most(&refused);
    chart(
        &mut out,
        "refused /s",
        &refused,
        refusals.max(1.0),
        1,
        colour.then_some(RED),
    );
    let last = samples.last().map_or(0.0, |sample| sample.at);
    let step = samples.first().map_or(0.0, |sample| sample.at);
    let end = format!("{:.0} s", last + step);
    out.push_str(&format!(
        "{:13} 0 s{end:>rest$}\n",
        "",
        rest = width.saturating_sub(3)
    ));
    out
}

fn chart(
    out: &mut String,
    name: &str,
    values: &[f64],
    top: f64,
    rows: usize,
    colour: Option<&str>,
) {
    for row in (0..rows).rev() {
        let label = if row + 1 == rows {
            number(top)
        } else {
            String::new()
        };
        let name = if row == 0 { name } else { "" };
        // In a chart of one row both share the line.
        let label = if rows == 1 { String::new() } else { label };
        out.push_str(&if name.is_empty() {
            format!("{label:>12} ")
        } else {
            format!("{name:>12} ")
        });
        out.push('▕');
        if let Some(colour) = colour {
            out.push_str(&format!("\x1b[{colour}m"));
        }
        out.extend(values.iter().map(|value| block(*value, top, row, rows)));
        if colour.is_some() {
            out.push_str("\x1b[0m");
        }
        out.push('\n');
    }
}

/// The part of a bar that stands in a row; anything above nothing shows.
fn block(value: f64, top: f64, row: usize, rows: usize) -> char {
    let eighths = (value / top * rows as f64 * 8.0).clamp(0.0, rows as f64 * 8.0);
    let eighths = if value > 0.0 { eighths.max(1.0) } else { 0.0 };
    let here = (eighths.round() as usize).saturating_sub(row * 8).min(8);
    BLOCKS[here]
}

fn fold(
    samples: &[Sample],
    width: usize,
    figure: impl Fn(&Sample) -> f64,
    of: impl Fn(&[f64]) -> f64,
) -> Vec<f64> {
    (0..width)
        .map(|column| {
            let from = column * samples.len() / width;
            let until = ((column + 1) * samples.len() / width).max(from + 1);
            let part: Vec<f64> = samples[from..until].iter().map(&figure).collect();
            of(&part)
        })
        .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The largest that is finite.
fn most(values: &[f64]) -> f64 {
    let finite = values.iter().copied().filter(|value| value.is_finite());
    finite.fold(0.0, f64::max)
}

/// Three digits are enough for an axis.
fn number(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(accepted: &[f64]) -> Vec<Sample> {
        let sample = |(nth, accepted): (usize, &f64)| Sample {
            at: nth as f64 + 0.5,
            limit: 8.0 / 1.05,
            pace: f64::INFINITY,
            accepted: *accepted,
            ..Sample::default()
        };
        accepted.iter().enumerate().map(sample).collect()
    }

    #[test]
    fn a_bar_is_filled_from_below() {
        assert_eq!(block(8.0, 8.0, 3, 4), '█');
        assert_eq!(block(4.0, 8.0, 2, 4), ' ');
        assert_eq!(block(4.0, 8.0, 1, 4), '█');
        assert_eq!(block(5.0, 8.0, 2, 4), '▄');
        assert_eq!(block(0.001, 8.0, 0, 4), '▁', "a little shows");
        assert_eq!(block(0.0, 8.0, 0, 4), ' ');
        assert_eq!(block(f64::INFINITY, 8.0, 3, 4), '█');
    }

    #[test]
    fn it_fits_a_terminal_and_leaves_out_a_pace_that_nobody_knows() {
        let many: Vec<f64> = (0..500).map(|nth| f64::from(nth % 9)).collect();
        let text = strip(&samples(&many), false);
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(!text.contains("pace") && !text.contains('\x1b'), "{text}");
        assert!(
            text.contains("accepted /s") && text.contains("500 s"),
            "{text}"
        );
        assert!(strip(&samples(&many), true).contains("\x1b[32m"));
    }

    #[test]
    fn few_samples_make_a_narrow_chart() {
        let text = strip(&samples(&[8.0, 4.0]), false);
        assert!(text.contains("▕█ \n"), "{text}");
        assert_eq!(strip(&[], false), "");
    }
}
