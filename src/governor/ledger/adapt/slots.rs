//! A limit of requests in flight, told from a limit of requests per second by trying.
//!
//! After a refusal with `f` requests in flight fewer are allowed in flight, while the pace climbs to where
//! it was. A server that counts seconds refuses again; one that counts requests in flight does not, and
//! the cap is then raised until it refuses. A pace and a cap may happen to agree, so from that refusal on
//! both are kept: the pace that was measured and the cap as a guard. Either holds off the refusals that
//! the other would not.

/// Share of the requests in flight at the refusal that a trial allows. Low enough that the noise of the
/// wire does not fake a refusal.
const TRIAL_SHARE: f64 = 0.85;
/// Fewer in flight leave nothing to try.
const LEAST_IN_FLIGHT: u32 = 2;
/// Seconds without a refusal before more are allowed in flight, at first …
const FIRST_HOLD: f64 = 2.0;
/// … and at most.
const LONGEST_HOLD: f64 = 60.0;
/// A cap that bound for so many seconds, and so many latencies, has proved itself.
const SOON: f64 = 1.5;
const SOON_LATENCIES: f64 = 5.0;
/// Steps upwards are at most this share of the cap (and at least one) until the first refusal …
const STEP: f64 = 0.05;
/// … and this share after it, beginning with one and doubling while nothing is refused.
const LARGEST_STEP: f64 = 0.5;
/// First step before any refusal: only its share of the cap bounds it.
const FIRST_STEP: u32 = 1 << 16;

/// What is believed of the requests that may be in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Slots {
    /// No limit is known.
    Free,
    /// A limit is supposed.
    Trial { cap: u32 },
    /// A limit has been found.
    Held {
        cap: u32,
        /// Seconds to stay before more are tried.
        hold: f64,
        /// Seconds stayed so far.
        stayed: f64,
        /// How many more the next raise allows; doubles while nothing is refused.
        step: u32,
        /// Whether a refusal came at the cap: from then on the pace counts too.
        paced: bool,
    },
}

impl Slots {
    /// A cap that an earlier run learned.
    pub(super) fn learned(cap: u32) -> Self {
        Self::Held {
            cap: cap.max(1),
            hold: FIRST_HOLD,
            stayed: 0.0,
            step: 1,
            paced: true,
        }
    }

    /// The cap in force.
    pub(super) fn cap(&self) -> Option<u32> {
        match *self {
            Self::Free => None,
            Self::Trial { cap } | Self::Held { cap, .. } => Some(cap),
        }
    }

    /// The cap that has been found.
    pub(super) fn found(&self) -> Option<u32> {
        match *self {
            Self::Held { cap, .. } => Some(cap),
            _ => None,
        }
    }

    /// Whether the cap alone is the limit: the pace only keeps out of its way.
    pub(super) fn rules(&self) -> bool {
        matches!(self, Self::Held { paced: false, .. })
    }

    pub(super) fn is_trial(&self) -> bool {
        matches!(self, Self::Trial { .. })
    }

    /// A trial after a refusal with `in_flight` requests out, the refused one among them.
    pub(super) fn trial(in_flight: u32) -> Self {
        if in_flight < LEAST_IN_FLIGHT {
            return Self::Free;
        }
        let cap = (f64::from(in_flight) * TRIAL_SHARE).floor() as u32;
        Self::Trial { cap: cap.max(1) }
    }

    /// The trial is over; `bound`: whether the cap kept the lane from its pace, and nothing was refused.
    pub(super) fn end_trial(&mut self, bound: bool) {
        *self = match *self {
            Self::Trial { cap } if bound => Self::Held {
                cap,
                hold: FIRST_HOLD,
                stayed: 0.0,
                step: FIRST_STEP,
                paced: false,
            },
            Self::Trial { .. } => Self::Free,
            held => held,
        };
    }

    /// The cap bound for `seconds` and nothing was refused. `may_raise`: whether a refusal is affordable.
    pub(super) fn bound(&mut self, seconds: f64, may_raise: bool) {
        if let Self::Held {
            cap,
            hold,
            stayed,
            step,
            paced,
        } = self
        {
            *stayed += seconds;
            if *stayed >= *hold && may_raise {
                *stayed = 0.0;
                let most = (f64::from(*cap) * if *paced { LARGEST_STEP } else { STEP }) as u32;
                *cap = cap.saturating_add((*step).min(most.max(1)));
                if *step > 1 {
                    // The last raise has held: the limit is not here.
                    *hold = FIRST_HOLD.max(*hold * 0.5);
                }
                *step = step.saturating_mul(2);
            }
        }
    }

    /// Whether the cap had bound for so long without a refusal that it cannot explain one: a server that
    /// counts requests in flight refuses soon or never.
    pub(super) fn is_refuted(&self, latency: f64) -> bool {
        matches!(*self, Self::Held { stayed, .. } if stayed > SOON.max(SOON_LATENCIES * latency))
    }

    /// A request was refused at the cap; the pace needs `needed` requests in flight by Little's law.
    pub(super) fn refused(&mut self, in_flight: u32, needed: f64) {
        if let Self::Held {
            cap,
            hold,
            stayed,
            step,
            paced,
        } = self
        {
            *step = 1;
            *cap = in_flight
                .saturating_sub(1)
                .max(needed.round() as u32)
                .max(1);
            *hold = (*hold * 2.0).min(LONGEST_HOLD);
            *stayed = 0.0;
            *paced = true;
        }
    }
}
