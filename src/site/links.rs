//! What a page says of itself and where it leads: title, base, links.
//!
//! Counted as links: `a[href]`, `area[href]`, `iframe[src]`, `frame[src]`, and `link[href]` whose `rel` has `next`, `prev`,
//! `canonical` or `alternate` and whose `type`, if it has one, is HTML; `rel=nofollow` takes a link out. So is where
//! `<meta http-equiv=refresh>` leads, at once or later.

use std::borrow::Cow;
use std::collections::HashSet;

use super::directives::Directives;
use super::markup::{Tag, Tags};
use super::refresh;
use super::values::collapse;

/// Longest title that is read, in bytes.
const MAX_TITLE: usize = 64 * 1024;

/// What a page holds for a crawl.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageLinks<'a> {
    /// The first title, white space collapsed; `None` when there is none.
    pub title: Option<String>,
    /// The first `base[href]`.
    pub base: Option<Cow<'a, str>>,
    /// The links as written, entities decoded, each text once, in the order of the page. Of [`page_links`] empty
    /// where the page asks that none be followed (`<meta name=robots content=nofollow>`).
    pub links: Vec<Cow<'a, str>>,
    /// What it asks of robots.
    pub directives: Directives,
}

/// Reads a page as any robot would.
#[must_use]
pub fn page_links(html: &str) -> PageLinks<'_> {
    let mut page = page_links_for(html, "");
    if page.directives.nofollow() {
        page.links.clear();
    }
    page
}

/// Reads a page as the robot with this product token would. Its links are all there; [`PageLinks::directives`] say
/// whether they are to be followed.
#[must_use]
pub fn page_links_for<'a>(html: &'a str, agent: &str) -> PageLinks<'a> {
    let mut page = PageLinks::default();
    let mut seen: HashSet<&[u8]> = HashSet::new();
    for tag in Tags::new(html.as_bytes()) {
        if tag.closes {
            continue;
        }
        let link = match tag.name[0] | 0x20 {
            b'a' if tag.is("a") || tag.is("area") => {
                followed(&tag).then(|| tag.attribute("href")).flatten()
            }
            b'l' if tag.is("link") => leads_on(&tag).then(|| tag.attribute("href")).flatten(),
            b'i' if tag.is("iframe") => tag.attribute("src"),
            b'f' if tag.is("frame") => tag.attribute("src"),
            b'b' if tag.is("base") && page.base.is_none() => {
                page.base = tag.attribute("href").map(decode_attribute);
                None
            }
            b'm' if tag.is("meta") => {
                add_directives(&mut page.directives, &tag, agent);
                page.links.extend(refreshes(&tag).map(Cow::Owned));
                None
            }
            b't' if page.title.is_none() && !tag.foreign && tag.is("title") => {
                page.title = Some(collapse(&decode_text(tag.text)));
                None
            }
            _ => None,
        };
        if let Some(link) = link
            && seen.insert(link)
        {
            page.links.push(decode_attribute(link));
        }
    }
    page
}

fn words(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|byte| byte.is_ascii_whitespace() || *byte == b',')
        .filter(|word| !word.is_empty())
}

fn has_word(value: &[u8], wanted: &str) -> bool {
    words(value).any(|word| word.eq_ignore_ascii_case(wanted.as_bytes()))
}

fn followed(tag: &Tag<'_>) -> bool {
    !tag.attribute("rel")
        .is_some_and(|rel| has_word(rel, "nofollow"))
}

fn leads_on(tag: &Tag<'_>) -> bool {
    let Some(rel) = tag.attribute("rel") else {
        return false;
    };
    let html = tag.attribute("type").is_none_or(|kind| {
        let kind = kind
            .split(|byte| *byte == b';')
            .next()
            .unwrap_or_default()
            .trim_ascii();
        kind.is_empty()
            || kind.eq_ignore_ascii_case(b"text/html")
            || kind.eq_ignore_ascii_case(b"application/xhtml+xml")
    });
    html && ["next", "prev", "canonical", "alternate"]
        .iter()
        .any(|kind| has_word(rel, kind))
        && !has_word(rel, "stylesheet")
        && !has_word(rel, "nofollow")
}

fn add_directives(directives: &mut Directives, tag: &Tag<'_>, agent: &str) {
    if let (Some(name), Some(content)) = (tag.attribute("name"), tag.attribute("content")) {
        directives.add_meta(&text_of(name), &decode_attribute(content), agent);
    }
}

/// Where a `<meta http-equiv=refresh>` sends the visitor.
fn refreshes(tag: &Tag<'_>) -> Option<String> {
    let kind = tag.attribute("http-equiv")?;
    if !kind.trim_ascii().eq_ignore_ascii_case(b"refresh") {
        return None;
    }
    let content = decode_attribute(tag.attribute("content")?);
    refresh::target(&content).map(str::to_owned)
}

/// Bytes of the page's own text, cut at tag boundaries: they are UTF-8 but for what a hostile page may try.
fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Decodes the references of an attribute's value.
fn decode_attribute(value: &[u8]) -> Cow<'_, str> {
    let text = text_of(value);
    match decode_common(&text, true) {
        Decoded::Same => text,
        Decoded::Changed(text) => Cow::Owned(text),
        Decoded::Rare => {
            let quote = if text.contains('"') { '\'' } else { '"' };
            let element = format!("<p title={quote}{text}{quote}>");
            let html = scraper::Html::parse_fragment(&element);
            let value = html
                .root_element()
                .descendent_elements()
                .find_map(|element| element.attr("title"))
                .map(str::to_owned);
            Cow::Owned(value.unwrap_or_else(|| text.into_owned()))
        }
    }
}

/// Decodes the references of a title.
fn decode_text(value: &[u8]) -> Cow<'_, str> {
    let text = text_of(&value[..value.len().min(MAX_TITLE)]);
    match decode_common(&text, false) {
        Decoded::Same => text,
        Decoded::Changed(text) => Cow::Owned(text),
        Decoded::Rare => {
            let html = scraper::Html::parse_document(&format!("<title>{text}"));
            Cow::Owned(html.root_element().text().collect())
        }
    }
}

enum Decoded {
    Same,
    Changed(String),
    /// A reference that only the full table of the standard knows.
    Rare,
}

/// Decodes what nearly all pages use; anything else is left to the HTML parser.
fn decode_common(text: &str, attribute: bool) -> Decoded {
    let Some(first) = text.find('&') else {
        return Decoded::Same;
    };
    let mut out = String::with_capacity(text.len());
    out.push_str(&text[..first]);
    let mut rest = &text[first..];
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let length = rest
            .find(|c: char| !(c.is_ascii_alphanumeric()))
            .unwrap_or(rest.len());
        let (name, after) = rest.split_at(length);
        let c = match name {
            "" if after.starts_with('#') => return Decoded::Rare,
            // A lone `&`, as in `a & b` and `?x&=`.
            "" => {
                out.push('&');
                continue;
            }
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            "nbsp" => '\u{a0}',
            "mdash" => '\u{2014}',
            "ndash" => '\u{2013}',
            "hellip" => '\u{2026}',
            // `?a=1&b=2`: in an attribute a name without `;` before a `=` is no reference.
            _ if attribute && after.starts_with('=') => {
                out.push('&');
                continue;
            }
            _ => return Decoded::Rare,
        };
        if let Some(behind) = after.strip_prefix(';') {
            out.push(c);
            rest = behind;
        } else if attribute && after.starts_with('=') {
            out.push('&');
        } else {
            return Decoded::Rare;
        }
    }
    out.push_str(rest);
    Decoded::Changed(out)
}

#[cfg(test)]
#[path = "links_tests.rs"]
mod tests;
