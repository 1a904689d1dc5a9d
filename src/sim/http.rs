//! HTTP/1.1 on the wire: reading heads and chunked bodies, writing heads.

use std::io::Write;
use std::ops::Range;

/// The longest request head, in bytes.
pub(super) const MAX_HEAD: usize = 16 * 1024;
/// The longest request body, in bytes, without its framing.
pub(super) const MAX_BODY: usize = 1024 * 1024;
const MAX_FIELDS: usize = 64;

/// A request head; the ranges point into the buffer it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) method: Range<usize>,
    pub(super) target: Range<usize>,
    pub(super) host: Range<usize>,
    pub(super) content_type: Range<usize>,
    pub(super) range: Range<usize>,
    pub(super) if_range: Range<usize>,
    /// Bytes up to the body.
    pub(super) len: usize,
    pub(super) body: Framing,
    pub(super) keep_alive: bool,
    pub(super) expects_continue: bool,
}

/// How the body is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length(usize),
    Chunked,
}

/// A request that cannot be read; the status is the answer, and the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) u16);

/// Reads a head from the start of `buffer`; `None` when more bytes are needed.
pub(super) fn read_head(buffer: &[u8]) -> Result<Option<Head>, Malformed> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let len = match request.parse(buffer) {
        Ok(httparse::Status::Complete(len)) if len <= MAX_HEAD => len,
        Ok(httparse::Status::Partial) if buffer.len() < MAX_HEAD => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(Malformed(431)),
        Err(_) => return Err(Malformed(400)),
    };
    let start = buffer.as_ptr() as usize;
    let place = |part: &[u8]| {
        // The parser lends slices of the buffer: their place in it is the difference of the addresses.
        let from = part.as_ptr() as usize - start;
        from..from + part.len()
    };
    let (Some(method), Some(target)) = (request.method, request.path) else {
        return Err(Malformed(400));
    };
    let mut head = Head {
        method: place(method.as_bytes()),
        target: place(target.as_bytes()),
        host: 0..0,
        content_type: 0..0,
        range: 0..0,
        if_range: 0..0,
        len,
        body: Framing::Length(0),
        keep_alive: request.version == Some(1),
        expects_continue: false,
    };
    let (mut length, mut chunked) = (None, false);
    for field in request.headers.iter() {
        let value = field.value;
        if field.name.eq_ignore_ascii_case("host") {
            head.host = place(value);
        } else if field.name.eq_ignore_ascii_case("content-type") {
            head.content_type = place(value);
        } else if field.name.eq_ignore_ascii_case("range") {
            head.range = place(value);
        } else if field.name.eq_ignore_ascii_case("if-range") {
            head.if_range = place(value);
        } else if field.name.eq_ignore_ascii_case("content-length") {
            let parsed: usize = std::str::from_utf8(value)
                .ok()
                .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|text| text.parse().ok())
                .ok_or(Malformed(400))?;
            if length.is_some_and(|known| known != parsed) {
                return Err(Malformed(400));
            }
            length = Some(parsed);
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Malformed(501));
            }
            chunked = true;
        } else if field.name.eq_ignore_ascii_case("connection") {
            if value.eq_ignore_ascii_case(b"close") {
                head.keep_alive = false;
            } else if value.eq_ignore_ascii_case(b"keep-alive") {
                head.keep_alive = true;
            }
        } else if field.name.eq_ignore_ascii_case("expect") {
            head.expects_continue = value.eq_ignore_ascii_case(b"100-continue");
        }
    }
    head.body = match (length, chunked) {
        // Both at once is how requests are smuggled.
        (Some(_), true) => return Err(Malformed(400)),
        (Some(length), false) if length > MAX_BODY => return Err(Malformed(413)),
        (length, false) => Framing::Length(length.unwrap_or(0)),
        (None, true) => Framing::Chunked,
    };
    Ok(Some(head))
}

/// Decodes a chunked body from the start of `buffer` into `body`; `None` when more bytes are needed,
/// else how many bytes it took.
pub(super) fn read_chunked(buffer: &[u8], body: &mut Vec<u8>) -> Result<Option<usize>, Malformed> {
    body.clear();
    let mut at = 0;
    loop {
        let (len, size) = match httparse::parse_chunk_size(&buffer[at..]) {
            Ok(httparse::Status::Complete(found)) => found,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(Malformed(400)),
        };
        at += len;
        if size == 0 {
            return read_trailers(&buffer[at..]).map(|found| found.map(|len| at + len));
        }
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size > MAX_BODY - body.len() {
            return Err(Malformed(413));
        }
        let Some(chunk) = buffer.get(at..at + size + 2) else {
            return Ok(None);
        };
        if &chunk[size..] != b"\r\n" {
            return Err(Malformed(400));
        }
        body.extend_from_slice(&chunk[..size]);
        at += size + 2;
    }
}

fn read_trailers(buffer: &[u8]) -> Result<Option<usize>, Malformed> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    match httparse::parse_headers(buffer, &mut fields) {
        Ok(httparse::Status::Complete((len, _))) => Ok(Some(len)),
        Ok(httparse::Status::Partial) if buffer.len() < MAX_HEAD => Ok(None),
        _ => Err(Malformed(400)),
    }
}

/// Appends a response head to `out`.
pub(super) fn write_head<'a>(
    out: &mut Vec<u8>,
    status: u16,
    content_type: &str,
    length: usize,
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    close: bool,
) {
    // Writing to a Vec cannot fail.
    let _ = write!(
        out,
        "HTTP/1.1 {status} {}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n",
        reason(status)
    );
    for (name, value) in headers {
        let _ = write!(out, "{name}: {value}\r\n");
    }
    if close {
        out.extend_from_slice(b"Connection: close\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        // The phrase may be empty (RFC 9112, section 4).
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head(text: &str) -> Result<Option<Head>, Malformed> {
        read_head(text.as_bytes())
    }

    #[test]
    fn a_head_is_found_in_its_buffer() {
        let text = "POST /a?b=c HTTP/1.1\r\nHost: h:1\r\nContent-Type: text/plain\r\n\
                    Content-Length: 3\r\nExpect: 100-continue\r\n\r\nabc";
        let found = head(text).unwrap().unwrap();
        assert_eq!(&text[found.method.clone()], "POST");
        assert_eq!(&text[found.target.clone()], "/a?b=c");
        assert_eq!(&text[found.host.clone()], "h:1");
        assert_eq!(&text[found.content_type.clone()], "text/plain");
        assert_eq!(&text[found.len..], "abc");
        assert_eq!(found.body, Framing::Length(3));
        assert!(found.keep_alive && found.expects_continue);
    }

    #[test]
    fn keep_alive_follows_version_and_field() {
        let keep = |text: &str| head(text).unwrap().unwrap().keep_alive;
        assert!(keep("GET / HTTP/1.1\r\n\r\n"));
        assert!(!keep("GET / HTTP/1.1\r\nConnection: close\r\n\r\n"));
        assert!(!keep("GET / HTTP/1.0\r\n\r\n"));
        assert!(keep("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
    }

    #[test]
    fn bad_heads_have_their_status() {
        let status = |text: &str| head(text).unwrap_err().0;
        assert_eq!(status("nonsense\r\n\r\n"), 400);
        assert_eq!(status("POST / HTTP/1.1\r\nContent-Length: 1x\r\n\r\n"), 400);
        let both = "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(status(both), 400);
        assert_eq!(
            status("POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n"),
            413
        );
        assert_eq!(
            status("POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n"),
            501
        );
        let long = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(MAX_HEAD));
        assert_eq!(status(&long), 431);
    }

    #[test]
    fn chunks_end_and_are_bounded() {
        let mut body = Vec::new();
        let text = b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: v\r\n\r\nGET";
        assert_eq!(read_chunked(text, &mut body), Ok(Some(text.len() - 3)));
        assert_eq!(body, b"abcde");
        assert_eq!(
            read_chunked(b"3\r\nabcX\r\n", &mut body),
            Err(Malformed(400))
        );
        assert_eq!(
            read_chunked(b"ffffffff\r\n", &mut body),
            Err(Malformed(413))
        );
    }

    proptest! {
        /// Any beginning of a request asks for more, and never fails or is taken for a whole one.
        #[test]
        fn a_beginning_asks_for_more(cut in 0_usize..51) {
            let text = b"GET /a HTTP/1.1\r\nHost: h\r\nContent-Type: a/b\r\nX: y\r\n\r\n";
            prop_assert_eq!(read_head(&text[..cut]), Ok(None));
        }

        #[test]
        fn any_chunking_gives_the_body(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..10),
        ) {
            let mut wire = Vec::new();
            for chunk in &chunks {
                write!(wire, "{:x}\r\n", chunk.len()).unwrap();
                wire.extend_from_slice(chunk);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(b"0\r\n\r\n");
            let mut body = Vec::new();
            for cut in 0..wire.len() {
                prop_assert_eq!(read_chunked(&wire[..cut], &mut body), Ok(None));
            }
            prop_assert_eq!(read_chunked(&wire, &mut body), Ok(Some(wire.len())));
            prop_assert_eq!(body, chunks.concat());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_head(&bytes);
            let _ = read_chunked(&bytes, &mut Vec::new());
        }
    }
}
