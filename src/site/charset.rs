//! The text of an HTML page: which encoding it is in, and its decoding.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// How far into a page its own word on the encoding is looked for (HTML standard §13.2.3.2).
const PRESCAN: usize = 1024;

/// Decodes a page. A byte order mark decides, then the header's `charset`, then the page's own `<meta>`, then
/// whether it is UTF-8; else it is taken for windows-1252, as browsers do.
pub(super) fn decode<'a>(body: &'a [u8], content_type: Option<&str>) -> Cow<'a, str> {
    let encoding = match content_type.and_then(of_header) {
        Some(encoding) => encoding,
        None => match of_meta(body) {
            Some(encoding) => encoding,
            None if std::str::from_utf8(body).is_ok() => UTF_8,
            None => WINDOWS_1252,
        },
    };
    encoding.decode(body).0
}

fn of_header(content_type: &str) -> Option<&'static Encoding> {
    label(content_type.as_bytes())
}

/// A UTF-16 `<meta>` cannot be true, for it was read as ASCII: it means UTF-8.
fn of_meta(body: &[u8]) -> Option<&'static Encoding> {
    let head = &body[..body.len().min(PRESCAN)];
    let mut at = 0;
    while let Some(found) = memchr::memmem::find(&head[at..], b"<meta")
        .or_else(|| memchr::memmem::find(&head[at..], b"<META"))
    {
        let start = at + found;
        let end = memchr::memchr(b'>', &head[start..]).map_or(head.len(), |end| start + end);
        if let Some(encoding) = label(&head[start..end]) {
            return Some(encoding.output_encoding());
        }
        at = end;
    }
    None
}

/// The encoding named behind `charset=`.
fn label(text: &[u8]) -> Option<&'static Encoding> {
    let text = text.to_ascii_lowercase();
    let at = memchr::memmem::find(&text, b"charset")? + "charset".len();
    let rest = text[at..].trim_ascii_start().strip_prefix(b"=")?;
    let rest = rest.trim_ascii_start();
    let rest = rest
        .strip_prefix(b"\"")
        .or_else(|| rest.strip_prefix(b"'"))
        .unwrap_or(rest);
    let end = rest
        .iter()
        .position(|byte| {
            byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b';' | b'>' | b'/')
        })
        .unwrap_or(rest.len());
    Encoding::for_label(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_signs_is_kept() {
        let latin = b"caf\xe9";
        assert_eq!(decode("café".as_bytes(), None), "café");
        assert_eq!(decode(latin, None), "café");
        assert_eq!(decode(latin, Some("text/html; charset=ISO-8859-1")), "café");
        assert_eq!(
            decode(b"\xef\xbb\xbfx", Some("text/html; charset=latin1")),
            "x"
        );
        assert_eq!(
            decode(b"<meta charset=gbk>\xd6\xd0", None),
            "<meta charset=gbk>中"
        );
        let old =
            b"<META http-equiv=content-type content=\"text/html; charset=shift_jis\">\x93\xfa";
        assert!(decode(old, None).ends_with('日'));
        assert!(decode(b"<meta charset=utf-16>\xc3\xa9", None).ends_with('é'));
        assert_eq!(decode(latin, Some("text/html; charset=nonsense")), "café");
    }

    #[test]
    fn utf8_is_not_copied() {
        assert!(matches!(
            decode("é".as_bytes(), Some("text/html; charset=utf-8")),
            Cow::Borrowed(_)
        ));
    }
}
