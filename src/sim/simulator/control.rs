//! What the engine asks of a client's rate control.

use std::time::Duration;

use crate::governor::Hints;
use crate::model::{Outcome, Timestamp};

/// One client's rate control. There is always a task waiting for every endpoint, unless [`Control::waiting`] said
/// otherwise.
pub trait Control {
    /// What may leave at `now`. Called again until it says [`Poll::Wait`].
    fn poll(&mut self, now: Timestamp) -> Poll;

    /// An exchange ended. `held` is the time from the grant to now; `hints` were read from the answer's header.
    fn end(&mut self, now: Timestamp, permit: u64, outcome: Outcome, hints: &Hints, held: Duration);

    /// A permit was dropped without a result: its holder was cancelled or panicked.
    fn drop_permit(&mut self, now: Timestamp, permit: u64);

    /// What it believes of an endpoint, for plots.
    fn view(&self, now: Timestamp, endpoint: usize) -> View;

    /// So many tasks wait for the endpoint now. Only called where the scenario bounds the demand.
    fn waiting(&mut self, now: Timestamp, endpoint: usize, tasks: u64) {
        let _ = (now, endpoint, tasks);
    }

    /// The process that holds the control dies and comes back; what is out stays out.
    fn restart(&mut self, now: Timestamp) {
        let _ = now;
    }

    /// Whether it is told that a 200 was a refusal. A control without a classifier takes it for a good answer.
    fn sees_soft_blocks(&self) -> bool {
        true
    }
}

/// An answer of [`Control::poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// A request leaves now.
    Send {
        /// Its endpoint, by place in the scenario.
        endpoint: usize,
        /// Names it in what follows.
        permit: u64,
    },
    /// Nothing before this time, or `None`: nothing before a result.
    Wait(Option<Timestamp>),
}

/// What a control believes at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// Requests a second it lets out; infinite where it knows no pace.
    pub pace: f64,
    /// Requests at once that it has learned to be the most.
    pub cap: Option<u32>,
    /// A word for its state.
    pub state: &'static str,
}
