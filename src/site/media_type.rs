//! What a file is: by what the server says of it, and by its first bytes where the server is silent or wrong.

/// Extensions by media type. What is not in it, programs above all, is saved as `bin`: no word of a server makes a file
/// that a double click would run.
const EXTENSIONS: &[(&str, &str)] = &[
    ("application/epub+zip", "epub"),
    ("application/gzip", "gz"),
    ("application/json", "json"),
    ("application/msword", "doc"),
    ("application/ogg", "ogg"),
    ("application/pdf", "pdf"),
    ("application/vnd.apple.mpegurl", "m3u8"),
    ("application/vnd.ms-excel", "xls"),
    ("application/vnd.ms-powerpoint", "ppt"),
    (
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "pptx",
    ),
    (
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "xlsx",
    ),
    (
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "docx",
    ),
    ("application/vnd.rar", "rar"),
    ("application/x-7z-compressed", "7z"),
    ("application/x-bzip2", "bz2"),
    ("application/x-mpegurl", "m3u8"),
    ("application/x-tar", "tar"),
    ("application/xhtml+xml", "xhtml"),
    ("application/xml", "xml"),
    ("application/zip", "zip"),
    ("application/zstd", "zst"),
    ("audio/aac", "aac"),
    ("audio/amr", "amr"),
    ("audio/flac", "flac"),
    ("audio/midi", "mid"),
    ("audio/mp4", "m4a"),
    ("audio/mpeg", "mp3"),
    ("audio/ogg", "ogg"),
    ("audio/opus", "opus"),
    ("audio/wav", "wav"),
    ("audio/webm", "weba"),
    ("image/avif", "avif"),
    ("image/bmp", "bmp"),
    ("image/gif", "gif"),
    ("image/heif", "heif"),
    ("image/jpeg", "jpg"),
    ("image/jxl", "jxl"),
    ("image/png", "png"),
    ("image/svg+xml", "svg"),
    ("image/tiff", "tif"),
    ("image/webp", "webp"),
    ("image/x-icon", "ico"),
    ("text/css", "css"),
    ("text/csv", "csv"),
    ("text/html", "html"),
    ("text/plain", "txt"),
    ("text/vtt", "vtt"),
    ("text/xml", "xml"),
    ("video/3gpp", "3gp"),
    ("video/mp2t", "ts"),
    ("video/mp4", "mp4"),
    ("video/mpeg", "mpg"),
    ("video/ogg", "ogv"),
    ("video/quicktime", "mov"),
    ("video/webm", "webm"),
    ("video/x-flv", "flv"),
    ("video/x-matroska", "mkv"),
    ("video/x-msvideo", "avi"),
];

/// Other names of the same types.
const ALIASES: &[(&str, &str)] = &[
    ("application/x-gzip", "application/gzip"),
    ("application/x-rar-compressed", "application/vnd.rar"),
    ("application/x-zip-compressed", "application/zip"),
    ("audio/m4a", "audio/mp4"),
    ("audio/mp3", "audio/mpeg"),
    ("audio/vnd.wave", "audio/wav"),
    ("audio/x-flac", "audio/flac"),
    ("audio/x-m4a", "audio/mp4"),
    ("audio/x-wav", "audio/wav"),
    ("image/heic", "image/heif"),
    ("image/jpg", "image/jpeg"),
    ("image/pjpeg", "image/jpeg"),
    ("image/vnd.microsoft.icon", "image/x-icon"),
    ("image/x-ms-bmp", "image/bmp"),
    ("image/x-png", "image/png"),
    ("video/avi", "video/x-msvideo"),
    ("video/x-m4v", "video/mp4"),
];

/// What is said of bytes that nobody knows.
const UNKNOWN: &str = "application/octet-stream";

/// Types that say nothing (RFC 9110 §8.3: a recipient may then look at the data).
const SILENT: [&str; 6] = [
    "",
    "*/*",
    UNKNOWN,
    "application/force-download",
    "application/x-download",
    "binary/octet-stream",
];

fn known(name: &str) -> &str {
    ALIASES
        .iter()
        .find(|(alias, _)| *alias == name)
        .map_or(name, |(_, name)| name)
}

fn family(name: &str) -> &str {
    name.split('/').next().unwrap_or_default()
}

/// The media type of a file that the server calls `declared` (lower case, without parameters) and that begins with
/// `start`. The bytes decide where the server is silent, and where they are a page, a program, or plainly of another
/// family; else the server does, which knows containers (`docx` in a zip, `audio/mp4` in an MP4) better.
pub(super) fn media_type(declared: &str, start: &[u8]) -> String {
    let declared = known(declared);
    let Some(found) = infer::get(start) else {
        return match SILENT.contains(&declared) {
            true => UNKNOWN.to_owned(),
            false => declared.to_owned(),
        };
    };
    let seen = known(found.mime_type());
    let runs = matches!(found.matcher_type(), infer::MatcherType::App);
    let of_media = |name: &str| match family(name) {
        "image" => 1,
        "audio" | "video" => 2,
        _ => 0,
    };
    let seen_wins = SILENT.contains(&declared)
        || runs
        || match (of_media(declared), of_media(seen)) {
            // A picture is the picture that it is; drawings in XML have no bytes of their own to go by.
            (1, 1) => declared != "image/svg+xml",
            (1, 0) => !(declared == "image/svg+xml" && seen.ends_with("xml")),
            (1, 2) | (2, 1) => true,
            (2, 0) => seen == "text/html",
            (0, 1 | 2) => declared != "application/ogg",
            (0, 0) => seen == "text/html" && declared != "application/xhtml+xml",
            _ => false,
        };
    match seen_wins {
        true => seen.to_owned(),
        false => declared.to_owned(),
    }
}

/// The extension of a media type, without a dot.
pub(super) fn extension(name: &str) -> &'static str {
    EXTENSIONS
        .binary_search_by_key(&name, |(known, _)| known)
        .map_or("bin", |at| EXTENSIONS[at].1)
}

/// Whether a type is what files are expected to be, where nothing else was said: pages and API answers are not.
pub(super) fn is_file(name: &str) -> bool {
    !matches!(
        name,
        "text/html" | "application/xhtml+xml" | "application/json" | "application/problem+json"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const JPEG: &[u8] = b"\xff\xd8\xff\xe0\0\x10JFIF\0";
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    const MP4: &[u8] = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom";
    const ZIP: &[u8] = b"PK\x03\x04\x14\0\0\0";
    const EXE: &[u8] = b"MZ\x90\0\x03\0\0\0";

    #[test]
    fn the_tables_are_sorted_so_that_they_can_be_searched() {
        assert!(EXTENSIONS.is_sorted_by_key(|(name, _)| name));
        for (_, name) in ALIASES {
            assert_ne!(extension(name), "bin", "{name}");
        }
    }

    #[test]
    fn bytes_decide_where_the_server_is_silent_or_plainly_wrong() {
        for (declared, start, name, ending) in [
            ("image/jpeg", JPEG, "image/jpeg", "jpg"),
            ("image/jpg", JPEG, "image/jpeg", "jpg"),
            ("image/jpeg", PNG, "image/png", "png"),
            ("", PNG, "image/png", "png"),
            ("application/octet-stream", MP4, "video/mp4", "mp4"),
            ("audio/mp4", MP4, "audio/mp4", "m4a"),
            ("text/html", JPEG, "image/jpeg", "jpg"),
            ("image/jpeg", b"<!DOCTYPE html><p>", "text/html", "html"),
            ("video/mp4", b"<html ><body>", "text/html", "html"),
            (
                "image/svg+xml",
                b"<?xml version=\"1.0\"?><svg>",
                "image/svg+xml",
                "svg",
            ),
            ("application/epub+zip", ZIP, "application/epub+zip", "epub"),
            ("image/jpeg", b"no magic at all", "image/jpeg", "jpg"),
            ("", b"no magic at all", UNKNOWN, "bin"),
        ] {
            let found = media_type(declared, start);
            assert_eq!(found, name, "{declared} {start:?}");
            assert_eq!(extension(&found), ending);
        }
    }

    #[test]
    fn no_word_of_a_server_makes_a_program() {
        for declared in [
            "application/x-msdownload",
            "application/x-sh",
            "application/java-archive",
            "application/javascript",
            "application/vnd.microsoft.portable-executable",
            "application/hta",
            "exe",
        ] {
            assert_eq!(extension(&media_type(declared, b"x")), "bin", "{declared}");
        }
        for declared in ["image/png", "video/mp4", "application/pdf", ""] {
            assert_eq!(extension(&media_type(declared, EXE)), "bin", "{declared}");
        }
    }
}
