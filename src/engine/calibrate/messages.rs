//! What a calibration is asked, what it tells meanwhile, and what it comes to.

use std::time::Duration;

use serde::Serialize;

use crate::calibrate::{Measured, Rules, Verdict};
use crate::model::{Job, Outcome};
use crate::settings::Rate;

/// What is to be found out.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Whose requests are made, again and again: what the job of one site starts from. Nothing is stored.
    pub job: Job,
    /// The levels, rising; `None`: 1, 2, 4, … up to the smallest cap that applies.
    pub levels: Option<Vec<u32>>,
    /// A ceiling of the pace, for each site (in mode `crawl`: host), below those that are configured.
    pub rate: Option<Rate>,
    /// How levels are measured and judged.
    pub rules: Rules,
}

/// What a calibration is about to do. Told before the first request is sent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Opening {
    /// The site.
    pub site: String,
    /// What is asked for, in turn: URLs without their query, which may carry tokens.
    pub targets: Vec<String>,
    /// The levels to come.
    pub levels: Vec<u32>,
    /// Most requests in all levels together.
    pub requests_at_most: u64,
    /// Longest time of all levels together, in seconds, pauses left out.
    pub seconds_at_most: f64,
    /// Whether robots.txt is obeyed.
    pub robots_obeyed: bool,
    /// The `User-Agent` that is sent.
    pub user_agent: String,
}

/// How far a level is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Running {
    /// The level.
    pub level: u32,
    /// Time since its start.
    pub elapsed: Duration,
    /// Requests that count so far.
    pub requests: u64,
    /// The bad ones among them.
    pub bad: u64,
    /// Exchanges in flight now.
    pub in_flight: u32,
}

/// What a calibration tells while it goes on.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'a> {
    /// It is about to begin.
    Opening(&'a Opening),
    /// A target cannot be used: what, and why.
    Left(&'a str, &'a str),
    /// It waits for a pause to end, which the server or the configuration asks for.
    Waiting(Duration),
    /// A level runs.
    Running(Running),
    /// A level has ended.
    Level(&'a Measured),
}

/// How the climb ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "end")]
pub enum End {
    /// All levels were measured.
    Done,
    /// A level was above the bound.
    Above {
        /// That level.
        level: u32,
    },
    /// The site refuses this client or this identity: it was left alone at once.
    Blocked {
        /// How.
        outcome: Outcome,
        /// The status of the answer.
        status: u16,
        /// How long to leave the site alone, in milliseconds; `None`: a person must act first.
        #[serde(rename = "wait_ms")]
        wait_ms: Option<u64>,
    },
    /// A pause is longer than `max_wait`.
    Paused {
        /// Time to its end, in milliseconds.
        wait_ms: u64,
    },
    /// No target gave an answer.
    NoAnswer {
        /// What became of the first.
        why: String,
    },
    /// It was asked to stop.
    Interrupted,
}

/// What a calibration came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Findings {
    /// What it did.
    pub opening: Opening,
    /// What the levels showed, in rising order; the last may have been broken off.
    pub levels: Vec<Measured>,
    /// How it ended.
    #[serde(flatten)]
    pub end: End,
    /// What the levels come to.
    pub verdict: Verdict,
}
