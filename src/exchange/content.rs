//! The body of an answer while it arrives: kept as it is, or decoded piece by piece.

use bytes::{Bytes, BytesMut};

use super::decode::{Decoder, Growth, STEP, Step};
use super::error::Fault;
use super::head::Head;
use super::redirect::leads_on;
use crate::model::BodyNote;

/// Room made for a body before its first byte has come, at most.
const PRESIZE: u64 = 1024 * 1024;

/// Decoding yields to other tasks of the arbiter after this many steps (1 MiB at most).
const STEPS_AT_ONCE: usize = 1024 * 1024 / STEP;

/// A body as far as it has come.
#[derive(Debug)]
pub(super) struct Content {
    received: u64,
    notes: Vec<BodyNote>,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// Not encoded.
    Plain(Collected),
    /// Encoded: at no time is more held of it than its decoded bytes and one piece.
    Coded(Coded),
}

#[derive(Debug)]
struct Coded {
    /// `None` when it has given up on the body of a redirect.
    decoder: Option<Decoder>,
    decoded: Vec<u8>,
    /// The latest piece. It is decoded when the next one comes, so that the last one does not keep the permit.
    late: Option<Bytes>,
    /// Nobody reads the body of a redirect: what is wrong with it is no fault.
    forgiving: bool,
}

impl Content {
    /// What comes behind `head`. `growth` bounds what it is decoded to.
    ///
    /// # Errors
    /// [`Fault::Decode`] when it is encoded too many times.
    pub(super) fn behind(head: &Head, growth: Growth) -> Result<Self, Fault> {
        let forgiving = leads_on(head);
        let (decoder, notes) = match Decoder::new(&head.headers, growth) {
            Err(_) if forgiving => (None, Vec::new()),
            made => made?,
        };
        let form = match decoder {
            None => Form::Plain(Collected::default()),
            decoder => Form::Coded(Coded {
                decoder,
                decoded: Vec::new(),
                late: None,
                forgiving,
            }),
        };
        Ok(Self {
            received: 0,
            notes,
            form,
        })
    }

    /// Nothing.
    pub(super) fn none() -> Self {
        Self {
            received: 0,
            notes: Vec::new(),
            form: Form::Plain(Collected::default()),
        }
    }

    /// Bytes received.
    pub(super) const fn received(&self) -> u64 {
        self.received
    }

    /// Takes the next piece. `expected` is the length of the whole, where it was announced.
    ///
    /// # Errors
    /// When what came before cannot be decoded.
    pub(super) async fn add(&mut self, piece: Bytes, expected: Option<u64>) -> Result<(), Fault> {
        self.received += piece.len() as u64;
        match &mut self.form {
            Form::Plain(collected) => collected.add(piece, self.received, expected),
            Form::Coded(coded) => {
                coded.hand_in();
                coded.late = Some(piece);
                while coded.some(STEPS_AT_ONCE, usize::MAX)? == Step::More {
                    tokio::task::yield_now().await;
                }
            }
        }
        Ok(())
    }

    /// Says that it has ended.
    pub(super) fn end(&mut self) {
        if let Form::Coded(coded) = &mut self.form {
            coded.hand_in();
            coded.decoder.iter_mut().for_each(Decoder::end);
        }
    }

    /// Decodes up to [`STEP`] bytes of what is left, once it has ended. Returns whether that was all.
    ///
    /// # Errors
    /// When it cannot be decoded, or has not ended where it should.
    pub(super) fn a_little(&mut self) -> Result<bool, Fault> {
        match &mut self.form {
            Form::Plain(_) => Ok(true),
            Form::Coded(coded) => {
                let enough = coded.decoded.len() + STEP;
                Ok(coded.some(STEPS_AT_ONCE, enough)? != Step::More)
            }
        }
    }

    /// Decodes what is left, once it has ended.
    ///
    /// # Errors
    /// As [`a_little`](Self::a_little).
    pub(super) async fn rest(&mut self) -> Result<(), Fault> {
        if let Form::Coded(coded) = &mut self.form {
            while coded.some(STEPS_AT_ONCE, usize::MAX)? == Step::More {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// Decodes what can be decoded of a body that was cut short.
    pub(super) async fn salvage(&mut self) {
        if let Form::Coded(coded) = &mut self.form {
            coded.hand_in();
            // What it cannot decode is not there.
            while matches!(coded.some(STEPS_AT_ONCE, usize::MAX), Ok(Step::More)) {
                tokio::task::yield_now().await;
            }
        }
    }

    /// The decoded body, and what was odd about its labels.
    pub(super) fn into_body(self) -> (Bytes, Vec<BodyNote>) {
        let mut notes = self.notes;
        let body = match self.form {
            Form::Plain(collected) => collected.into_bytes(),
            Form::Coded(mut coded) => {
                notes.extend(coded.decoder.iter_mut().flat_map(Decoder::notes));
                coded.decoded.into()
            }
        };
        (body, notes)
    }
}

impl Coded {
    fn hand_in(&mut self) {
        if let (Some(decoder), Some(piece)) = (&mut self.decoder, self.late.take()) {
            decoder.feed(piece);
        }
    }

    /// Some steps, until `enough` bytes are decoded.
    fn some(&mut self, steps: usize, enough: usize) -> Result<Step, Fault> {
        let Some(decoder) = &mut self.decoder else {
            return Ok(Step::Done);
        };
        for _ in 0..steps {
            if self.decoded.len() >= enough {
                break;
            }
            match decoder.step(&mut self.decoded) {
                Ok(Step::More) => {}
                Err(Fault::Truncated { .. } | Fault::Decode(_)) if self.forgiving => {
                    self.decoder = None;
                    return Ok(Step::Done);
                }
                other => return other,
            }
        }
        Ok(Step::More)
    }
}

/// A body in one piece; the first chunk is not copied unless a second follows.
#[derive(Debug, Default)]
struct Collected {
    first: Option<Bytes>,
    rest: BytesMut,
}

impl Collected {
    fn add(&mut self, piece: Bytes, received: u64, expected: Option<u64>) {
        if self.first.is_none() && self.rest.is_empty() {
            self.first = Some(piece);
            return;
        }
        if let Some(first) = self.first.take() {
            // What is announced and does not come costs nothing: a thousand slow servers may announce much.
            let room = expected.map_or(4 * received, |length| length.min(16 * received));
            let room = room.min(PRESIZE);
            self.rest
                .reserve(usize::try_from(room.max(received)).unwrap_or(0));
            self.rest.extend_from_slice(&first);
        }
        self.rest.extend_from_slice(&piece);
    }

    fn into_bytes(self) -> Bytes {
        self.first.unwrap_or_else(|| self.rest.freeze())
    }
}
