//! The built-in HTML site: pages with links of every form, and the traps of ordinary sites.

mod render;

use std::collections::BTreeSet;

use super::content::{Answer, Content, Request};
use super::dice::draw;

const CLASSES: [&str; 6] = ["page", "redirect", "file", "private", "offsite", "missing"];

/// A page that robots.txt allows by a longer rule than the one that disallows its folder.
const OPEN: &str = "/private/open.html";

/// An ordinary site. All pages follow from the seed; nothing is stored.
///
/// From `/` every page is reachable: by relative and absolute links, with fragments, `../`, scheme and host in capitals,
/// through redirects of one and two hops, `area`, `iframe` and `link rel=next`. Beside those there are links that a
/// correct and polite crawl does not store or does not even follow:
///
/// | class | what | a crawl of the host |
/// |---|---|---|
/// | page | pages; [`HtmlSite::expected`] are their paths | stores each once |
/// | redirect | `/r/…`, `/r2/…` to pages; `/loop/…` in a circle; `/away/…` to another host; `/peek` to a private page | follows, where the target is in scope and allowed |
/// | file | `/files/…`: PDF, image, plain text | may fetch, does not store |
/// | private | `/private/…`, disallowed by robots.txt | does not ask |
/// | offsite | `/offsite/…` on another name of the same server | does not ask |
/// | missing | everything else: 404 | asks once |
#[derive(Clone, Debug)]
pub struct HtmlSite {
    /// Decides the links.
    pub seed: u64,
    /// Pages beside the one that robots.txt allows by name; at least 1.
    pub pages: u32,
    /// Bytes a page is filled up to.
    pub page_bytes: usize,
}

impl HtmlSite {
    /// A site of this many pages of 2 kB.
    #[must_use]
    pub const fn new(seed: u64, pages: u32) -> Self {
        Self {
            seed,
            pages,
            page_bytes: 2_000,
        }
    }

    /// Path and query of every page that a correct and polite crawl from `/` stores, without asking a server.
    #[must_use]
    pub fn expected(&self) -> BTreeSet<String> {
        let pages = (0..self.page_total()).map(path);
        pages.chain([OPEN.to_owned()]).collect()
    }

    fn page_total(&self) -> u32 {
        self.pages.max(1)
    }

    fn draw(&self, what: &str, page: u32, nth: u32) -> u64 {
        let parts: [&[u8]; 3] = [what.as_bytes(), &page.to_le_bytes(), &nth.to_le_bytes()];
        draw(self.seed, &parts)
    }

    /// The page that a target is the canonical name of.
    fn page_at(&self, target: &str) -> Option<u32> {
        let digits = target.trim_end_matches(".html");
        let digits = digits.trim_start_matches(|c: char| !c.is_ascii_digit());
        let number = match (target, digits.rsplit(|c: char| !c.is_ascii_digit()).next()) {
            ("/", _) => 0,
            (_, Some(number)) => number.parse().ok()?,
            (_, None) => return None,
        };
        (number < self.page_total() && path(number) == target).then_some(number)
    }

    fn redirect(&self, target: &str, host: &str) -> Option<Answer> {
        let page = |number: &str| {
            let number = number
                .parse()
                .ok()
                .filter(|page| *page < self.page_total())?;
            Some(path(number))
        };
        let (status, location) = match target.split('/').skip(1).collect::<Vec<_>>()[..] {
            // Relative and absolute by turns are both allowed (RFC 9110, section 10.2.2).
            ["r", number] => (301, page(number)?),
            ["r2", number] => (302, format!("http://{host}/r/{number}")),
            ["loop", "a"] => (302, "/loop/b".to_owned()),
            ["loop", "b"] => (302, "/loop/a".to_owned()),
            ["away", number] => (307, format!("http://{}/offsite/{number}", other_host(host))),
            ["peek"] => (308, "/private/1.html".to_owned()),
            _ => return None,
        };
        Some(Answer::redirect(status, location))
    }
}

impl Content for HtmlSite {
    fn classes(&self) -> &'static [&'static str] {
        &CLASSES
    }

    fn class_of(&self, target: &str) -> usize {
        let first = target.split(['/', '?']).nth(1).unwrap_or_default();
        match first {
            "r" | "r2" | "loop" | "away" | "peek" => 1,
            "files" => 2,
            "private" if target != OPEN => 3,
            "offsite" => 4,
            _ if target == OPEN || self.page_at(target).is_some() => 0,
            _ => 5,
        }
    }

    fn robots(&self) -> Option<String> {
        Some(format!(
            "# The longest rule that fits decides.\nUser-agent: *\nDisallow: /private/\nAllow: {OPEN}\n"
        ))
    }

    fn answer(&self, request: &Request<'_>) -> Answer {
        if let Some(page) = self.page_at(request.target) {
            return Answer::html(self.page(page, request.host));
        }
        if let Some(answer) = self.redirect(request.target, request.host) {
            return answer;
        }
        match request.target.split('/').skip(1).collect::<Vec<_>>()[..] {
            ["private" | "offsite", name] => Answer::html(leaf(name)),
            ["files", name] if name.ends_with(".pdf") => {
                Answer::new(200, "application/pdf", "%PDF-1.4\n<a href=\"/never\">\n")
            }
            ["files", name] if name.ends_with(".png") => {
                Answer::new(200, "image/png", &b"\x89PNG\r\n\x1a\n"[..])
            }
            ["files", name] if name.ends_with(".txt") => {
                Answer::new(200, "text/plain", "<a href=\"/never\">no link</a>\n")
            }
            _ => Answer::not_found(),
        }
    }
}

/// The canonical path and query of a page.
fn path(page: u32) -> String {
    match page {
        0 => "/".to_owned(),
        _ if page % 10 == 9 => format!("/list?kind=a&page={page}"),
        _ => format!("/s{}/d{}/page-{page}.html", page % 7, page % 3),
    }
}

/// Another name of the same server: out of the scope of a crawl of `host`, though a wrong crawl would get there.
fn other_host(host: &str) -> String {
    let (name, port) = host.rsplit_once(':').unwrap_or((host, "80"));
    match name.eq_ignore_ascii_case("localhost") {
        true => format!("127.0.0.1:{port}"),
        false => format!("localhost:{port}"),
    }
}

fn leaf(name: &str) -> String {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("<!doctype html><title>Leaf {name}</title><p>A page without links.\n")
}

#[cfg(test)]
mod tests;
