//! The live view on a terminal, and log lines that do not tear it.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use slog::Logger;

use crate::model::{Name, UnixMillis};
use crate::observe::{Metrics, Progress, SiteState, logging};
use crate::settings::LogSettings;

/// How often the view is drawn anew.
pub(super) const REFRESH: Duration = Duration::from_millis(200);

/// Bars on a terminal; nothing in a pipe.
pub(super) struct View {
    bars: Option<MultiProgress>,
    sites: Mutex<HashMap<Name, Site>>,
}

struct Site {
    bar: ProgressBar,
    requests: u64,
}

impl View {
    pub(super) fn new() -> Self {
        let terminal = io::stderr().is_terminal();
        Self {
            bars: terminal
                .then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(5))),
            sites: Mutex::default(),
        }
    }

    /// Whether stderr is a terminal.
    pub(super) const fn is_live(&self) -> bool {
        self.bars.is_some()
    }

    /// A logger to stderr whose lines stand above the bars.
    pub(super) fn logger(&self, settings: &LogSettings) -> Logger {
        match &self.bars {
            None => logging::to_stderr(settings),
            Some(bars) => logging::to_writer(
                settings,
                Above {
                    bars: bars.clone(),
                    line: Vec::new(),
                },
            ),
        }
    }

    /// Draw how far each site is.
    pub(super) fn refresh(&self, metrics: &Metrics, cap: u32) {
        let Some(bars) = &self.bars else { return };
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, progress, requests) in metrics.all_progress() {
            let site = sites.entry(name.clone()).or_insert_with(|| Site {
                bar: bars.add(bar(&name)),
                requests: 0,
            });
            let rate = (requests - site.requests.min(requests)) as f64 / REFRESH.as_secs_f64();
            site.requests = requests;
            show(&site.bar, &progress, rate, cap);
        }
    }

    /// A line of text that changes, below the log. `None` in a pipe.
    pub(super) fn line(&self) -> Option<ProgressBar> {
        let bars = self.bars.as_ref()?;
        let style = ProgressStyle::with_template("{wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        Some(bars.add(ProgressBar::new(0).with_style(style)))
    }

    /// Take the bars away.
    pub(super) fn end(&self) {
        if let Some(bars) = &self.bars {
            // A terminal that cannot be cleared is left as it is.
            let _ = bars.clear();
        }
    }
}

fn bar(name: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:>12.12} {bar:20} {pos}/{len} {wide_msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(0)
        .with_style(style)
        .with_prefix(name.to_owned())
}

fn show(bar: &ProgressBar, progress: &Progress, rate: f64, cap: u32) {
    bar.set_length(progress.ended + progress.pending + progress.leased);
    bar.set_position(progress.ended);
    bar.set_message(match &progress.state {
        SiteState::Running => {
            let left = (progress.pending + progress.leased) as f64;
            let eta = if rate > 0.0 {
                let seconds = Duration::from_secs((left / rate) as u64);
                format!(", {} left", humantime::format_duration(seconds))
            } else {
                String::new()
            };
            format!("{}/{cap} in flight, {rate:.0}/s{eta}", progress.in_flight)
        }
        SiteState::Waiting(until) => {
            let wait = until.since(UnixMillis::now()).as_secs();
            format!(
                "waits {}",
                humantime::format_duration(Duration::from_secs(wait))
            )
        }
        SiteState::Finished(word) => (*word).to_owned(),
    });
}

/// Writes whole lines above the bars.
struct Above {
    bars: MultiProgress,
    line: Vec<u8>,
}

impl Write for Above {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            self.bars
                .println(String::from_utf8_lossy(&line[..end]).as_ref())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
