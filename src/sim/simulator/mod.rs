//! Servers with limits in virtual time, and the clients that have to find those limits.
//!
//! Discrete events, no clock, no socket: the same seed gives the same numbers, bit by bit.

mod benchmark;
mod catalogue;
mod control;
mod drawn;
mod engine;
mod event;
mod file;
mod ideal;
mod laws;
mod metrics;
mod origin;
mod ours;
mod peers;
mod scenario;
mod service;
mod strip;
mod svg;
mod told;
mod trace;

pub use benchmark::{Figures, Summary, cell, measure};
pub use catalogue::{built_in, named};
pub use control::{Control, Poll, View};
pub use drawn::drawn;
pub use engine::{Make, run, run_traced};
pub use file::read;
pub use laws::Law;
pub use metrics::{Mean, Report};
pub use origin::{Mishap, OriginSpec, Refusal, Trouble};
pub use ours::LedgerControl;
pub use peers::{PEERS, Peer};
pub use scenario::{Change, Chaos, Configured, Demand, Scenario};
pub use service::{Draw, Service};
pub use strip::strip;
pub use svg::svg;
pub use told::{Fields, Reset, RetryTold};
pub use trace::Sample;

#[cfg(test)]
mod tests;
