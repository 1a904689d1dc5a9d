//! The built-in media site: lists of files, and the files, whole and in parts.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};

use super::content::{Answer, Content, Request};
use super::dice::draw;

const CLASSES: [&str; 3] = ["list", "file", "other"];

/// The definition of this site; `{base_url}` in it is a hole.
const DEFINITION: &str = include_str!("media_site.toml");

/// Files on a page of the list.
const PAGE: u32 = 10;

/// Media types with what their files begin with, and the extension that belongs to them.
const KINDS: [(&str, &[u8], &str); 4] = [
    ("image/jpeg", b"\xff\xd8\xff\xe0\0\x10JFIF\0", "jpg"),
    ("image/png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "png"),
    ("video/mp4", b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom", "mp4"),
    ("image/gif", b"GIF89a", "gif"),
];

/// A platform with files. All of them follow from the seed and the sizes; nothing is stored.
///
/// | path | parameters | answer |
/// |---|---|---|
/// | `/media/list` | `page` from 1 | JSON: `items` with `id`, `token`, `title`; `has_more` |
/// | `/media/file/{id}` | `token` as the list gave it | the file, with a strong ETag; `Range: bytes=N-` with `If-Range` is answered by 206 or 416 |
///
/// Of four files one is declared as what it is not: as `application/octet-stream`, or as another image.
#[derive(Clone, Debug)]
pub struct MediaSite {
    /// Decides all content.
    pub seed: u64,
    /// How many files there are.
    pub files: u32,
    /// The smallest file, in bytes; at least 64.
    pub min_bytes: usize,
    /// The largest file, in bytes.
    pub max_bytes: usize,
    /// Whether parts are served; else every answer is whole.
    pub ranges: bool,
}

impl MediaSite {
    /// A small site: files of 1 kB to 300 kB.
    #[must_use]
    pub const fn new(seed: u64, files: u32) -> Self {
        Self {
            seed,
            files,
            min_bytes: 1_000,
            max_bytes: 300_000,
            ranges: true,
        }
    }

    /// The site definition for a server at `base_url` (without a slash at the end).
    #[must_use]
    pub fn definition(base_url: &str) -> String {
        DEFINITION.replace("{base_url}", base_url)
    }

    /// Every file by the name that it is saved under, without asking a server.
    #[must_use]
    pub fn expected(&self) -> BTreeMap<String, Bytes> {
        (0..self.files)
            .map(|nth| {
                let name = format!("{nth}.{}", KINDS[Self::kind(nth)].2);
                (name, self.file(nth))
            })
            .collect()
    }

    /// The content of a file.
    #[must_use]
    pub fn file(&self, nth: u32) -> Bytes {
        let start = KINDS[Self::kind(nth)].1;
        let least = self.min_bytes.max(64);
        let most = self.max_bytes.max(least);
        let spread = (most - least + 1) as u64;
        let drawn = draw(self.seed, &[b"size", &nth.to_le_bytes()]) % spread;
        let mut bytes = vec![0; least + usize::try_from(drawn).unwrap_or(0)];
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.seed.to_le_bytes());
        hasher.update(&nth.to_le_bytes());
        hasher.finalize_xof().fill(&mut bytes);
        bytes[..start.len()].copy_from_slice(start);
        bytes.into()
    }

    const fn kind(nth: u32) -> usize {
        nth as usize % KINDS.len()
    }

    fn token(&self, nth: u32) -> String {
        let token = draw(self.seed, &[b"token", &nth.to_le_bytes()]);
        format!("{token:016x}")
    }

    fn list(&self, request: &Request<'_>) -> Answer {
        let params = request.params();
        let page: u32 = params.get("page").and_then(|p| p.parse().ok()).unwrap_or(1);
        let from = page.saturating_sub(1).saturating_mul(PAGE).min(self.files);
        let to = (from + PAGE).min(self.files);
        let items: Vec<Value> = (from..to)
            .map(|nth| {
                let (id, title) = (nth.to_string(), format!("File {nth}"));
                json!({ "id": id, "token": self.token(nth), "title": title })
            })
            .collect();
        Answer::json(200, &json!({ "items": items, "has_more": to < self.files }))
    }

    fn served(&self, request: &Request<'_>, id: &str) -> Option<Answer> {
        let nth: u32 = id.parse().ok().filter(|nth| *nth < self.files)?;
        if request.params().get("token") != Some(&self.token(nth)) {
            return Some(Answer::new(403, "text/plain", "a wrong token\n"));
        }
        let file = self.file(nth);
        let declared = match nth % 8 {
            3 => "application/octet-stream",
            5 => "image/webp",
            _ => KINDS[Self::kind(nth)].0,
        };
        let tag = format!("\"{:x}-{nth}\"", self.seed);
        let asked = request
            .range
            .strip_prefix("bytes=")
            .and_then(|range| range.strip_suffix('-')?.parse::<usize>().ok())
            .filter(|_| self.ranges && (request.if_range.is_empty() || request.if_range == tag));
        let total = file.len();
        let mut answer = match asked {
            None => Answer::new(200, declared, file),
            Some(from) if from < total => {
                let mut part = Answer::new(206, declared, file.slice(from..));
                let range = format!("bytes {from}-{}/{total}", total - 1);
                part.headers.push(("Content-Range", range));
                part
            }
            Some(_) => {
                let mut none = Answer::new(416, "text/plain", "no such range\n");
                none.headers
                    .push(("Content-Range", format!("bytes */{total}")));
                none
            }
        };
        answer.headers.push(("ETag", tag));
        Some(answer)
    }
}

impl Content for MediaSite {
    fn classes(&self) -> &'static [&'static str] {
        &CLASSES
    }

    fn class_of(&self, target: &str) -> usize {
        let prefixes = ["/media/list", "/media/file/"];
        let class = prefixes
            .iter()
            .position(|prefix| target.starts_with(prefix));
        class.unwrap_or(CLASSES.len() - 1)
    }

    fn answer(&self, request: &Request<'_>) -> Answer {
        match request.path().split('/').skip(1).collect::<Vec<_>>()[..] {
            ["media", "list"] => self.list(request),
            ["media", "file", id] => self.served(request, id).unwrap_or_else(Answer::not_found),
            _ => Answer::not_found(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(site: &MediaSite, target: &str, range: &str, if_range: &str) -> Answer {
        site.answer(&Request {
            method: "GET",
            target,
            host: "127.0.0.1:1",
            content_type: "",
            range,
            if_range,
            body: b"",
        })
    }

    #[test]
    fn parts_of_a_file_are_what_the_whole_has_there() {
        let site = MediaSite::new(3, 9);
        let target = format!("/media/file/4?token={}", site.token(4));
        let whole = ask(&site, &target, "", "");
        assert_eq!((whole.status, &whole.body), (200, &site.file(4)));
        let tag = &whole.headers[0].1;
        let part = ask(&site, &target, "bytes=100-", tag);
        assert_eq!((part.status, &part.body[..]), (206, &whole.body[100..]));
        let total = whole.body.len();
        let none = ask(&site, &target, &format!("bytes={total}-"), tag);
        assert_eq!(none.status, 416);
        assert_eq!(ask(&site, &target, "bytes=100-", "\"other\"").status, 200);
        assert_eq!(ask(&site, "/media/file/4?token=x", "", "").status, 403);
        assert_eq!(ask(&site, "/media/file/9?token=x", "", "").status, 404);
    }
}
