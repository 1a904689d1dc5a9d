//! What a run looked like over time.

use serde::Serialize;

/// One part of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Its middle, in seconds since the start.
    pub at: f64,
    /// Good answers a second that the limits allow; infinite where nothing limits.
    pub limit: f64,
    /// Requests a second that the controls let out, all together; infinite where one knows no pace.
    pub pace: f64,
    /// Requests at once that they have learned to be the most; `None` where one knows none.
    pub cap: Option<u32>,
    /// Requests out.
    pub in_flight: u32,
    /// Requests sent a second.
    pub sent: f64,
    /// Good answers a second.
    pub accepted: f64,
    /// Refusals a second.
    pub refused: f64,
}

/// What the controls believe at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) pace: f64,
    pub(super) cap: Option<u32>,
    pub(super) out: u32,
}
