//! The three libraries behind one call: some input, some room, what became of both.

use std::fmt;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Decompress, FlushDecompress, Status};
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

/// Largest window of a zstd frame, as a power of two: 8 MiB, which RFC 9659 makes the most that may be sent.
const ZSTD_WINDOW: u32 = 23;

/// What a call came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ran {
    /// Bytes of the input that were used up.
    pub(super) read: usize,
    /// Bytes of the room that were filled.
    pub(super) written: usize,
    /// Whether the member, stream or frame is complete.
    pub(super) ended: bool,
}

type Brotli = BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>;

/// A decoder at work.
pub(super) enum Codec {
    /// gzip (one member), zlib or bare deflate.
    Inflate(Box<Decompress>),
    /// One Brotli stream. Windows above 16 MiB, which HTTP does not know, are refused.
    Brotli(Box<Brotli>),
    /// zstd; frame after frame.
    Zstd(DCtx<'static>),
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inflate(_) => "Inflate",
            Self::Brotli(_) => "Brotli",
            Self::Zstd(_) => "Zstd",
        })
    }
}

impl Codec {
    pub(super) fn gzip() -> Self {
        Self::Inflate(Box::new(Decompress::new_gzip(15)))
    }

    pub(super) fn zlib() -> Self {
        Self::Inflate(Box::new(Decompress::new(true)))
    }

    pub(super) fn bare_deflate() -> Self {
        Self::Inflate(Box::new(Decompress::new(false)))
    }

    pub(super) fn brotli() -> Self {
        let heap = StandardAlloc::default();
        Self::Brotli(Box::new(BrotliState::new_strict(heap, heap, heap)))
    }

    /// # Errors
    /// When there is no memory for it.
    pub(super) fn zstd() -> Result<Self, String> {
        let mut context = DCtx::try_create().ok_or("zstd: out of memory")?;
        context
            .set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW))
            .map_err(zstd_error)?;
        Ok(Self::Zstd(context))
    }

    /// Begins the next member. Frames of zstd follow each other of their own accord.
    pub(super) fn next_member(&mut self) {
        if let Self::Inflate(inflate) = self {
            // What was made for gzip stays so.
            inflate.reset(true);
        }
    }

    /// Decodes some of `input` into `room`.
    ///
    /// # Errors
    /// What is corrupt.
    pub(super) fn run(&mut self, input: &[u8], room: &mut [u8]) -> Result<Ran, String> {
        match self {
            Self::Inflate(inflate) => run_inflate(inflate, input, room),
            Self::Brotli(state) => run_brotli(state, input, room),
            Self::Zstd(context) => {
                let mut input = InBuffer::around(input);
                let mut output = OutBuffer::around(room);
                let left = context
                    .decompress_stream(&mut output, &mut input)
                    .map_err(zstd_error)?;
                Ok(Ran {
                    read: input.pos,
                    written: output.pos(),
                    ended: left == 0,
                })
            }
        }
    }
}

fn run_inflate(inflate: &mut Decompress, input: &[u8], room: &mut [u8]) -> Result<Ran, String> {
    let (read, written) = (inflate.total_in(), inflate.total_out());
    let status = inflate
        .decompress(input, room, FlushDecompress::None)
        .map_err(|error| error.to_string())?;
    let since = |now: u64, then: u64| usize::try_from(now - then).unwrap_or(usize::MAX);
    Ok(Ran {
        read: since(inflate.total_in(), read),
        written: since(inflate.total_out(), written),
        ended: status == Status::StreamEnd,
    })
}

fn run_brotli(state: &mut Brotli, input: &[u8], room: &mut [u8]) -> Result<Ran, String> {
    let (mut read, mut written, mut total) = (0, 0, 0);
    let (mut left, mut free) = (input.len(), room.len());
    let result = BrotliDecompressStream(
        &mut left,
        &mut read,
        input,
        &mut free,
        &mut written,
        room,
        &mut total,
        state,
    );
    match result {
        BrotliResult::ResultFailure => Err(format!("{:?}", state.error_code)),
        result => Ok(Ran {
            read,
            written,
            ended: matches!(result, BrotliResult::ResultSuccess),
        }),
    }
}

fn zstd_error(code: usize) -> String {
    zstd_safe::get_error_name(code).to_owned()
}
