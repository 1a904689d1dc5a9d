//! The head of an HTTP/1.x answer, read as leniently as servers in the wild need, and what delimits the body.

use bytes::Bytes;

use super::error::Fault;
use crate::model::Headers;

/// A name longer than this is noise; the field is dropped.
const MAX_NAME: usize = 256;

/// Fields that are parsed without an allocation; more are allowed.
const USUAL_FIELDS: usize = 64;

/// The fields that delimit a body.
const DELIMITING: [&str; 2] = ["content-length", "transfer-encoding"];

/// More lines than this are no header: each costs memory beyond its bytes.
const MAX_FIELDS: usize = 20_000;

/// How the end of the body is found (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// No body whatever the fields say: 1xx, 204, 304, answers to HEAD.
    None,
    /// This many bytes.
    Length(u64),
    /// Chunked transfer coding.
    Chunked,
    /// Until the server closes.
    UntilClose,
}

/// One parsed head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The status code, 100 to 999.
    pub(super) status: u16,
    /// All fields, in order.
    pub(super) headers: Headers,
    /// What delimits the body.
    pub(super) framing: Framing,
    /// Whether the connection may serve another request.
    pub(super) persistent: bool,
}

/// Finds the end of a head without parsing it, so that a head that arrives byte by byte costs linear time.
#[derive(Debug, Default)]
pub(super) struct HeadEnd {
    scanned: usize,
}

impl HeadEnd {
    /// Whether nothing of this head has been looked at.
    pub(super) fn is_new(&self) -> bool {
        self.scanned == 0
    }

    /// The length of the head at the start of `bytes`, empty line included, once it is whole.
    /// Between two calls `bytes` may only grow; it does not begin with a line end.
    pub(super) fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = self.scanned;
        while let Some(line_end) = memchr::memchr(b'\n', &bytes[at..]) {
            at += line_end + 1;
            match &bytes[at..] {
                [b'\n', ..] => return Some(at + 1),
                [b'\r', b'\n', ..] => return Some(at + 2),
                // Too few bytes to tell: look at this line end again.
                [] | [b'\r'] => {
                    self.scanned = at - 1;
                    return None;
                }
                _ => {}
            }
        }
        self.scanned = bytes.len();
        None
    }
}

/// Whether `bytes` can become the start of an HTTP/1.x answer.
pub(super) fn may_begin(bytes: &[u8]) -> bool {
    bytes.iter().zip(b"HTTP/1.").all(|(a, b)| a == b)
}

/// Parses a whole head. `to_head` tells whether the request was a HEAD.
pub(super) fn parse(raw: &[u8], to_head: bool) -> Result<Head, Fault> {
    let mut usual = [httparse::EMPTY_HEADER; USUAL_FIELDS];
    match parse_with(raw, to_head, &mut usual) {
        Err(ParseFault::TooMany) => {
            let lines = memchr::memchr_iter(b'\n', raw).count();
            if lines > MAX_FIELDS {
                return Err(protocol(&format!("more than {MAX_FIELDS} lines of header")));
            }
            let mut fields = vec![httparse::EMPTY_HEADER; lines];
            parse_with(raw, to_head, &mut fields)
        }
        result => result,
    }
    .map_err(|fault| match fault {
        ParseFault::TooMany => Fault::Protocol("more fields than lines".to_owned()),
        ParseFault::Fault(fault) => fault,
    })
}

enum ParseFault {
    TooMany,
    Fault(Fault),
}

impl From<Fault> for ParseFault {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

fn parse_with<'a>(
    raw: &'a [u8],
    to_head: bool,
    fields: &mut [httparse::Header<'a>],
) -> Result<Head, ParseFault> {
    let mut response = httparse::Response::new(fields);
    let mut lenient = httparse::ParserConfig::default();
    lenient
        .allow_spaces_after_header_name_in_responses(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        .allow_multiple_spaces_in_response_status_delimiters(true)
        .ignore_invalid_headers_in_responses(true);
    match lenient.parse_response(&mut response, raw) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Err(protocol("the head has no end").into()),
        Err(httparse::Error::TooManyHeaders) => return Err(ParseFault::TooMany),
        Err(error) => return Err(protocol(&error.to_string()).into()),
    }
    let (Some(status), Some(minor)) = (response.code, response.version) else {
        return Err(protocol("no status line").into());
    };
    if !(100..=999).contains(&status) {
        return Err(protocol(&format!("status {status} is not one")).into());
    }
    let fields: &[httparse::Header<'_>] = response.headers;
    if fields_dropped(raw, fields) {
        return Err(protocol("a field that delimits the body cannot be read").into());
    }
    let (framing, persistent) = framing(status, minor, to_head, fields)?;
    Ok(Head {
        status,
        headers: collect(raw, fields),
        framing,
        persistent,
    })
}

/// Whether the parser left out, as unreadable, a field without which the end of the body would be guessed wrongly.
fn fields_dropped(raw: &[u8], fields: &[httparse::Header<'_>]) -> bool {
    // Status line and empty line are no fields. Usually nothing is dropped, and this is all there is to do.
    if memchr::memchr_iter(b'\n', raw).count() <= fields.len() + 2 {
        return false;
    }
    let delimits = |name: &[u8]| {
        DELIMITING
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    };
    let written = raw.split(|&b| b == b'\n').skip(1).filter(|line| {
        let name = line.split(|&b| b == b':').next().unwrap_or_default();
        // A line that begins with a space belongs to the one before it.
        !line.first().is_some_and(u8::is_ascii_whitespace) && delimits(trim_noise(name))
    });
    let read = fields
        .iter()
        .filter(|field| delimits(field.name.as_bytes()));
    written.count() != read.count()
}

/// A name without what no name has at its ends.
fn trim_noise(mut name: &[u8]) -> &[u8] {
    let noise = |byte: &u8| !byte.is_ascii_graphic();
    while let [first, rest @ ..] = name
        && noise(first)
    {
        name = rest;
    }
    while let [rest @ .., last] = name
        && noise(last)
    {
        name = rest;
    }
    name
}

fn protocol(text: &str) -> Fault {
    Fault::Protocol(text.to_owned())
}

/// The fields as the engine keeps them: lower-case names, folded lines joined by a space (RFC 9112 §5.2).
fn collect(raw: &[u8], fields: &[httparse::Header<'_>]) -> Headers {
    // One copy of the head, shared by all values.
    let block = Bytes::copy_from_slice(raw);
    let base = raw.as_ptr() as usize;
    let kept = fields
        .iter()
        .filter(|field| (1..=MAX_NAME).contains(&field.name.len()));
    Headers(
        kept.map(|field| {
            let value = if field.value.contains(&b'\n') {
                Bytes::from(unfold(field.value))
            } else {
                let start = (field.value.as_ptr() as usize).wrapping_sub(base);
                match block.get(start..start.wrapping_add(field.value.len())) {
                    Some(_) => block.slice(start..start + field.value.len()),
                    // An empty value may point outside.
                    None => Bytes::copy_from_slice(field.value),
                }
            };
            (field.name.to_ascii_lowercase(), value)
        })
        .collect(),
    )
}

fn unfold(value: &[u8]) -> Vec<u8> {
    let lines = value.split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
    lines
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(&b' ')
}

/// The list members of all fields called `name`.
fn members<'a>(
    fields: &'a [httparse::Header<'a>],
    name: &'a str,
) -> impl Iterator<Item = &'a [u8]> {
    fields
        .iter()
        .filter(move |field| field.name.eq_ignore_ascii_case(name))
        .flat_map(|field| field.value.split(|&b| b == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|member| !member.is_empty())
}

/// What delimits the body, and whether the connection may be kept.
fn framing(
    status: u16,
    minor: u8,
    to_head: bool,
    fields: &[httparse::Header<'_>],
) -> Result<(Framing, bool), Fault> {
    let connection = |token: &str| {
        members(fields, "connection").any(|member| member.eq_ignore_ascii_case(token.as_bytes()))
    };
    let persistent = !connection("close") && (minor == 1 || connection("keep-alive"));
    if status == 204 && !to_head {
        // A 204 has no body, whatever it says; who says so all the same may send one (RFC 9112 §6.3).
        let clean = members(fields, "transfer-encoding").next().is_none()
            && members(fields, "content-length").all(|member| parse_length(member) == Some(0));
        return Ok((Framing::None, persistent && clean));
    }
    if to_head || matches!(status, 100..=199 | 304) {
        return Ok((Framing::None, persistent));
    }
    let mut codings = members(fields, "transfer-encoding")
        .filter(|coding| !coding.eq_ignore_ascii_case(b"identity"));
    if let Some(coding) = codings.next() {
        if !coding.eq_ignore_ascii_case(b"chunked") || codings.next().is_some() {
            return Err(protocol("a transfer coding that was not asked for"));
        }
        // A length beside it is overridden; such a message, as one of HTTP/1.0, may be an attempt at
        // smuggling: nothing after it on the connection is trusted (RFC 9112 §6.1).
        let clean = minor == 1 && members(fields, "content-length").next().is_none();
        return Ok((Framing::Chunked, persistent && clean));
    }
    let mut length = None;
    for member in members(fields, "content-length") {
        let value = parse_length(member)
            .ok_or_else(|| protocol("Content-Length is not a whole number of bytes"))?;
        if length.is_some_and(|length| length != value) {
            return Err(protocol("two different values of Content-Length"));
        }
        length = Some(value);
    }
    Ok(match length {
        Some(length) => (Framing::Length(length), persistent),
        None => (Framing::UntilClose, false),
    })
}

/// Digits only: signs and spaces are where implementations disagree.
fn parse_length(text: &[u8]) -> Option<u64> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
