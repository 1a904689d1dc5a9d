//! Hidden limits as pure values: time is an argument, counted from the start of the server.

use std::collections::VecDeque;
use std::time::Duration;

/// What a site refuses without telling beforehand.
#[derive(Clone, Debug, PartialEq)]
pub enum Limit {
    /// At most `max` admitted requests at work at once. At least 1.
    Concurrency {
        /// Requests.
        max: u32,
    },
    /// At most `max` in each window of a fixed grid.
    Fixed {
        /// Requests, at least 1.
        max: u32,
        /// Width of the grid, above zero.
        window: Duration,
        /// How far the grid is ahead of the server's start.
        phase: Duration,
    },
    /// At most `max` in any window of this length.
    Sliding {
        /// Requests, at least 1.
        max: u32,
        /// Length, above zero.
        window: Duration,
        /// Whether a refused request uses the window up as well.
        count_refused: bool,
    },
    /// A bucket that holds `burst` tokens, is full at the start and is refilled evenly.
    Bucket {
        /// Tokens a second, above zero.
        per_second: f64,
        /// Tokens, at least 1.
        burst: u32,
    },
}

impl Limit {
    /// What is wrong with the numbers, if anything.
    pub(super) fn fault(&self) -> Option<&'static str> {
        match self {
            Self::Concurrency { max } | Self::Fixed { max, .. } | Self::Sliding { max, .. }
                if *max == 0 =>
            {
                Some("max must be at least 1")
            }
            Self::Fixed { window, .. } | Self::Sliding { window, .. } if window.is_zero() => {
                Some("window must be above zero")
            }
            Self::Bucket { per_second, .. } if !(1e-6..=1e9).contains(per_second) => {
                Some("per_second must be between 0.000001 and 1000000000")
            }
            Self::Bucket { burst: 0, .. } => Some("burst must be at least 1"),
            _ => None,
        }
    }
}

/// What is left of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    /// Requests that the limit allows in all.
    pub(super) of: u32,
    /// In this time; zero where the limit is on requests at once.
    pub(super) window: Duration,
    /// Requests that would still be admitted.
    pub(super) remaining: u32,
    /// Until all are allowed again.
    pub(super) reset: Duration,
}

/// One limit with what it remembers.
#[derive(Debug)]
pub(super) struct Limiter {
    limit: Limit,
    memory: Memory,
}

#[derive(Debug)]
enum Memory {
    Nothing,
    /// The cell of the grid and what was used of it.
    Cell {
        index: u128,
        used: u32,
    },
    /// The newest requests that count, at most `max` of them.
    Log(VecDeque<Duration>),
    /// When the bucket will be full again.
    Full(Duration),
}

impl Limiter {
    pub(super) fn new(limit: Limit) -> Self {
        let memory = match limit {
            Limit::Concurrency { .. } => Memory::Nothing,
            Limit::Fixed { .. } => Memory::Cell { index: 0, used: 0 },
            Limit::Sliding { .. } => Memory::Log(VecDeque::new()),
            Limit::Bucket { .. } => Memory::Full(Duration::ZERO),
        };
        Self { limit, memory }
    }

    pub(super) const fn limit(&self) -> &Limit {
        &self.limit
    }

    /// `None` when a request is admitted at `now`, else how long until one could be.
    /// `at_work` are the admitted requests that have not ended; a limit on those knows no wait and says zero.
    pub(super) fn wait(&self, now: Duration, at_work: u32) -> Option<Duration> {
        match (&self.limit, &self.memory) {
            (Limit::Fixed { max, window, phase }, Memory::Cell { index, used }) => {
                let current = cell(now, *window, *phase);
                (*index == current && used >= max).then(|| {
                    let into = (now + *phase).as_nanos() % window.as_nanos();
                    *window - nanos(into)
                })
            }
            (
                Limit::Sliding {
                    max,
                    window,
                    count_refused,
                },
                Memory::Log(log),
            ) => {
                let oldest = *log.front()?;
                (log.len() >= *max as usize && oldest + *window > now).then(|| {
                    // A refusal that counts takes the oldest place itself.
                    let next = if *count_refused {
                        log.get(1).copied().unwrap_or(now)
                    } else {
                        oldest
                    };
                    (next + *window).saturating_sub(now)
                })
            }
            (Limit::Bucket { per_second, burst }, Memory::Full(full)) => {
                let slack = period(*per_second) * (burst - 1);
                (*full > now + slack).then(|| *full - now - slack)
            }
            (Limit::Concurrency { max }, _) => (at_work >= *max).then_some(Duration::ZERO),
            // `new` pairs each limit with its memory.
            _ => None,
        }
    }

    /// What is left of it at `now`, as a server that tells it would.
    pub(super) fn left(&self, now: Duration, at_work: u32) -> Left {
        let (of, window, used, reset) = match (&self.limit, &self.memory) {
            (Limit::Fixed { max, window, phase }, Memory::Cell { index, used }) => {
                let used = if *index == cell(now, *window, *phase) {
                    *used
                } else {
                    0
                };
                let into = (now + *phase).as_nanos() % window.as_nanos();
                (*max, *window, used, *window - nanos(into))
            }
            (Limit::Sliding { max, window, .. }, Memory::Log(log)) => {
                let recent = || log.iter().filter(|at| **at + *window > now);
                let used = u32::try_from(recent().count()).unwrap_or(u32::MAX);
                let reset = recent().next().map(|oldest| *oldest + *window - now);
                (*max, *window, used, reset.unwrap_or_default())
            }
            (Limit::Bucket { per_second, burst }, Memory::Full(full)) => {
                let period = period(*per_second);
                let missing = full.saturating_sub(now);
                let used = missing.as_nanos().div_ceil(period.as_nanos().max(1));
                let used = u32::try_from(used).unwrap_or(u32::MAX);
                (*burst, period * *burst, used, missing)
            }
            (Limit::Concurrency { max }, _) => (*max, Duration::ZERO, at_work, Duration::ZERO),
            // `new` pairs each limit with its memory.
            _ => (0, Duration::ZERO, 0, Duration::ZERO),
        };
        Left {
            of,
            window,
            remaining: of.saturating_sub(used),
            reset,
        }
    }

    /// Takes note of a request that was admitted at `now`.
    pub(super) fn admitted(&mut self, now: Duration) {
        match (&self.limit, &mut self.memory) {
            (Limit::Fixed { window, phase, .. }, Memory::Cell { index, used }) => {
                let current = cell(now, *window, *phase);
                if *index != current {
                    (*index, *used) = (current, 0);
                }
                *used += 1;
            }
            (Limit::Sliding { max, .. }, Memory::Log(log)) => remember(log, *max, now),
            (Limit::Bucket { per_second, .. }, Memory::Full(full)) => {
                *full = (*full).max(now) + period(*per_second);
            }
            _ => {}
        }
    }

    /// Takes note of a request that was refused at `now`, by this limit or another.
    pub(super) fn refused(&mut self, now: Duration) {
        if let (
            Limit::Sliding {
                max,
                count_refused: true,
                ..
            },
            Memory::Log(log),
        ) = (&self.limit, &mut self.memory)
        {
            remember(log, *max, now);
        }
    }
}

/// Only the newest `max` can decide, so the log stays bounded even when refusals count.
fn remember(log: &mut VecDeque<Duration>, max: u32, now: Duration) {
    log.push_back(now);
    while log.len() > max as usize {
        log.pop_front();
    }
}

fn cell(now: Duration, window: Duration, phase: Duration) -> u128 {
    // Zero is kept for "none yet".
    (now + phase).as_nanos() / window.as_nanos() + 1
}

/// Rounded up: a bucket never refills faster than it says.
fn period(per_second: f64) -> Duration {
    nanos((1e9 / per_second).ceil() as u128)
}

fn nanos(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Too many refusals in a window lock the client out for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ban {
    /// Refusals that bring the ban, at least 1.
    pub refusals: u32,
    /// The window they are counted in, above zero.
    pub within: Duration,
    /// How long the ban lasts.
    pub lasts: Duration,
}

impl Ban {
    /// What is wrong with the numbers, if anything.
    pub(super) fn fault(&self) -> Option<&'static str> {
        match self {
            Self { refusals: 0, .. } => Some("refusals must be at least 1"),
            Self { within, .. } if within.is_zero() => Some("within must be above zero"),
            _ => None,
        }
    }
}

/// The automaton of a ban. Refusals during a ban neither prolong it nor count towards the next.
#[derive(Debug)]
pub(super) struct BanState {
    ban: Ban,
    refusals: VecDeque<Duration>,
    until: Duration,
}

impl BanState {
    pub(super) const fn new(ban: Ban) -> Self {
        Self {
            ban,
            refusals: VecDeque::new(),
            until: Duration::ZERO,
        }
    }

    pub(super) const fn ban(&self) -> &Ban {
        &self.ban
    }

    /// What is left of a ban at `now`.
    pub(super) fn left(&self, now: Duration) -> Option<Duration> {
        (self.until > now).then(|| self.until - now)
    }

    /// Takes note of a refusal; `true` when it brings a ban.
    pub(super) fn refused(&mut self, now: Duration) -> bool {
        remember(&mut self.refusals, self.ban.refusals, now);
        let full = self.refusals.len() == self.ban.refusals as usize;
        let recent = self
            .refusals
            .front()
            .is_some_and(|first| *first + self.ban.within > now);
        if full && recent {
            self.until = now + self.ban.lasts;
            self.refusals.clear();
        }
        full && recent
    }
}

#[cfg(test)]
mod tests;
