//! From bytes as they arrive to bytes of the file, within its limit.

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;

use super::Trouble;
use crate::exchange::Fault;
use crate::store::media::Part;

/// Writes a part, decoding on the way where that is needed.
pub(super) enum Output {
    Plain(Box<Limited>),
    Gzip(Box<MultiGzDecoder<Limited>>),
}

impl Output {
    /// At most `max` bytes of the file, those that are there included.
    pub(super) fn new(part: Part, gzip: bool, max: u64) -> Self {
        let limited = Box::new(Limited {
            part,
            max,
            trouble: None,
        });
        match gzip {
            true => Self::Gzip(Box::new(MultiGzDecoder::new(*limited))),
            false => Self::Plain(limited),
        }
    }

    fn limited(&mut self) -> &mut Limited {
        match self {
            Self::Plain(limited) => limited,
            Self::Gzip(decoder) => decoder.get_mut(),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        let written = match self {
            Self::Plain(limited) => limited.write_all(bytes),
            Self::Gzip(decoder) => decoder.write_all(bytes),
        };
        written.map_err(|error| self.trouble(&error))
    }

    /// The part, as far as it was written; what was decoded is whole, or of no use.
    pub(super) fn close(mut self) -> Result<Part, Trouble> {
        let ended = match &mut self {
            Self::Plain(_) => Ok(()),
            Self::Gzip(decoder) => decoder.try_finish(),
        };
        ended.map_err(|error| self.trouble(&error))?;
        match self {
            Self::Plain(limited) => Ok(limited.part),
            Self::Gzip(decoder) => decoder
                .finish()
                .map(|limited| limited.part)
                .map_err(|error| decode_fault(&error)),
        }
    }

    /// Whether a later attempt can add to what is there.
    pub(super) fn can_go_on(&self) -> bool {
        match self {
            Self::Plain(limited) => limited.part.of().validator.is_some(),
            Self::Gzip(_) => false,
        }
    }

    /// The limit and the disk speak before the decoder does.
    fn trouble(&mut self, error: &io::Error) -> Trouble {
        match self.limited().trouble.take() {
            Some(trouble) => trouble,
            None => decode_fault(error),
        }
    }
}

fn decode_fault(error: &io::Error) -> Trouble {
    Trouble::Fault(match error.kind() {
        io::ErrorKind::UnexpectedEof => Fault::Truncated {
            received: 0,
            expected: None,
        },
        _ => Fault::Decode(format!("gzip: {error}")),
    })
}

/// A part that grows to its limit and no further.
pub(super) struct Limited {
    part: Part,
    max: u64,
    /// What an error of `Write` stands for.
    trouble: Option<Trouble>,
}

impl Limited {
    fn fail(&mut self, trouble: Trouble) -> io::Error {
        self.trouble = Some(trouble);
        io::Error::other("see `trouble`")
    }
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.part.written() + bytes.len() as u64 > self.max {
            let limit = self.max;
            return Err(self.fail(Trouble::Fault(Fault::BodyTooLarge { limit })));
        }
        match self.part.append(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(error) => Err(self.fail(Trouble::Part(error.into()))),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
