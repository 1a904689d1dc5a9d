//! Finding the concurrency: what a level of concurrency showed, and which level is worth having.
//!
//! Plain values and arithmetic. The engine makes the exchanges ([`Engine::calibrate`](crate::Engine::calibrate)) and
//! hands in what they came to, with the times at which they were granted and given back.

mod rules;
mod share;
mod tally;
mod verdict;
mod wilson;

pub use rules::{MAX_LEVEL, Rules, RulesError, check_levels, ladder};
pub use share::Share;
pub use tally::{Exchange, Measured, Tally, Usage, is_bad, is_refusal};
pub use verdict::{Found, Knee, NotFound, Standing, Verdict, decide, standing};
pub use wilson::{Interval, needed, wilson, z_of};
