//! The text of an answer: which encoding it is in, and its decoding.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{
    DecoderResult, Encoding, REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED,
};

use super::prescan;
use crate::model::{Answer, Headers};

/// How far into a page its own word on the encoding is looked for (HTML standard §13.2.3.2).
const PRESCAN: usize = 1024;

/// How much of a page is looked at to guess its encoding. Further on there is little new to learn from it.
const GUESSED_FROM: usize = 256 * 1024;

/// A text and how it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decoded<'a> {
    /// The text.
    pub(super) text: Cow<'a, str>,
    /// The encoding, by its name in the Encoding Standard, in lower case.
    pub(super) encoding: String,
    /// Sequences of bytes that are none of the encoding: each is U+FFFD in the text.
    pub(super) replaced: u64,
}

/// Decodes a page. A byte order mark decides; then the `charset` of its `Content-Type`, if it is a label that is
/// known; then the page's own `<meta>` or XML declaration in its first 1024 bytes; else it is guessed by its bytes.
pub(super) fn page<'a>(body: &'a [u8], headers: &Headers) -> Decoded<'a> {
    if let Some((encoding, length)) = Encoding::for_bom(body) {
        return decode(&body[length..], encoding);
    }
    let encoding = of_header(headers)
        .or_else(|| prescan::encoding(&body[..body.len().min(PRESCAN)]))
        .unwrap_or_else(|| guess(body));
    decode(body, encoding)
}

/// Decodes JSON. It is UTF-8 (RFC 8259 §8.1) where its bytes are that, whatever the header says; a byte order mark is
/// passed over. Other bytes are read as the header says, for some sites do send GBK, or else as they look.
pub(super) fn json<'a>(body: &'a [u8], headers: &Headers) -> Decoded<'a> {
    if let Some((encoding, length)) = Encoding::for_bom(body) {
        return decode(&body[length..], encoding);
    }
    if let Ok(text) = std::str::from_utf8(body) {
        return Decoded {
            text: Cow::Borrowed(text),
            encoding: name(UTF_8),
            replaced: 0,
        };
    }
    decode(body, of_header(headers).unwrap_or_else(|| guess(body)))
}

/// Decodes whatever an answer is: JSON and pages as such.
pub(super) fn any(answer: &Answer) -> Cow<'_, str> {
    let braced = matches!(answer.body.trim_ascii_start().first(), Some(b'{' | b'['));
    let decode = if braced { json } else { page };
    decode(&answer.body, &answer.headers).text
}

/// The first `charset` of the first `Content-Type` that has one which is known. Values are looked at as bytes: some
/// servers put raw text of their own encoding into them.
fn of_header(headers: &Headers) -> Option<&'static Encoding> {
    let fields = headers.0.iter();
    fields
        .filter(|(name, _)| name == "content-type")
        .find_map(|(_, value)| {
            value
                .split(|byte| *byte == b';')
                .skip(1)
                .find_map(|part| labelled(part))
        })
}

/// The encoding that a parameter `charset=…` of a media type names.
fn labelled(parameter: &[u8]) -> Option<&'static Encoding> {
    let equals = parameter.iter().position(|byte| *byte == b'=')?;
    let (name, value) = parameter.split_at(equals);
    if !name.trim_ascii().eq_ignore_ascii_case(b"charset") {
        return None;
    }
    let value = value[1..].trim_ascii();
    let quoted = |quote: u8| value.strip_prefix(&[quote][..]);
    let value = match quoted(b'"').or_else(|| quoted(b'\'')) {
        Some(rest) => rest.split(|byte| matches!(byte, b'"' | b'\'')).next()?,
        None => value
            .split(|byte| matches!(byte, b' ' | b'\t' | b','))
            .next()?,
    };
    known(value)
}

/// The encoding of a label. The one that stands for encodings nobody may use decodes to nothing, so its labels count
/// as unknown.
pub(super) fn known(label: &[u8]) -> Option<&'static Encoding> {
    Encoding::for_label(label).filter(|encoding| *encoding != REPLACEMENT)
}

/// What a page that is read as ASCII may say of itself: that it is UTF-16 cannot be (HTML standard §13.2.3.2).
pub(super) fn of_itself(encoding: &'static Encoding) -> &'static Encoding {
    match encoding {
        encoding if encoding == UTF_16BE || encoding == UTF_16LE => UTF_8,
        encoding if encoding == X_USER_DEFINED => WINDOWS_1252,
        encoding => encoding,
    }
}

/// The encoding that the bytes look like: UTF-16 by its zeros, then as Firefox guesses.
fn guess(body: &[u8]) -> &'static Encoding {
    if std::str::from_utf8(body).is_ok() {
        return UTF_8;
    }
    let head = &body[..body.len().min(GUESSED_FROM)];
    match head {
        [b'<', 0, second, 0, ..] if *second != 0 => return UTF_16LE,
        [0, b'<', 0, second, ..] if *second != 0 => return UTF_16BE,
        _ => {}
    }
    if mostly_utf8(head) {
        return UTF_8;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(head, head.len() == body.len());
    detector.guess(None, Utf8Detection::Allow)
}

/// Whether what is no UTF-8 is the exception: pages are put together from pieces, and one cut in the middle of a
/// character must not make the rest unreadable. Text in another encoding is hardly ever valid by chance.
fn mostly_utf8(bytes: &[u8]) -> bool {
    let (mut good, mut bad) = (0usize, 0usize);
    for chunk in bytes.utf8_chunks() {
        good += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        bad += usize::from(!chunk.invalid().is_empty());
    }
    good >= 20 * bad
}

fn name(encoding: &'static Encoding) -> String {
    encoding.name().to_ascii_lowercase()
}

fn decode<'a>(bytes: &'a [u8], encoding: &'static Encoding) -> Decoded<'a> {
    let (text, faulty) = encoding.decode_without_bom_handling(bytes);
    Decoded {
        text,
        encoding: name(encoding),
        replaced: if faulty {
            count_faults(bytes, encoding)
        } else {
            0
        },
    }
}

/// How many replacements a decoding made. A U+FFFD that the server sent is none.
fn count_faults(bytes: &[u8], encoding: &'static Encoding) -> u64 {
    let mut decoder = encoding.new_decoder_without_bom_handling();
    let mut room = [0; 4096];
    let (mut at, mut faults) = (0, 0);
    loop {
        let (result, read, _) =
            decoder.decode_to_utf8_without_replacement(&bytes[at..], &mut room, true);
        at += read;
        match result {
            DecoderResult::InputEmpty => return faults,
            DecoderResult::OutputFull => {}
            DecoderResult::Malformed(..) => faults += 1,
        }
    }
}

#[cfg(test)]
#[path = "charset_tests.rs"]
mod tests;
