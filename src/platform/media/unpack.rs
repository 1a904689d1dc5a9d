//! From bytes as they arrive to bytes of the file, within its limit.

use bytes::Bytes;

use super::Trouble;
use crate::exchange::{Decoder, Fault, Step};
use crate::store::media::Part;

/// Writes a part, decoding on the way where that is needed.
pub(super) struct Output {
    part: Part,
    max: u64,
    coded: Option<Coded>,
}

/// A body that is decoded step by step: no more is held than one piece of it, and what one step makes.
struct Coded {
    decoder: Decoder,
    made: Vec<u8>,
}

impl Output {
    /// At most `max` bytes of the file, those that are there included.
    pub(super) fn new(part: Part, decoder: Option<Decoder>, max: u64) -> Self {
        let made = Vec::new();
        Self {
            part,
            max,
            coded: decoder.map(|decoder| Coded { decoder, made }),
        }
    }

    pub(super) fn write(&mut self, bytes: Bytes) -> Result<(), Trouble> {
        match &mut self.coded {
            None => append(&mut self.part, self.max, &bytes),
            Some(coded) => {
                coded.decoder.feed(bytes);
                coded.run(&mut self.part, self.max).map(|_| ())
            }
        }
    }

    /// The part, as far as it was written; what was decoded is whole, or of no use.
    pub(super) fn close(mut self) -> Result<Part, Trouble> {
        if let Some(coded) = &mut self.coded {
            coded.decoder.end();
            if coded.run(&mut self.part, self.max)? != Step::Done {
                return Err(Trouble::Fault(Fault::Truncated {
                    received: self.part.written(),
                    expected: None,
                }));
            }
        }
        Ok(self.part)
    }

    /// Whether a later attempt can add to what is there.
    pub(super) fn can_go_on(&self) -> bool {
        self.coded.is_none() && self.part.of().validator.is_some()
    }
}

impl Coded {
    /// Writes what can be decoded by now.
    fn run(&mut self, part: &mut Part, max: u64) -> Result<Step, Trouble> {
        loop {
            let stepped = self.decoder.step(&mut self.made);
            append(part, max, &self.made)?;
            self.made.clear();
            match stepped.map_err(Trouble::Fault)? {
                Step::More => {}
                rest => return Ok(rest),
            }
        }
    }
}

/// A part grows to its limit and no further.
fn append(part: &mut Part, max: u64, bytes: &[u8]) -> Result<(), Trouble> {
    if part.written() + bytes.len() as u64 > max {
        return Err(Trouble::Fault(Fault::BodyTooLarge { limit: max }));
    }
    part.append(bytes)
        .map_err(|error| Trouble::Part(error.into()))
}
