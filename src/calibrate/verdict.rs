//! Which level is worth having, and why.

use std::fmt;

use serde::Serialize;

use super::wilson::{needed, z_of};
use super::{Measured, Rules};

/// A level that brings less than this share more than a smaller one is not worth its connections.
const LEAST_GAIN: f64 = 0.05;

/// Where a level stands against the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Its share of bad answers is at most the bound, with confidence.
    Below,
    /// It is above the bound, with confidence.
    Above,
    /// The requests do not show either.
    Unsure {
        /// So many would, if the share stays what it is. `None`: it is not below the bound, so that none would.
        needed: Option<u64>,
    },
}

/// Where a level stands against the bound.
#[must_use]
pub fn standing(level: &Measured, rules: &Rules) -> Standing {
    let bound = rules.max_errors.get();
    if level.requests > 0 && level.bad_share_high <= bound {
        Standing::Below
    } else if level.bad_share_low > bound {
        Standing::Above
    } else {
        let z = z_of(rules.confidence);
        Standing::Unsure {
            needed: needed(level.bad(), level.requests, rules.max_errors, z),
        }
    }
}

/// What the levels come to.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum Verdict {
    /// A level was found.
    Found(Found),
    /// None was.
    NotFound(NotFound),
}

/// The level that is worth having.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// The level: `max_concurrency_num`.
    pub level: u32,
    /// The pace that goes with it: good answers per second.
    pub ok_per_second: f64,
    /// The highest level that is below the bound with confidence; it vouches for the smaller ones.
    pub proved_by: u32,
    /// Its share of bad answers is hardly more than this.
    pub proved_bad_share_high: f64,
    /// Why a higher level below the bound was not picked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub knee: Option<Knee>,
    /// The level that ended the climb, because it is above the bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above: Option<u32>,
    /// The highest level that was measured in full and is not above the bound, where it is not proved: too few requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unproved: Option<u32>,
}

/// Where more in flight stops to bring more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Knee {
    /// The best of the higher levels.
    pub level: u32,
    /// What it brought.
    pub ok_per_second: f64,
    /// A difference up to this is noise, or not worth it.
    pub least_gain_per_second: f64,
}

/// Why no level was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum NotFound {
    /// No level was measured in full.
    NothingMeasured,
    /// The lowest level is above the bound.
    LowestAbove {
        /// That level.
        level: u32,
        /// Its share of bad answers.
        bad_share: f64,
    },
    /// No level had enough requests to show that it is below the bound.
    TooFew {
        /// The level with the fewest still to come.
        level: u32,
        /// Its requests.
        requests: u64,
        /// So many would do, at the same share of bad answers.
        needed: u64,
    },
    /// The shares are too near to the bound, or above it.
    NotBelow {
        /// The level with the smallest share.
        level: u32,
        /// That share.
        bad_share: f64,
    },
}

/// What the levels come to, in rising order. Levels that were broken off are not judged.
///
/// Levels count up to the first that is above the bound. Among them the highest that is below it, with confidence,
/// vouches for the smaller ones: fewer exchanges in flight are no harder on a site. Of those, the smallest is picked
/// to which no higher one adds a worthwhile number of good answers per second. So a stricter bound never picks a higher level.
#[must_use]
pub fn decide(levels: &[Measured], rules: &Rules) -> Verdict {
    let whole: Vec<&Measured> = levels.iter().filter(|level| level.complete).collect();
    let above = whole
        .iter()
        .position(|level| standing(level, rules) == Standing::Above);
    let usable = &whole[..above.unwrap_or(whole.len())];
    let proved = usable
        .iter()
        .rposition(|level| standing(level, rules) == Standing::Below);
    let Some(top) = proved else {
        return Verdict::NotFound(not_found(&whole, usable, rules));
    };
    let z = z_of(rules.confidence);
    let (best, worth) = (0..=top)
        .find_map(|nth| {
            let higher = &usable[nth + 1..=top];
            let worth = higher.iter().any(|more| {
                more.ok_per_second > usable[nth].ok_per_second + gain(usable[nth], more, z)
            });
            (!worth).then_some((usable[nth], higher))
        })
        .unwrap_or((usable[top], &[]));
    let knee = worth
        .iter()
        .max_by(|a, b| a.ok_per_second.total_cmp(&b.ok_per_second))
        .map(|more| Knee {
            level: more.level,
            ok_per_second: more.ok_per_second,
            least_gain_per_second: gain(best, more, z),
        });
    Verdict::Found(Found {
        level: best.level,
        ok_per_second: best.ok_per_second,
        proved_by: usable[top].level,
        proved_bad_share_high: usable[top].bad_share_high,
        knee,
        above: above.map(|nth| whole[nth].level),
        unproved: usable
            .last()
            .filter(|_| top + 1 < usable.len())
            .map(|level| level.level),
    })
}

/// What `more` has to bring per second beyond `less` to be worth it: more than the noise of counting both, and more
/// than a small share.
fn gain(less: &Measured, more: &Measured, z: f64) -> f64 {
    // Counts scatter by their square root at most as long as answers do not come in bursts.
    let variance = |level: &Measured| {
        if level.window_seconds > 0.0 {
            level.ok_ended as f64 / level.window_seconds.powi(2)
        } else {
            0.0
        }
    };
    let noise = z * (variance(less) + variance(more)).sqrt();
    noise.max(LEAST_GAIN * less.ok_per_second)
}

fn not_found(whole: &[&Measured], usable: &[&Measured], rules: &Rules) -> NotFound {
    let Some(lowest) = whole.first() else {
        return NotFound::NothingMeasured;
    };
    if usable.is_empty() {
        return NotFound::LowestAbove {
            level: lowest.level,
            bad_share: lowest.bad_share,
        };
    }
    let short = usable
        .iter()
        .filter_map(|level| match standing(level, rules) {
            Standing::Unsure {
                needed: Some(needed),
            } => Some((*level, needed)),
            _ => None,
        });
    if let Some((level, needed)) =
        short.min_by_key(|(level, needed)| needed.saturating_sub(level.requests))
    {
        return NotFound::TooFew {
            level: level.level,
            requests: level.requests,
            needed,
        };
    }
    let best = usable
        .iter()
        .min_by(|a, b| a.bad_share.total_cmp(&b.bad_share))
        .unwrap_or(lowest);
    NotFound::NotBelow {
        level: best.level,
        bad_share: best.bad_share,
    }
}

/// A share as people read it.
struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} %", self.0 * 100.0)
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "max_concurrency_num = {}: {:.1} good answers per second; ",
            self.level, self.ok_per_second
        )?;
        let bad = Percent(self.proved_bad_share_high);
        if self.proved_by == self.level {
            write!(f, "at most {bad} of its answers are bad")?;
        } else {
            write!(
                f,
                "at most {bad} of the answers are bad even at level {}",
                self.proved_by
            )?;
        }
        if let Some(knee) = &self.knee {
            write!(
                f,
                ". More in flight brings no more: level {} had {:.1} per second, and a difference up to {:.1} is noise or not worth it",
                knee.level, knee.ok_per_second, knee.least_gain_per_second
            )?;
        }
        if let Some(level) = self.unproved {
            write!(
                f,
                ". Level {level} had too few requests to show that it is below the bound"
            )?;
        }
        if let Some(level) = self.above {
            write!(f, ". Level {level} is above the bound")?;
            if self.knee.is_none() && self.unproved.is_none() && level > self.proved_by + 1 {
                f.write_str("; those between were not tried")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingMeasured => f.write_str("no level was measured in full"),
            Self::LowestAbove { level, bad_share } => write!(
                f,
                "no level is below the bound: already at level {level} {} of the answers are bad; the limit may be on the pace: try a rate",
                Percent(*bad_share)
            ),
            Self::TooFew {
                level,
                requests,
                needed,
            } => write!(
                f,
                "no level had enough requests to show that it is below the bound: level {level} had {requests}, it takes {needed}; give it more seconds"
            ),
            Self::NotBelow { level, bad_share } => write!(
                f,
                "no level is below the bound with confidence: the best, level {level}, had {} bad answers",
                Percent(*bad_share)
            ),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found(found) => found.fmt(f),
            Self::NotFound(why) => why.fmt(f),
        }
    }
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
