//! Real pages: the HTML that the Rust toolchain installs, served by a server that is not ours.
//!
//! The oracle is a walk over the files with an HTML tokenizer that the engine does not use.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use html5gum::{Token, Tokenizer};
use url::Url;

use crate::support::{FileServer, binary, records, run, rust_html};

/// The URLs of the pages below `prefix` that can be reached from `start`, by the documented rules.
fn walk(root: &Path, start: &Url, prefix: &str) -> BTreeSet<String> {
    let mut pages = BTreeSet::new();
    let mut seen = BTreeSet::from([start.clone()]);
    let mut queue = VecDeque::from([start.clone()]);
    while let Some(asked) = queue.pop_front() {
        let Some((url, file)) = resolve(root, asked) else {
            continue;
        };
        if !url.path().starts_with(prefix) || file.extension().is_none_or(|end| end != "html") {
            continue;
        }
        if !pages.insert(url.to_string()) {
            continue;
        }
        let html = fs::read(&file).expect("a page");
        for link in links(&html, &url) {
            if link.path().starts_with(prefix)
                && link.origin() == start.origin()
                && seen.insert(link.clone())
            {
                queue.push_back(link);
            }
        }
    }
    pages
}

/// What the server makes of a URL: a folder without its slash is redirected, a folder is its index.
fn resolve(root: &Path, mut url: Url) -> Option<(Url, std::path::PathBuf)> {
    let decoded = percent_decode(url.path());
    let mut file = root.join(decoded.trim_start_matches('/'));
    if file.is_dir() {
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        file = file.join("index.html");
    }
    file.is_file().then_some((url, file))
}

fn percent_decode(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = (*first == b'%')
            .then(|| tail.get(..2))
            .flatten()
            .and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
        match hex {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).expect("paths are UTF-8")
}

/// The links of a page: a, area, iframe, frame, and link rel=next, prev, canonical or alternate (of HTML).
fn links(html: &[u8], url: &Url) -> Vec<Url> {
    let mut base = url.clone();
    let mut found = Vec::new();
    let mut follow = true;
    for token in Tokenizer::new(html) {
        let Token::StartTag(tag) = token.expect("reading memory does not fail") else {
            continue;
        };
        let attributes: BTreeMap<String, String> = tag
            .attributes
            .iter()
            .map(|(name, value)| (text(name), text(value)))
            .collect();
        let attribute = |name: &str| attributes.get(name).map(String::as_str);
        let rel: Vec<String> = attribute("rel")
            .unwrap_or_default()
            .split_whitespace()
            .map(str::to_lowercase)
            .collect();
        let has = |word: &str| rel.iter().any(|rel| rel == word);
        let link = match &*text(&tag.name) {
            "base" => {
                if let Some(joined) = attribute("href").and_then(|href| url.join(href).ok()) {
                    base = joined;
                }
                None
            }
            "meta" => {
                let robots =
                    attribute("name").is_some_and(|name| name.eq_ignore_ascii_case("robots"));
                follow &= !(robots
                    && attribute("content").is_some_and(|content| {
                        let content = content.to_lowercase();
                        content.contains("nofollow") || content.contains("none")
                    }));
                None
            }
            "a" | "area" if !has("nofollow") => attribute("href"),
            "iframe" | "frame" => attribute("src"),
            "link" if !has("nofollow") => {
                let html = attribute("type").is_none_or(|kind| kind.contains("html"));
                let leads = ["next", "prev", "canonical", "alternate"]
                    .iter()
                    .any(|word| has(word));
                (leads && html).then(|| attribute("href")).flatten()
            }
            _ => None,
        };
        found.extend(link.map(str::to_owned));
    }
    if !follow {
        return Vec::new();
    }
    found
        .iter()
        .filter_map(|link| base.join(link).ok())
        .filter(|link| matches!(link.scheme(), "http" | "https"))
        .map(|mut link| {
            link.set_fragment(None);
            link
        })
        .collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A crawl of what lies below `prefix` stores exactly what the walk reaches from its index, each page once.
/// Gives the number of pages and how long the crawl took; `None` where the toolchain has no HTML.
pub(crate) fn crawls_exactly(prefix: &str, cap: u32, prefetch: u32) -> Option<(usize, Duration)> {
    let Some(root) = rust_html() else {
        eprintln!("skipped: this toolchain has no HTML installed (rustup component add rust-docs)");
        return None;
    };
    let server = FileServer::start(&root);
    let start = Url::parse(&format!("{}{prefix}index.html", server.base)).expect("a URL");
    let expected = walk(&root, &start, prefix);
    assert!(expected.len() > 50, "{} pages in {prefix}", expected.len());
    let dir = tempfile::tempdir().expect("a directory");
    let started = Instant::now();
    let ran = run(binary(dir.path())
        .args(["crawl", "--mode", "crawl", "--urls", start.as_str()])
        .args([
            "--scope",
            "prefix",
            "--out",
            "out",
            "--log-level",
            "warning",
        ])
        .args(["--max_concurrency_num", &cap.to_string()])
        .args(["--set", &format!("prefetch={prefetch}")]));
    let took = started.elapsed();
    // Dead links are no failure: what is gone is gone.
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let stored: Vec<String> = records(&dir.path().join("out"))
        .iter()
        .map(|record| record["url"].as_str().expect("a URL").to_owned())
        .collect();
    let distinct: BTreeSet<String> = stored.iter().cloned().collect();
    assert_eq!(distinct.len(), stored.len(), "a page was stored twice");
    let missing: Vec<_> = expected.difference(&distinct).take(10).collect();
    let surplus: Vec<_> = distinct.difference(&expected).take(10).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "{prefix} served by {}: missing {missing:?}, surplus {surplus:?}",
        server.name
    );
    Some((expected.len(), took))
}

#[test]
fn the_book_is_crawled_exactly() {
    crawls_exactly("/book/", 8, 8);
}

#[test]
fn the_reference_is_crawled_exactly() {
    crawls_exactly("/reference/", 8, 8);
}
