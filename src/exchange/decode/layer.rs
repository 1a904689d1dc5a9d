//! One coding of a body, undone as its bytes come.

use bytes::{Buf, Bytes, BytesMut};

use super::codec::Codec;
use super::codings::Coding;
use super::sniff::{self, Sniffed};

/// Most input of one call: what a few hundred bytes of input may ask of a decoder is thereby bounded too.
const INPUT: usize = 16 * 1024;

/// Magic numbers are looked for in so many bytes.
const MAGIC: usize = 4;

/// Where a layer stands.
#[derive(Debug)]
enum State {
    /// Nothing is known but the label.
    Labelled,
    /// In a member.
    Inside(Codec),
    /// Behind a member; another one may follow.
    Between(Codec),
    /// Not encoded at all: handed on.
    Plain,
    /// Behind the end: what comes is dropped.
    Over,
}

/// What a layer found that its label does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It is not encoded.
    Plain,
    /// It has another coding.
    Other,
    /// There is something behind its end.
    Tail,
}

/// What a call came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worked {
    /// So many bytes were made, perhaps none; there is more to do.
    Made(usize),
    /// Nothing to do until there is more input.
    Hungry,
    /// All is decoded.
    Done,
    /// The input has ended before the stream.
    Cut,
}

/// One coding.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) coding: Coding,
    state: State,
    input: Bytes,
    /// No input will follow.
    last: bool,
    /// The room was filled to its end: the decoder may hold more.
    full: bool,
    pub(super) made: u64,
    pub(super) found: Vec<Found>,
}

impl Layer {
    pub(super) fn new(coding: Coding) -> Self {
        Self {
            coding,
            state: State::Labelled,
            input: Bytes::new(),
            last: false,
            full: false,
            made: 0,
            found: Vec::new(),
        }
    }

    /// Hands in more. Cheap when the layer was hungry: then it holds [`LOOK`](super::sniff) bytes at most.
    pub(super) fn feed(&mut self, bytes: Bytes) {
        if self.input.is_empty() {
            self.input = bytes;
        } else if !bytes.is_empty() {
            let mut joined = BytesMut::with_capacity(self.input.len() + bytes.len());
            joined.extend_from_slice(&self.input);
            joined.extend_from_slice(&bytes);
            self.input = joined.freeze();
        }
    }

    /// There will be no more.
    pub(super) fn end(&mut self) {
        self.last = true;
    }

    /// How much room the next call can use at most, judged by what there is to decode.
    pub(super) fn room(&self, most: usize) -> usize {
        match self.made {
            0 => self
                .input
                .len()
                .saturating_mul(4)
                .clamp(1024, most.max(1024)),
            _ => most,
        }
    }

    /// Works on some of the input. Bounded: reads at most [`INPUT`] and writes at most `room`.
    ///
    /// # Errors
    /// What is corrupt.
    pub(super) fn work(&mut self, room: &mut [u8]) -> Result<Worked, String> {
        match &mut self.state {
            State::Labelled => self.begin(),
            State::Inside(codec) => {
                if self.input.is_empty() && !self.full {
                    return Ok(if self.last {
                        Worked::Cut
                    } else {
                        Worked::Hungry
                    });
                }
                let ran = codec
                    .run(&self.input[..self.input.len().min(INPUT)], room)
                    .map_err(|why| format!("{}: {why}", self.coding.name()))?;
                let idle = ran.read == 0 && ran.written == 0 && !ran.ended;
                if idle && !self.input.is_empty() && !self.full {
                    return Err(format!("{}: the stream stands still", self.coding.name()));
                }
                self.full = ran.written == room.len() && !ran.ended;
                self.input.advance(ran.read);
                self.made += ran.written as u64;
                if ran.ended {
                    self.leave_member();
                }
                Ok(Worked::Made(ran.written))
            }
            State::Between(_) => self.go_on(),
            State::Plain => {
                let count = self.input.len().min(room.len());
                if count == 0 {
                    return Ok(if self.last {
                        Worked::Done
                    } else {
                        Worked::Hungry
                    });
                }
                room[..count].copy_from_slice(&self.input.split_to(count));
                self.made += count as u64;
                Ok(Worked::Made(count))
            }
            State::Over => {
                if !self.input.is_empty() {
                    self.input = Bytes::new();
                    self.found.push(Found::Tail);
                }
                Ok(if self.last {
                    Worked::Done
                } else {
                    Worked::Hungry
                })
            }
        }
    }

    /// Looks at the first bytes.
    fn begin(&mut self) -> Result<Worked, String> {
        if self.input.is_empty() {
            // Nothing to decode is nothing to complain about: HEAD, 204, 304, empty answers.
            return Ok(if self.last {
                Worked::Done
            } else {
                Worked::Hungry
            });
        }
        self.state = match sniff::sniff(self.coding, &self.input, self.last)? {
            Sniffed::More => return Ok(Worked::Hungry),
            Sniffed::Coded(codec, other) => {
                if other {
                    self.found.push(Found::Other);
                }
                State::Inside(codec)
            }
            Sniffed::Plain => {
                if self.coding != Coding::Peek {
                    self.found.push(Found::Plain);
                }
                State::Plain
            }
        };
        Ok(Worked::Made(0))
    }

    fn leave_member(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Over) {
            State::Inside(codec)
                if matches!(self.coding, Coding::Gzip | Coding::Zstd | Coding::Peek) =>
            {
                State::Between(codec)
            }
            _ => State::Over,
        };
    }

    /// Begins the next member, if there is one: anything else after the end is padding (RFC 1952 §2.2).
    fn go_on(&mut self) -> Result<Worked, String> {
        if self.input.len() < MAGIC && !self.last {
            return Ok(Worked::Hungry);
        }
        let another = match self.coding {
            Coding::Zstd => sniff::is_zstd(&self.input),
            _ => sniff::is_gzip(&self.input),
        };
        self.state = match std::mem::replace(&mut self.state, State::Over) {
            State::Between(mut codec) if another => {
                codec.next_member();
                State::Inside(codec)
            }
            _ => State::Over,
        };
        Ok(Worked::Made(0))
    }
}
