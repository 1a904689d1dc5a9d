//! Content decoding in bounded steps: gzip, deflate, br and zstd, stacked in any order.
//!
//! Bytes go in as they come and come out in steps of [`STEP`] bytes at most, so that neither memory nor an arbiter's
//! time depends on what a server sends. It knows no socket and no clock.

mod codec;
mod codings;
mod layer;
mod sniff;

use bytes::Bytes;

use self::codings::{Coding, Plan};
use self::layer::{Found, Layer, Worked};
use super::error::Fault;
use crate::model::{BodyNote, Headers};
use crate::settings::ExchangeSettings;

/// Bytes decoded in one step, at most.
pub(super) const STEP: usize = 64 * 1024;

/// Below this size the expansion is not looked at.
const EXPANSION_FLOOR: u64 = 1024 * 1024;

/// How large a body may grow when it is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Bytes that any of its codings may expand to.
    pub bytes: u64,
    /// Above 1 MiB, how many times as large as it arrived is too large.
    pub expansion: u32,
}

impl Growth {
    /// The bounds of every body but those that have a limit of their own.
    pub(super) fn of(settings: &ExchangeSettings) -> Self {
        Self {
            bytes: settings.decoded_limit(),
            expansion: settings.max_expansion,
        }
    }
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is more to decode.
    More,
    /// Nothing can be decoded until there is more input.
    Hungry,
    /// The body is whole.
    Done,
}

/// A body that is being decoded.
#[derive(Debug)]
pub struct Decoder {
    /// The outermost coding first.
    layers: Vec<Layer>,
    /// Bytes handed in.
    received: u64,
    growth: Growth,
    notes: Vec<BodyNote>,
}

impl Decoder {
    /// A decoder for a body with these headers; `None` when there is nothing to undo, with what is to be noted.
    ///
    /// # Errors
    /// [`Fault::Decode`] when there are too many codings.
    pub fn new(headers: &Headers, growth: Growth) -> Result<(Option<Self>, Vec<BodyNote>), Fault> {
        let Plan { layers, notes } = codings::plan(headers)?;
        if layers.is_empty() {
            return Ok((None, notes));
        }
        let decoder = Self {
            layers: layers.into_iter().map(Layer::new).collect(),
            received: 0,
            growth,
            notes,
        };
        Ok((Some(decoder), Vec::new()))
    }

    /// Hands in more of the body as it was received. Best done when a step was [`Step::Hungry`].
    pub fn feed(&mut self, bytes: Bytes) {
        self.received += bytes.len() as u64;
        if let Some(layer) = self.layers.first_mut() {
            layer.feed(bytes);
        }
    }

    /// There is no more of the body.
    pub fn end(&mut self) {
        if let Some(layer) = self.layers.first_mut() {
            layer.end();
        }
    }

    /// Does one step: at most 64 KiB are made, by one of the codings. What the innermost makes is added to
    /// `out`.
    ///
    /// # Errors
    /// [`Fault::Truncated`], [`Fault::DecodedTooLarge`], [`Fault::ExpandsTooMuch`], or [`Fault::Decode`] for a corrupt
    /// stream. What lies in `out` is good as far as it goes.
    pub fn step(&mut self, out: &mut Vec<u8>) -> Result<Step, Fault> {
        // The innermost that can work does: so what waits between two of them is one step at most.
        for index in (0..self.layers.len()).rev() {
            let innermost = index + 1 == self.layers.len();
            match self.work(index, innermost.then_some(&mut *out))? {
                Worked::Made(_) => return Ok(Step::More),
                Worked::Hungry => {}
                Worked::Done if innermost => return Ok(Step::Done),
                Worked::Done => {
                    self.layers[index + 1].end();
                    // Its work is over: the one behind it goes on alone.
                    self.layers.drain(..=index).for_each(drop);
                    return Ok(Step::More);
                }
                Worked::Cut => {
                    return Err(Fault::Truncated {
                        received: self.received,
                        expected: None,
                    });
                }
            }
        }
        Ok(Step::Hungry)
    }

    fn work(&mut self, index: usize, out: Option<&mut Vec<u8>>) -> Result<Worked, Fault> {
        let layer = &mut self.layers[index];
        // One byte above the limit tells that there is more.
        let limit = self.growth.bytes;
        let left = limit.saturating_add(1).saturating_sub(layer.made);
        let most = STEP.min(usize::try_from(left).unwrap_or(STEP));
        let mut between = Vec::new();
        let inner = out.is_none();
        let out = out.unwrap_or(&mut between);
        let before = out.len();
        out.resize(before + layer.room(STEP).min(most), 0);
        let worked = layer.work(&mut out[before..]).map_err(Fault::Decode);
        let made = match worked {
            Ok(Worked::Made(made)) => made,
            _ => 0,
        };
        out.truncate(before + made);
        if layer.made > limit {
            // The byte too many is none of the body.
            out.truncate(before + made.saturating_sub(1));
            return Err(Fault::DecodedTooLarge { limit });
        }
        let most = u64::from(self.growth.expansion);
        if layer.made > EXPANSION_FLOOR && layer.made / self.received.max(1) >= most {
            let limit = self.growth.expansion;
            return Err(Fault::ExpandsTooMuch { limit });
        }
        let (coding, found) = (layer.coding, std::mem::take(&mut layer.found));
        for note in found.into_iter().map(|found| note(coding, found)) {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        if inner && made > 0 {
            self.layers[index + 1].feed(between.into());
        }
        worked
    }

    /// What was odd and put up with; told once.
    pub fn notes(&mut self) -> Vec<BodyNote> {
        std::mem::take(&mut self.notes)
    }
}

fn note(coding: Coding, found: Found) -> BodyNote {
    match found {
        Found::Plain => BodyNote::NotEncoded(coding.name()),
        Found::Other if coding == Coding::Peek => BodyNote::EncodedTwice,
        Found::Other => BodyNote::OtherCoding(coding.name()),
        Found::Tail => BodyNote::BytesBehind,
    }
}

#[cfg(test)]
mod tests;
