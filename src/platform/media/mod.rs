//! A task whose answer is a file: the file is written while it arrives, off the arbiter and in bounded memory.

mod unpack;

use std::path::PathBuf;

use bytes::{Bytes, BytesMut};

use self::unpack::Output;
use crate::exchange::{
    BodySink, ContentRange, Decoder, Fault, Growth, Start, ask_for_rest, validator,
};
use crate::model::{Answer, Record, Request};
use crate::site::Save;
use crate::store::StoreError;
use crate::store::media::{Part, PartError, PartOf, Place, Saved};

/// Bytes that are gathered before the disk is troubled with them.
const BUFFER: usize = 256 * 1024;

/// Why a file is not saved.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The disk, or another writer.
    Part(PartError),
    /// What arrived.
    Fault(Fault),
}

impl From<PartError> for Trouble {
    fn from(error: PartError) -> Self {
        Self::Part(error)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Part(error.into())
    }
}

/// Where the file stands.
enum Stage {
    /// Perhaps an earlier attempt left a part.
    Asking(Option<Part>),
    /// A body is coming, and nothing of it is written.
    Taken {
        of: PartOf,
        decoder: Option<Box<Decoder>>,
        old: Option<Part>,
    },
    /// It is being written.
    Writing(Output),
    /// The blocking pool had it when it was given up.
    Lost,
}

/// The file of one task, in one lease.
pub(super) struct Download {
    save: Save,
    /// How many times larger than it arrives it may be.
    max_expansion: u32,
    place: Place,
    stage: Stage,
    buffer: BytesMut,
    trouble: Option<Trouble>,
}

/// What an answer means for the file.
pub(super) enum Rest {
    /// It is as any other answer.
    Plain,
    /// There is no rest: what is there is the whole file.
    Whole,
    /// What is there is of no use: ask for the whole file.
    Anew,
}

impl Download {
    /// The file that `save` describes, in the job's directory `out`; what an earlier attempt left is found again.
    pub(super) async fn open(
        save: Save,
        out: PathBuf,
        max_expansion: u32,
    ) -> Result<Self, Trouble> {
        let place = Place {
            folder: out.join(&save.folder),
            stem: save.stem.clone(),
        };
        let (looked_at, checksum) = (place.clone(), save.checksum);
        let part = blocking(move || Part::resume(&looked_at, checksum)).await??;
        Ok(Self {
            save,
            max_expansion,
            place,
            stage: Stage::Asking(part),
            buffer: BytesMut::new(),
            trouble: None,
        })
    }

    /// How it is saved.
    pub(super) fn save(&self) -> &Save {
        &self.save
    }

    /// Bytes that are there, and what names them, where the rest can be asked for.
    fn have(&self) -> Option<(u64, &str)> {
        match &self.stage {
            Stage::Asking(Some(part)) => Some((part.written(), part.of().validator.as_deref()?)),
            _ => None,
        }
    }

    /// The request with what asks for the rest.
    pub(super) fn request(&self, request: &Request) -> Request {
        let mut request = request.clone();
        if let Some((have, validator)) = self.have() {
            request.headers.extend(ask_for_rest(have, validator));
        }
        request
    }

    /// What an answer to a request for the rest says of what is there.
    pub(super) fn rest(&self, answer: &Answer) -> Rest {
        let Stage::Asking(Some(part)) = &self.stage else {
            return Rest::Plain;
        };
        match answer.status {
            416 => match ContentRange::of(&answer.headers) {
                Some(ContentRange::None { total })
                    if total == part.written() && part.of().total.is_none_or(|t| t == total) =>
                {
                    Rest::Whole
                }
                _ => Rest::Anew,
            },
            206 if self.fits(part, answer).is_none() => Rest::Anew,
            _ => Rest::Plain,
        }
    }

    /// The length of the rest that a 206 brings; `None`: it is not the rest of what is there.
    fn fits(&self, part: &Part, answer: &Answer) -> Option<u64> {
        let Some(ContentRange::Bytes { first, last, total }) = ContentRange::of(&answer.headers)
        else {
            return None;
        };
        let of = part.of();
        let same = |a: Option<u64>, b: Option<u64>| a.is_none() || b.is_none() || a == b;
        let tag = answer.headers.get("etag");
        let fits = first == part.written()
            && same(total, of.total)
            && total.or(of.total).is_none_or(|total| last + 1 == total)
            && tag.is_none_or(|tag| {
                let known = of.validator.as_deref().unwrap_or_default();
                !known.starts_with('"') || tag == known
            })
            && answer.headers.get("content-encoding").is_none();
        fits.then_some(last - first + 1)
    }

    /// Begins to take what `start` begins, which `decoder` decodes where it is coded as it arrives.
    fn begin(
        &mut self,
        start: &Answer,
        length: Option<u64>,
        decoder: Option<Decoder>,
    ) -> Result<bool, Fault> {
        let old = match std::mem::replace(&mut self.stage, Stage::Lost) {
            Stage::Asking(old) => old,
            other => {
                self.stage = other;
                return Ok(false);
            }
        };
        let limit = self.save.max_bytes;
        if start.status == 206 {
            let rest = old.as_ref().and_then(|part| self.fits(part, start));
            let (part, rest) = match (old, rest) {
                (Some(part), Some(rest)) => (part, rest),
                (old, _) => {
                    self.stage = Stage::Asking(old);
                    return Ok(false);
                }
            };
            if length.is_some_and(|length| length != rest) {
                return Err(Fault::Protocol(
                    "the length of a part is not that of its range".to_owned(),
                ));
            }
            if part.written() + rest > limit {
                return Err(Fault::BodyTooLarge { limit });
            }
            self.stage = Stage::Writing(Output::new(part, None, limit));
            return Ok(true);
        }
        let kind = self.save.file_type(start).filter(|_| start.status == 200);
        let Some(kind) = kind else {
            self.stage = Stage::Asking(old);
            return Ok(false);
        };
        if length.is_some_and(|length| length > limit) {
            self.stage = Stage::Asking(old);
            return Err(Fault::BodyTooLarge { limit });
        }
        let coded = decoder.is_some();
        self.stage = Stage::Taken {
            of: PartOf {
                validator: validator(&start.headers).filter(|_| !coded),
                total: length.filter(|_| !coded),
                content_type: kind.name,
                extension: kind.extension.to_owned(),
            },
            decoder: decoder.map(Box::new),
            old,
        };
        Ok(true)
    }

    /// Whether it has taken a body.
    pub(super) fn taken(&self) -> bool {
        !matches!(self.stage, Stage::Asking(_))
    }

    /// Brings what was gathered to the disk.
    async fn flush(&mut self) -> Result<(), Trouble> {
        let stage = std::mem::replace(&mut self.stage, Stage::Lost);
        let bytes = self.buffer.split().freeze();
        let (place, checksum, max) = (self.place.clone(), self.save.checksum, self.save.max_bytes);
        let (stage, written) = blocking(move || {
            let mut output = match stage {
                Stage::Writing(output) => output,
                Stage::Taken { of, decoder, old } => {
                    let part = match old {
                        Some(old) => old.restart(of, checksum),
                        None => Part::create(&place, of, checksum),
                    };
                    match part {
                        Ok(part) => Output::new(part, decoder.map(|decoder| *decoder), max),
                        Err(error) => return (Stage::Lost, Err(error.into())),
                    }
                }
                other => return (other, Ok(())),
            };
            let written = output.write(bytes);
            (Stage::Writing(output), written)
        })
        .await?;
        self.stage = stage;
        // The room is kept: the next bytes need it again.
        self.buffer.reserve(BUFFER);
        written
    }

    /// The exchange came to nothing: what arrived is kept for the next attempt, if it is good for anything. Gives what
    /// the disk had to say.
    pub(super) async fn give_up(mut self, fault: &Fault) -> Option<PartError> {
        if let Some(Trouble::Part(error)) = self.trouble.take() {
            return Some(error);
        }
        let useless = matches!(
            fault,
            Fault::BodyTooLarge { .. }
                | Fault::DecodedTooLarge { .. }
                | Fault::ExpandsTooMuch { .. }
                | Fault::Decode(_)
                | Fault::Protocol(_)
        );
        if !useless
            && matches!(self.stage, Stage::Writing(_) | Stage::Taken { .. })
            && let Err(Trouble::Part(error)) = self.flush().await
        {
            return Some(error);
        }
        let kept = match &self.stage {
            Stage::Asking(None) => return None,
            Stage::Asking(Some(part)) => part.of().validator.is_some(),
            Stage::Taken { of, .. } => of.validator.is_some(),
            Stage::Writing(output) => output.can_go_on(),
            Stage::Lost => true,
        };
        match useless || !kept {
            true => self.forget().await.err(),
            false => None,
        }
    }

    /// What is there is of no use.
    pub(super) async fn forget(&mut self) -> Result<(), PartError> {
        // Its lock goes first.
        self.stage = Stage::Asking(None);
        let place = self.place.clone();
        match blocking(move || place.clear()).await {
            Ok(done) => done.map_err(PartError::Store),
            Err(_) => Ok(()),
        }
    }

    /// The whole file is there, or `answer` holds it, or the rest of it.
    pub(super) async fn finish(mut self, answer: &Answer) -> Result<Saved, Trouble> {
        if !answer.body.is_empty() && !self.taken() {
            let length = Some(answer.body.len() as u64);
            // It is decoded already.
            let takes = self.begin(answer, length, None).map_err(Trouble::Fault)?;
            if !takes {
                let why = "the answer is not the file, nor the rest of it";
                return Err(Trouble::Fault(Fault::Protocol(why.to_owned())));
            }
            self.buffer.extend_from_slice(&answer.body);
        }
        if self.taken() {
            self.flush().await?;
        }
        blocking(move || {
            let part = match self.stage {
                Stage::Writing(output) => output.close()?,
                Stage::Asking(Some(part)) => part,
                _ => return Err(Trouble::Fault(Fault::Cancelled)),
            };
            let (received, expected) = (part.written(), part.of().total);
            if expected.is_some_and(|total| total != received) {
                return Err(Trouble::Fault(Fault::Truncated { received, expected }));
            }
            Ok(part.finish()?)
        })
        .await?
    }
}

impl BodySink for Download {
    fn takes(&mut self, start: Start<'_>) -> Result<bool, Fault> {
        let growth = Growth {
            bytes: self.save.max_bytes,
            expansion: self.max_expansion,
        };
        let (decoder, _) = Decoder::new(&start.answer.headers, growth)?;
        self.begin(start.answer, start.length, decoder)
    }

    async fn write(&mut self, bytes: Bytes) -> Result<(), Fault> {
        self.buffer.extend_from_slice(&bytes);
        if self.buffer.len() < BUFFER {
            return Ok(());
        }
        match self.flush().await {
            Ok(()) => Ok(()),
            Err(Trouble::Fault(fault)) => Err(fault),
            Err(trouble) => {
                self.trouble = Some(trouble);
                Err(Fault::Cancelled)
            }
        }
    }
}

/// The record of a saved file.
pub(super) fn record(
    site: &crate::model::Name,
    url: &url::Url,
    save: Save,
    saved: Saved,
) -> Record {
    let mut fields = save.fields;
    let path = format!("{}/{}", save.folder, saved.name);
    fields.insert("url".to_owned(), url.as_str().into());
    fields.insert("path".to_owned(), path.into());
    fields.insert("bytes".to_owned(), saved.bytes.into());
    fields.insert("content_type".to_owned(), saved.content_type.into());
    fields.insert("checksum".to_owned(), saved.checksum.into());
    Record {
        site: site.clone(),
        kind: save.kind,
        key: save.key,
        fields,
    }
}

/// Runs what blocks on the blocking pool.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Trouble> {
    // The pool is gone, or the work panicked: there is no file to speak of.
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| Trouble::Fault(Fault::Cancelled))
}
