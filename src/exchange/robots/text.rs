//! From the bytes of a robots.txt to bytes that can be split into lines: marks, encodings, size.

use std::borrow::Cow;
use std::io::Read;

use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};
use flate2::read::MultiGzDecoder;

/// Bytes of a robots.txt that are read; RFC 9309 §2.5 asks for at least this many.
pub(super) const MAX_BYTES: usize = 500 * 1024;

/// Two bytes that every gzip stream begins with.
const GZIP: &[u8] = b"\x1f\x8b";

/// The part of a file that is read, as UTF-8 without its mark, up to the end of the last line that is whole.
///
/// A file that was packed and not labelled so is unpacked, and UTF-16 is known by its mark or by the zeros beside its
/// first letters: both are met, and to take either for a file without rules would allow what it forbids.
///
/// `whole`: the file ends where the body does; else its last line may be cut.
pub(super) fn readable(body: &[u8], whole: bool) -> Cow<'_, [u8]> {
    if body.starts_with(GZIP) {
        let mut plain = Vec::new();
        // One byte more tells that there is more. What was read before an error is used: it is a file cut short.
        let _ = MultiGzDecoder::new(body)
            .take(MAX_BYTES as u64 + 1)
            .read_to_end(&mut plain);
        return Cow::Owned(decoded(&plain, whole).into_owned());
    }
    decoded(body, whole)
}

fn decoded(body: &[u8], whole: bool) -> Cow<'_, [u8]> {
    let (encoding, body) = match utf16(body) {
        Some((encoding, mark)) => (Some(encoding), &body[mark..]),
        None => (None, body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body)),
    };
    let cut = !whole || body.len() > MAX_BYTES;
    let body = &body[..body.len().min(MAX_BYTES)];
    let text: Cow<'_, [u8]> = match encoding {
        None => Cow::Borrowed(body),
        Some(encoding) => match encoding.decode_without_bom_handling(body).0 {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        },
    };
    if !cut {
        return text;
    }
    // A rule that is cut in two would mean something else.
    let end = text.iter().rposition(|byte| matches!(byte, b'\r' | b'\n'));
    let end = end.unwrap_or(0);
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[..end]),
        Cow::Owned(mut text) => {
            text.truncate(end);
            Cow::Owned(text)
        }
    }
}

/// Which UTF-16 it is, and the length of its mark.
fn utf16(body: &[u8]) -> Option<(&'static Encoding, usize)> {
    match body {
        [0xff, 0xfe, ..] => Some((UTF_16LE, 2)),
        [0xfe, 0xff, ..] => Some((UTF_16BE, 2)),
        [1..=0x7f, 0, 1..=0x7f, 0, ..] => Some((UTF_16LE, 0)),
        [0, 1..=0x7f, 0, 1..=0x7f, ..] => Some((UTF_16BE, 0)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "User-agent: *\nDisallow: /é";

    fn gzip(body: &[u8]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(body).unwrap();
        packed.finish().unwrap()
    }

    fn utf16(mark: bool, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        let units = mark
            .then_some(0xfeff)
            .into_iter()
            .chain(TEXT.encode_utf16());
        units.flat_map(bytes).collect()
    }

    #[test]
    fn l43_every_form_of_a_file_reads_the_same() {
        for body in [
            TEXT.as_bytes().to_vec(),
            [b"\xef\xbb\xbf", TEXT.as_bytes()].concat(),
            utf16(true, u16::to_le_bytes),
            utf16(true, u16::to_be_bytes),
            utf16(false, u16::to_le_bytes),
            utf16(false, u16::to_be_bytes),
            gzip(TEXT.as_bytes()),
            gzip(&[b"\xef\xbb\xbf", TEXT.as_bytes()].concat()),
            gzip(&utf16(true, u16::to_le_bytes)),
        ] {
            assert_eq!(readable(&body, true), TEXT.as_bytes(), "{body:?}");
        }
    }

    #[test]
    fn a_packed_file_is_read_up_to_the_limit_and_a_cut_one_up_to_the_cut() {
        let line = b"Disallow: /0123456789\n";
        let long = line.repeat(1_000_000);
        let read = readable(&gzip(&long), true).into_owned();
        assert!(read.len() <= MAX_BYTES && read.len() > MAX_BYTES - 2 * line.len());
        assert!(long.starts_with(&read));
        let packed = gzip(TEXT.as_bytes());
        let _ = readable(&packed[..packed.len() - 6], false);
        assert_eq!(readable(b"\x1f\x8b", true), b"".as_slice());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_grow(mut body in prop::collection::vec(any::<u8>(), 0..300), packed: bool) {
            if packed {
                body = gzip(&body);
            }
            prop_assert!(readable(&body, true).len() <= MAX_BYTES * 2);
        }
    }
}
