//! Which codings a head says its body has, and which of them are to be undone.

use crate::exchange::error::Fault;
use crate::model::{BodyNote, Headers};

/// More codings than this on one body are refused: nobody but an attacker stacks them.
pub(super) const MAX_LAYERS: usize = 4;

/// How much of a strange name is repeated.
const SHOWN: usize = 40;

/// A content coding that can be undone (RFC 9110 §8.4.1, RFC 7932, RFC 8878).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// gzip, of any number of members (RFC 1952).
    Gzip,
    /// deflate, in its zlib wrapper (RFC 1950) or bare, as some servers send it.
    Deflate,
    /// Brotli.
    Brotli,
    /// Zstandard, of any number of frames.
    Zstd,
    /// Whatever is there; gzip is undone where it shows.
    Peek,
}

impl Coding {
    fn of(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "deflate" | "x-deflate" => Some(Self::Deflate),
            "br" => Some(Self::Brotli),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Its registered name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Gzip | Self::Peek => "gzip",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }
}

/// What is to be done with a body.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// The codings to undo, the outermost first.
    pub(super) layers: Vec<Coding>,
    /// What the label says that cannot be so.
    pub(super) notes: Vec<BodyNote>,
}

/// Reads the labels of a body.
///
/// An unknown name is skipped and noted, as Firefox does: in the wild it is a charset, a file type or a transfer
/// format (`utf-8`, `zip`, `aws-chunked`) and the body has no such coding.
///
/// # Errors
/// [`Fault::Decode`] when there are more than [`MAX_LAYERS`].
pub(super) fn plan(headers: &Headers) -> Result<Plan, Fault> {
    let mut plan = Plan::default();
    let values = headers.all("content-encoding");
    for name in values
        .flat_map(|value| value.split(','))
        .map(bare)
        .filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("identity"))
    {
        match Coding::of(name) {
            Some(coding) => plan.layers.insert(0, coding),
            None if plan.notes.len() < MAX_LAYERS => {
                let name = name.chars().take(SHOWN).collect();
                plan.notes.push(BodyNote::UnknownCoding(name));
            }
            None => {}
        }
        if plan.layers.len() > MAX_LAYERS {
            return Err(Fault::Decode(format!(
                "it has more than {MAX_LAYERS} content codings; allowed: at most {MAX_LAYERS}"
            )));
        }
    }
    if plan.layers == [Coding::Gzip] {
        let media_type = media_type(headers);
        if is_archive(&media_type) {
            plan.layers.clear();
            plan.notes.push(BodyNote::ArchiveKept);
        } else if is_text(&media_type) {
            plan.layers.push(Coding::Peek);
        }
    }
    Ok(plan)
}

/// A name without the quotes and parameters that some servers put around it.
fn bare(part: &str) -> &str {
    let name = part.split(';').next().unwrap_or_default();
    name.trim().trim_matches('"').trim()
}

fn media_type(headers: &Headers) -> String {
    let value = headers.get("content-type").unwrap_or_default();
    let media_type = value.split(';').next().unwrap_or_default();
    media_type.trim().to_ascii_lowercase()
}

/// Apache labels a `.tar.gz` file with its own compression as if it were the transfer's. The file is what was
/// asked for, so it stays as it is; Firefox does the same.
fn is_archive(media_type: &str) -> bool {
    matches!(
        media_type,
        "application/gzip" | "application/x-gzip" | "application/x-gunzip"
    )
}

/// Whether a body of this type cannot itself begin with gzip's magic.
fn is_text(media_type: &str) -> bool {
    let Some((family, kind)) = media_type.split_once('/') else {
        return false;
    };
    family == "text"
        || kind == "json"
        || kind == "xml"
        || kind == "javascript"
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&str, &str)]) -> Headers {
        Headers(
            fields
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.to_string().into()))
                .collect(),
        )
    }

    fn layers(values: &[&str]) -> Vec<Coding> {
        let fields: Vec<_> = values
            .iter()
            .map(|value| ("content-encoding", *value))
            .collect();
        plan(&headers(&fields)).unwrap().layers
    }

    #[test]
    fn names_are_known_in_any_case_and_the_last_applied_comes_first() {
        use Coding::{Brotli, Deflate, Gzip, Zstd};
        for (values, expected) in [
            (&[][..], &[][..]),
            (&["", " , "], &[]),
            (&["identity, Identity"], &[]),
            (&["GZIP"], &[Gzip]),
            (&["x-gzip"], &[Gzip]),
            (&["\"gzip\""], &[Gzip]),
            (&["gzip;q=1.0"], &[Gzip]),
            (&["deflate"], &[Deflate]),
            (&["X-Deflate"], &[Deflate]),
            (&["br"], &[Brotli]),
            (&["zstd"], &[Zstd]),
            (&["gzip, br"], &[Brotli, Gzip]),
            (&["gzip", "identity", "zstd,br"], &[Brotli, Zstd, Gzip]),
            (&["gzip, gzip, gzip, gzip"], &[Gzip, Gzip, Gzip, Gzip]),
        ] {
            assert_eq!(layers(values), expected, "{values:?}");
        }
    }

    #[test]
    fn unknown_names_are_noted_and_skipped() {
        let known = plan(&headers(&[("content-encoding", "gzip, aws-chunked")])).unwrap();
        assert_eq!(known.layers, [Coding::Gzip]);
        let note = BodyNote::UnknownCoding("aws-chunked".to_owned());
        assert_eq!(known.notes, [note]);
        let many = "x, ".repeat(1000);
        let many = plan(&headers(&[("content-encoding", &many)])).unwrap();
        assert_eq!(many.notes.len(), MAX_LAYERS);
    }

    #[test]
    fn too_many_codings_are_an_error_that_says_how_many_are_allowed() {
        let fault = plan(&headers(&[("content-encoding", "br, br, br, br, br")])).unwrap_err();
        assert!(fault.to_string().contains("at most 4"), "{fault}");
    }

    #[test]
    fn the_media_type_decides_on_a_second_look() {
        for (media_type, expected) in [
            ("text/html; charset=gbk", &[Coding::Gzip, Coding::Peek][..]),
            ("application/ld+json", &[Coding::Gzip, Coding::Peek]),
            ("application/octet-stream", &[Coding::Gzip]),
            ("Application/X-GZip", &[]),
        ] {
            let fields = [("content-encoding", "gzip"), ("content-type", media_type)];
            let plan = plan(&headers(&fields)).unwrap();
            assert_eq!(plan.layers, expected, "{media_type}");
        }
    }
}
