//! Content decoding with bounded memory: gzip, in steps of 64 KiB.

use std::io::Read;

use bytes::Bytes;
use flate2::bufread::GzDecoder;

use super::error::Fault;
use crate::model::Headers;

/// Bytes decoded in one step.
pub(super) const STEP: usize = 64 * 1024;

/// An expansion at or above this is what only a bomb does: deflate's own limit is 1032.
const MAX_RATIO: u64 = 1000;

/// Below this size the ratio is not looked at.
const RATIO_FLOOR: u64 = 1024 * 1024;

/// What a step came to.
#[derive(Debug)]
pub(super) enum Step {
    /// There is more to decode.
    More(Box<Decoding>),
    /// The decoded body.
    Done(Bytes),
}

/// A body that is being decoded. Each step does a bounded amount of work, so that an arbiter stays responsive.
#[derive(Debug)]
pub(super) struct Decoding {
    body: Bytes,
    /// The member being read, at its place in `body`; `None` between two members.
    member: Option<GzDecoder<Cursor>>,
    /// Where the next member begins.
    next: usize,
    decoded: Vec<u8>,
    limit: u64,
}

type Cursor = std::io::Cursor<Bytes>;

/// Begins to decode `body` by the values of `Content-Encoding`. `limit` bounds the decoded size, in bytes.
///
/// # Errors
/// [`Fault::Decode`] names a coding that was not asked for.
pub(super) fn begin(body: Bytes, codings: &[&str], limit: u64) -> Result<Step, Fault> {
    let mut codings = codings
        .iter()
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"));
    let Some(coding) = codings.next() else {
        return Ok(Step::Done(body));
    };
    // Nothing to decode is nothing to complain about: HEAD, 204, 304, empty answers.
    if body.is_empty() {
        return Ok(Step::Done(body));
    }
    let gzip = coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip");
    if !gzip || codings.next().is_some() {
        let coding: String = coding.chars().take(40).collect();
        let text = format!("its content coding begins with {coding:?}; allowed: one gzip, or none");
        return Err(Fault::Decode(text));
    }
    // Servers label plain bodies as gzip; browsers show them as they are.
    if !is_gzip(&body) {
        return Ok(Step::Done(body));
    }
    Ok(Step::More(Box::new(Decoding {
        member: Some(GzDecoder::new(Cursor::new(body.clone()))),
        next: 0,
        decoded: Vec::with_capacity(STEP.min(body.len().saturating_mul(4))),
        body,
        limit,
    })))
}

/// Whether a body that begins with `start` is coded with gzip, and with nothing else, as its headers say.
#[must_use]
pub fn is_gzip_coded(start: &[u8], headers: &Headers) -> bool {
    let mut codings = headers
        .all("content-encoding")
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"));
    let gzip =
        |coding: &str| coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip");
    codings.next().is_some_and(gzip) && codings.next().is_none() && is_gzip(start)
}

fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

impl Decoding {
    /// Decodes up to [`STEP`] bytes.
    ///
    /// # Errors
    /// [`Fault::Truncated`], [`Fault::DecodedTooLarge`], or [`Fault::Decode`] for a corrupt stream.
    pub(super) fn step(mut self: Box<Self>) -> Result<Step, Fault> {
        let Some(member) = &mut self.member else {
            let rest = self.body.slice(self.next..);
            // Members may follow each other; anything else after the end is padding (RFC 1952 §2.2).
            if !is_gzip(&rest) {
                return Ok(Step::Done(Bytes::from(self.decoded)));
            }
            self.member = Some(GzDecoder::new(Cursor::new(rest)));
            return Ok(Step::More(self));
        };
        let before = self.decoded.len();
        // One byte above the limit tells that there is more.
        let room = (self.limit + 1 - before as u64).min(STEP as u64);
        let read = member.take(room).read_to_end(&mut self.decoded);
        let total = self.decoded.len() as u64;
        let ratio = total / (self.body.len() as u64);
        if total > self.limit || (total > RATIO_FLOOR && ratio >= MAX_RATIO) {
            return Err(Fault::DecodedTooLarge { limit: self.limit });
        }
        match read {
            Ok(count) if (count as u64) < room => {
                self.next += usize::try_from(member.get_ref().position()).unwrap_or(usize::MAX);
                self.member = None;
                Ok(Step::More(self))
            }
            Ok(_) => Ok(Step::More(self)),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(Fault::Truncated {
                    received: self.body.len() as u64,
                    expected: None,
                })
            }
            Err(error) => Err(Fault::Decode(format!("gzip: {error}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::*;

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn decode(body: &[u8], codings: &[&str], limit: u64) -> Result<Bytes, Fault> {
        let mut step = begin(Bytes::copy_from_slice(body), codings, limit)?;
        loop {
            match step {
                Step::Done(body) => return Ok(body),
                Step::More(decoding) => {
                    assert!(decoding.decoded.len() as u64 <= limit + 1);
                    step = decoding.step()?;
                }
            }
        }
    }

    #[test]
    fn members_padding_and_labels() {
        let two = [gzip(b"one "), gzip(b"two")].concat();
        let padded = [gzip(b"one"), b"\0\0 rubbish".to_vec()].concat();
        for (body, codings, expected) in [
            (b"plain".to_vec(), &[][..], "plain"),
            (b"plain".to_vec(), &["identity"], "plain"),
            (b"plain".to_vec(), &["gzip"], "plain"),
            (b"".to_vec(), &["gzip"], ""),
            (b"".to_vec(), &["br"], ""),
            (gzip(b""), &["gzip"], ""),
            (gzip(b"one"), &["GZip"], "one"),
            (gzip(b"one"), &["x-gzip"], "one"),
            (gzip(b"one"), &["identity, gzip"], "one"),
            (two, &["gzip"], "one two"),
            (padded, &["gzip"], "one"),
        ] {
            assert_eq!(
                decode(&body, codings, 1000).unwrap(),
                expected,
                "{codings:?}"
            );
        }
    }

    #[test]
    fn unknown_codings_are_named() {
        for codings in [&["br"][..], &["gzip, gzip"], &["gzip", "deflate"]] {
            let fault = decode(&gzip(b"one"), codings, 1000).unwrap_err();
            assert!(matches!(fault, Fault::Decode(_)), "{codings:?}");
        }
        let fault = decode(b"x", &["br"], 1000).unwrap_err();
        assert!(fault.to_string().contains("\"br\""));
    }

    #[test]
    fn a_stream_that_stops_is_truncated_and_a_changed_one_is_corrupt() {
        let whole = gzip(&b"some text that is long enough ".repeat(20));
        for end in 2..whole.len() {
            let fault = decode(&whole[..end], &["gzip"], 10_000).unwrap_err();
            assert!(matches!(fault, Fault::Truncated { .. }), "{end}: {fault}");
        }
        let mut changed = whole.clone();
        let crc = changed.len() - 6;
        changed[crc] ^= 1;
        assert!(matches!(
            decode(&changed, &["gzip"], 10_000),
            Err(Fault::Decode(_))
        ));
    }

    #[test]
    fn the_limit_is_exact() {
        let body = gzip(&[7; 1000]);
        assert_eq!(decode(&body, &["gzip"], 1000).unwrap().len(), 1000);
        assert_eq!(
            decode(&body, &["gzip"], 999),
            Err(Fault::DecodedTooLarge { limit: 999 })
        );
    }

    #[test]
    fn a_bomb_stops_at_its_ratio() {
        let bomb = gzip(&vec![0; 4 * 1024 * 1024]);
        let limit = 1024 * 1024 * 1024;
        assert!(matches!(
            decode(&bomb, &["gzip"], limit),
            Err(Fault::DecodedTooLarge { .. })
        ));
    }

    proptest! {
        #[test]
        fn what_was_encoded_comes_back(
            data in prop::collection::vec(any::<u8>(), 0..400),
            times in 0usize..1000,
        ) {
            let data = data.repeat(times);
            prop_assert_eq!(decode(&gzip(&data), &["gzip"], 400_000).unwrap(), data);
        }

        #[test]
        fn no_bytes_make_it_panic(tail in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&[&[0x1f, 0x8b, 8][..], &tail].concat(), &["gzip"], 1000);
        }
    }
}
