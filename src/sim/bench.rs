//! A site for benches: many pages of one size, cheap to answer.

use std::fmt::Write;

use bytes::Bytes;

use super::content::{Answer, Content, Request};

const CLASSES: [&str; 2] = ["page", "missing"];

/// `pages` pages `/`, `/p/1` … `/p/(pages - 1)` of `page_bytes` bytes with `links` links each.
///
/// All links are root-relative and every page is reachable from `/`. There is nothing else: no dead links,
/// no redirects, and a robots.txt that allows everything.
#[derive(Clone, Debug)]
pub struct BenchSite {
    /// What differs from page to page.
    heads: Vec<Bytes>,
    /// The text of all pages; each takes as much as it needs to be of full size.
    filler: Bytes,
    page_bytes: usize,
}

impl BenchSite {
    /// At least one page and one link are made. A page that cannot hold its links is as long as they need.
    #[must_use]
    pub fn new(pages: u32, page_bytes: usize, links: u32) -> Self {
        let pages = u64::from(pages.max(1));
        let links = u64::from(links.max(1));
        let heads = (0..pages).map(|page| Bytes::from(head(page, pages, links)));
        Self {
            heads: heads.collect(),
            filler: Bytes::from(filler(page_bytes)),
            page_bytes,
        }
    }

    /// How many pages there are.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.heads.len()
    }
}

/// The pages are a heap with `links` children each, so that all are reachable; beyond the last it starts anew.
fn head(page: u64, pages: u64, links: u64) -> String {
    let mut head = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Page {page}</title></head>\n\
         <body><h1>Page {page}</h1>\n<ul>\n"
    );
    for nth in 1..=links {
        let target = (page * links + nth) % pages;
        // Writing to a String cannot fail.
        let _ = match target {
            0 => writeln!(head, "<li><a href=\"/\">Page 0</a></li>"),
            _ => writeln!(head, "<li><a href=\"/p/{target}\">Page {target}</a></li>"),
        };
    }
    head.push_str("</ul>\n");
    head
}

fn filler(bytes: usize) -> String {
    let sentence =
        "<p>Pages have text between their links, and a parser has to read all of it.</p>\n";
    let mut filler = sentence.repeat(bytes / sentence.len() + 1);
    filler.truncate(bytes);
    filler
}

impl Content for BenchSite {
    fn classes(&self) -> &'static [&'static str] {
        &CLASSES
    }

    fn class_of(&self, target: &str) -> usize {
        usize::from(target != "/" && !target.starts_with("/p/"))
    }

    fn robots(&self) -> Option<String> {
        Some("User-agent: *\nAllow: /\n".to_owned())
    }

    fn answer(&self, request: &Request<'_>) -> Answer {
        let page = match request.target.strip_prefix("/p/") {
            // `/p/07` and `/p/+7` are no second names of `/p/7`, nor `/p/0` of `/`.
            Some(page) if page.starts_with(|c| matches!(c, '1'..='9')) => page.parse().ok(),
            Some(_) => None,
            None => (request.target == "/").then_some(0),
        };
        let Some(head) = page.and_then(|page: usize| self.heads.get(page)) else {
            return Answer::not_found();
        };
        let rest = self.page_bytes.saturating_sub(head.len());
        let mut answer = Answer::html(head.clone());
        answer.rest = self.filler.slice(..rest);
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn get(site: &BenchSite, target: &str) -> Answer {
        site.answer(&Request {
            method: "GET",
            target,
            host: "h",
            content_type: "",
            range: "",
            if_range: "",
            body: b"",
        })
    }

    #[test]
    fn every_page_has_its_size_and_links_and_is_reachable() {
        let site = BenchSite::new(200, 2_000, 10);
        let mut todo = vec!["/".to_owned()];
        let mut seen = BTreeSet::from(["/".to_owned()]);
        while let Some(target) = todo.pop() {
            let answer = get(&site, &target);
            assert_eq!((answer.status, answer.len()), (200, 2_000));
            let text = String::from_utf8(answer.body.to_vec()).unwrap();
            let links: Vec<&str> = text
                .split("href=\"")
                .skip(1)
                .filter_map(|rest| rest.split('"').next())
                .collect();
            assert_eq!(links.len(), 10);
            for link in links {
                if seen.insert(link.to_owned()) {
                    todo.push(link.to_owned());
                }
            }
        }
        assert_eq!(seen.len(), site.pages());
    }

    #[test]
    fn a_page_has_one_name() {
        let site = BenchSite::new(20, 500, 2);
        for target in [
            "/p/0", "/p/20", "/p/07", "/p/+7", "/p/", "/p/7x", "/p/00", "/x",
        ] {
            assert_eq!(get(&site, target).status, 404, "{target}");
        }
    }
}
