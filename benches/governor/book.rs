//! What was measured in one run, set side by side.

use std::cell::RefCell;
use std::time::Duration;

/// Rates by name, in the order they were measured.
#[derive(Default)]
pub(crate) struct Book {
    rows: RefCell<Vec<Row>>,
}

struct Row {
    name: String,
    rates: Vec<f64>,
    rounds: u64,
    cpu: Duration,
}

impl Book {
    /// Measures `count` rounds, which take the time that `run` returns.
    pub(crate) fn measure(
        &self,
        name: &str,
        count: u64,
        run: impl FnOnce() -> Duration,
    ) -> Duration {
        let before = cpu();
        let time = run();
        let cpu = cpu().saturating_sub(before);
        let rate = count as f64 / time.as_secs_f64().max(1e-9);
        let mut rows = self.rows.borrow_mut();
        let place = match rows.iter().position(|row| row.name == name) {
            Some(place) => place,
            None => {
                rows.push(Row {
                    name: name.to_owned(),
                    rates: Vec::new(),
                    rounds: 0,
                    cpu: Duration::ZERO,
                });
                rows.len() - 1
            }
        };
        let row = &mut rows[place];
        row.rates.push(rate);
        row.rounds += count;
        row.cpu += cpu;
        time
    }

    /// The median rate of each row, and how it compares to the first.
    pub(crate) fn print(&self) {
        let rows = self.rows.borrow();
        let Some(first) = rows.first() else {
            return;
        };
        let base = median(&first.rates);
        println!(
            "{:<52} {:>10} {:>8} {:>12}",
            "", "k rounds/s", "ratio", "CPU ns/round"
        );
        for row in rows.iter() {
            let rate = median(&row.rates);
            let cpu = row.cpu.as_nanos() as f64 / row.rounds.max(1) as f64;
            println!(
                "{:<52} {:>10.0} {:>8.3} {cpu:>12.0}",
                row.name,
                rate / 1e3,
                rate / base
            );
        }
        println!("ratio: to `{}`; CPU: of all threads", first.name);
    }
}

/// CPU time of this process so far; zero where the system does not tell.
fn cpu() -> Duration {
    #[cfg(unix)]
    if let Ok(usage) = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF) {
        let both = [usage.user_time(), usage.system_time()];
        let micros = both
            .iter()
            .map(|time| time.tv_sec() * 1_000_000 + time.tv_usec());
        return Duration::from_micros(u64::try_from(micros.sum::<i64>()).unwrap_or_default());
    }
    Duration::ZERO
}

fn median(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}
