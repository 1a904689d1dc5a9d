//! What a body is, by its first bytes: labels lie.

use super::codec::Codec;
use super::codings::Coding;

/// First bytes that are looked at where a coding has no magic number. That so many bytes of a compressed stream are
/// all text happens once in 10¹⁴ times.
const LOOK: usize = 32;

/// What the first bytes say.
#[derive(Debug)]
pub(super) enum Sniffed {
    /// More of them are needed.
    More,
    /// Encoded. The flag tells that another coding shows than the one that was named.
    Coded(Codec, bool),
    /// Not encoded.
    Plain,
}

/// Looks at the first bytes of what is labelled `coding`. `whole`: there are no more of them.
///
/// # Errors
/// When a decoder cannot be made.
pub(super) fn sniff(coding: Coding, head: &[u8], whole: bool) -> Result<Sniffed, String> {
    let coded = |codec| Sniffed::Coded(codec, false);
    Ok(match coding {
        Coding::Gzip | Coding::Zstd if head.len() < 4 && !whole => Sniffed::More,
        Coding::Gzip if is_gzip(head) => coded(Codec::gzip()),
        Coding::Zstd if is_zstd(head) => coded(Codec::zstd()?),
        Coding::Gzip | Coding::Zstd => Sniffed::Plain,
        // The third byte is the method; there is but one.
        Coding::Peek if head.len() < 3 && !whole => Sniffed::More,
        Coding::Peek if head.starts_with(&[0x1f, 0x8b, 8]) => Sniffed::Coded(Codec::gzip(), true),
        Coding::Peek => Sniffed::Plain,
        Coding::Deflate if head.len() < 2 && !whole => Sniffed::More,
        Coding::Deflate if is_zlib(head) => coded(Codec::zlib()),
        // As bare deflate the magic of gzip would be a block of the reserved type.
        Coding::Deflate if is_gzip(head) => Sniffed::Coded(Codec::gzip(), true),
        Coding::Deflate => without_magic(Codec::bare_deflate, head, whole),
        Coding::Brotli => without_magic(Codec::brotli, head, whole),
    })
}

/// Tells a coding without a magic number from text: by its look, or where there is little to look at, by trying.
fn without_magic(codec: fn() -> Codec, head: &[u8], whole: bool) -> Sniffed {
    if head.len() < LOOK && !whole {
        return Sniffed::More;
    }
    let look = &head[..head.len().min(LOOK)];
    let plain = is_text(look) && (head.len() >= LOOK || !decodes(codec(), head));
    match plain {
        true => Sniffed::Plain,
        false => Sniffed::Coded(codec(), false),
    }
}

fn decodes(mut codec: Codec, whole: &[u8]) -> bool {
    let mut room = vec![0; 4096];
    let mut rest = whole;
    loop {
        match codec.run(rest, &mut room) {
            Err(_) => return false,
            Ok(ran) if ran.ended => return true,
            Ok(ran) if ran.read == 0 && ran.written == 0 => return false,
            Ok(ran) => rest = &rest[ran.read..],
        }
    }
}

/// Whether a member of gzip begins here.
pub(super) fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// Whether a frame of zstd begins here, or one that is to be skipped (RFC 8878 §3.1).
pub(super) fn is_zstd(bytes: &[u8]) -> bool {
    match bytes {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => true,
        [first, 0x2a, 0x4d, 0x18, ..] => first & 0xf0 == 0x50,
        _ => false,
    }
}

/// Whether a zlib header begins here (RFC 1950 §2.2); none of HTTP has a dictionary.
fn is_zlib(bytes: &[u8]) -> bool {
    let [method, flags, ..] = *bytes else {
        return false;
    };
    method & 0x0f == 8
        && method >> 4 <= 7
        && flags & 0x20 == 0
        && u16::from_be_bytes([method, flags]) % 31 == 0
}

/// Whether these are bytes of a text in UTF-8, cut anywhere.
fn is_text(bytes: &[u8]) -> bool {
    let control = |byte: &u8| *byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\x0c' | b'\r');
    let utf8 = match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    utf8 && !bytes.is_empty() && !bytes.iter().any(control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(coding: Coding, head: &[u8]) -> bool {
        matches!(sniff(coding, head, true).unwrap(), Sniffed::Plain)
    }

    #[test]
    fn plain_text_is_told_from_every_coding() {
        for text in [
            "<",
            "<!doctype html><html><head><title>x</title>",
            "{}",
            "中文页面",
        ] {
            for coding in [Coding::Gzip, Coding::Zstd, Coding::Deflate, Coding::Brotli] {
                assert!(plain(coding, text.as_bytes()), "{coding:?} {text}");
            }
        }
    }

    #[test]
    fn a_text_cut_inside_a_character_is_a_text() {
        assert!(is_text(&"中".as_bytes()[..2]));
        assert!(!is_text(b"\xff\xfe"));
        assert!(!is_text(b""));
        assert!(!is_text(b"a\0"));
    }

    #[test]
    fn zlib_headers_of_all_levels_are_known() {
        for flags in [0x01, 0x5e, 0x9c, 0xda] {
            assert!(is_zlib(&[0x78, flags]));
        }
        assert!(!is_zlib(&[0x78]));
        assert!(!is_zlib(&[0x78, 0x02]));
        // With a preset dictionary.
        assert!(!is_zlib(&[0x78, 0x20]));
    }

    #[test]
    fn frames_to_be_skipped_are_zstd_too() {
        assert!(is_zstd(&[0x5f, 0x2a, 0x4d, 0x18]));
        assert!(!is_zstd(&[0x60, 0x2a, 0x4d, 0x18]));
        assert!(!is_zstd(&[0x28, 0xb5]));
    }
}
