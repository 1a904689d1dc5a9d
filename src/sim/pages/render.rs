//! How a page of the HTML site looks.

use std::fmt::Write;

use super::{HtmlSite, OPEN, other_host, path};

/// Children of a page: the pages are a tree, so that each is reachable.
const FANOUT: u32 = 4;
/// The forms in which a page can be linked.
const FORMS: u64 = 14;

const FILLER: &str = "<p>Some text, with a few accents (déjà vu), some 漢字, an &amp; and an 🐙, to fill the page.</p>\n";

impl HtmlSite {
    /// Renders a page for a client that asked `host`.
    pub(super) fn page(&self, page: u32, host: &str) -> String {
        let (mut head, mut body) = (String::new(), String::new());
        // Writing to a String cannot fail, here and below.
        let first = page.saturating_mul(FANOUT).saturating_add(1);
        for child in first
            ..first
                .saturating_add(FANOUT)
                .min(self.page_total())
                .max(first)
        {
            self.link(page, child, host, &mut head, &mut body);
        }
        for nth in 0..3 {
            let known = self.draw("known", page, nth) % u64::from(self.page_total());
            let _ = writeln!(
                body,
                "<a href=\"{}\">see also</a>",
                escape(&path(known as u32))
            );
        }
        self.traps(page, host, &mut body);
        let canonical = escape(&path(page));
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <title>Page {page} – 漢字 &amp; more</title>\n\
             <meta name=\"description\" content=\"Page {page} of the built-in site\">\n\
             <link rel=\"canonical\" href=\"{canonical}\">\n{head}</head>\n\
             <body>\n<h1>Page {page}</h1>\n{body}"
        );
        while html.len() < self.page_bytes {
            html.push_str(FILLER);
        }
        html.push_str("</body>\n</html>\n");
        html
    }

    /// The one link that leads to `child` for sure.
    fn link(&self, page: u32, child: u32, host: &str, head: &mut String, body: &mut String) {
        let to = escape(&path(child));
        let capitals = host.to_ascii_uppercase();
        let _ = match self.draw("form", page, child) % FORMS {
            0 => writeln!(body, "<a href=\"{to}\">plain</a>"),
            1 => writeln!(
                body,
                "<a href=\"{}\">relative</a>",
                escape(&relative(page, child))
            ),
            2 => writeln!(body, "<a href=\"http://{host}{to}\">absolute</a>"),
            3 => writeln!(
                body,
                "<a href=\"{to}#part-2\">part</a> <a href=\"{to}#part-3\">part</a>"
            ),
            4 => writeln!(body, "<a href=\"HTTP://{capitals}{to}\">capitals</a>"),
            5 => writeln!(body, "<a href=\"/x/./y/../..{to}\">dots</a>"),
            6 => writeln!(body, "<a href=\"/r/{child}\">moved</a>"),
            7 => writeln!(body, "<a href=\"/r2/{child}\">moved twice</a>"),
            8 => writeln!(
                body,
                "<map name=\"m{child}\"><area href=\"{to}\" alt=\"area\"></map>"
            ),
            9 => writeln!(body, "<iframe src=\"{to}\" title=\"frame\"></iframe>"),
            10 => writeln!(head, "<link rel=\"next\" href=\"{to}\">"),
            11 => writeln!(body, "<a href=\"//{host}{to}\">without scheme</a>"),
            12 => writeln!(body, "<A HREF='\n  {to} '>with blanks</A>"),
            _ => writeln!(body, "<a class=x href={to}>without quotes</a>"),
        };
    }

    /// Links that lead nowhere, elsewhere, or where a polite crawl does not go.
    fn traps(&self, page: u32, host: &str, body: &mut String) {
        let other = other_host(host);
        if page == 0 {
            let _ = writeln!(
                body,
                "<a href=\"{OPEN}\">open</a> <a href=\"/peek\">peek</a>"
            );
        }
        let _ = match page % 8 {
            0 => writeln!(body, "<a href=\"/private/{page}.html\">private</a>"),
            1 => writeln!(body, "<a href=\"/missing/{page}\">dead</a>"),
            2 => writeln!(
                body,
                "<a href=\"http://{other}/offsite/{page}\">elsewhere</a>"
            ),
            3 => writeln!(
                body,
                "<a href=\"/files/{page}.pdf\">PDF</a> <a href=\"/files/{page}.txt\">text</a>"
            ),
            4 => writeln!(
                body,
                "<a href=\"/loop/a\">circle</a> <a href=\"/files/{page}.png\">image</a>"
            ),
            5 => writeln!(body, "<a href=\"/away/{page}\">away</a>"),
            6 => writeln!(
                body,
                "<a href=\"mailto:a@b.example\">mail</a> <a href=\"javascript:void(0)\">script</a> <a href=\"tel:+1\">call</a>"
            ),
            _ => writeln!(
                body,
                "<a href=\"\">self</a> <a href=\"#top\">top</a> <!-- <a href=\"/commented\">no link</a> --> <a>none</a> <a href=\"http://[broken\">broken</a>"
            ),
        };
    }
}

/// A path-relative reference from one page to another.
fn relative(from: u32, to: u32) -> String {
    let up = path(from)
        .split('?')
        .next()
        .unwrap_or_default()
        .matches('/')
        .count()
        - 1;
    format!("{}{}", "../".repeat(up), &path(to)[1..])
}

/// For an attribute in quotes.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
}
