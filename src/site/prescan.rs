//! What a page says of its own encoding: the prescan of the HTML standard (§13.2.3.2), and the XML declaration.

use encoding_rs::Encoding;

use super::charset::{known, of_itself};

/// The encoding that `head`, the first bytes of a page, names. Only a `<meta>` element and an XML declaration count:
/// neither `charset=` in a script or in an address, nor anything in a comment.
pub(super) fn encoding(head: &[u8]) -> Option<&'static Encoding> {
    if let Some(declared) = of_declaration(head) {
        return Some(declared);
    }
    let mut at = 0;
    while at < head.len() {
        let rest = &head[at..];
        if rest.starts_with(b"<!--") {
            at += 2;
            at += memchr::memmem::find(&head[at..], b"-->")? + 3;
        } else if is_tag(rest, b"meta") {
            let mut tag = Attributes { rest: &rest[5..] };
            if let Some(encoding) = of_meta(&mut tag) {
                return Some(encoding);
            }
            at = head.len() - tag.rest.len();
        } else if let [b'<', b'!' | b'/' | b'?', ..] = rest {
            at += rest.iter().position(|byte| *byte == b'>')? + 1;
        } else if let [b'<', letter, ..] = rest
            && letter.is_ascii_alphabetic()
        {
            let end = rest
                .iter()
                .position(|byte| byte.is_ascii_whitespace() || *byte == b'>')?;
            let mut tag = Attributes { rest: &rest[end..] };
            while tag.next().is_some() {}
            let raw = RAW.iter().find(|name| is_tag(rest, name));
            at = head.len() - tag.rest.len();
            if let Some(name) = raw {
                at += end_of(&head[at..], name)?;
            }
        } else {
            at += 1;
        }
    }
    None
}

/// Elements whose text is no markup. Browsers look into them all the same; a `<meta>` that a script writes says
/// nothing of the page it is in.
const RAW: [&[u8]; 2] = [b"script", b"style"];

/// Where the end tag of `name` begins.
fn end_of(text: &[u8], name: &[u8]) -> Option<usize> {
    memchr::memmem::find_iter(text, b"</").find(|at| {
        text.get(at + 2..at + 2 + name.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(name))
    })
}

fn is_tag(text: &[u8], name: &[u8]) -> bool {
    let end = name.len() + 1;
    text.len() > end
        && text[0] == b'<'
        && text[1..end].eq_ignore_ascii_case(name)
        && (text[end].is_ascii_whitespace() || matches!(text[end], b'/' | b'>'))
}

/// `<?xml … encoding="…"?>`, which browsers heed where there is nothing else.
fn of_declaration(head: &[u8]) -> Option<&'static Encoding> {
    let rest = head.strip_prefix(b"<?xml")?;
    let end = rest.iter().position(|byte| *byte == b'>')?;
    let at = memchr::memmem::find(&rest[..end], b"encoding")? + b"encoding".len();
    let value = rest[at..end].trim_ascii_start().strip_prefix(b"=")?;
    let value = value.trim_ascii_start();
    let (quote, value) = value.split_first()?;
    let length = value.iter().position(|byte| byte == quote)?;
    matches!(quote, b'"' | b'\'')
        .then(|| known(&value[..length]))
        .flatten()
        .map(of_itself)
}

/// What the attributes of a `<meta>` say. One that names no known encoding says nothing, and the search goes on.
fn of_meta(tag: &mut Attributes<'_>) -> Option<&'static Encoding> {
    let (mut pragma, mut charset, mut content) = (false, None, None);
    while let Some((name, value)) = tag.next() {
        // The first of a name counts.
        match name.as_slice() {
            b"http-equiv" => pragma |= value.trim_ascii().eq_ignore_ascii_case(b"content-type"),
            b"charset" if charset.is_none() => charset = Some(known(value.trim_ascii())),
            b"content" if content.is_none() => content = Some(of_content(value)),
            _ => {}
        }
    }
    let named = charset.flatten();
    let told = content.flatten().filter(|_| pragma);
    named.or(told).map(of_itself)
}

/// The `charset=` of a `content` (HTML standard §2.6.6).
fn of_content(value: &[u8]) -> Option<&'static Encoding> {
    let lower = value.to_ascii_lowercase();
    let mut at = 0;
    loop {
        at += memchr::memmem::find(&lower[at..], b"charset")? + b"charset".len();
        let rest = lower[at..].trim_ascii_start();
        let Some(rest) = rest.strip_prefix(b"=") else {
            continue;
        };
        let rest = rest.trim_ascii_start();
        let label = match rest.first()? {
            quote @ (b'"' | b'\'') => rest[1..].split(|byte| byte == quote).next()?,
            _ => rest
                .split(|byte| byte.is_ascii_whitespace() || *byte == b';')
                .next()?,
        };
        return known(label);
    }
}

/// The attributes of a tag; ends behind its `>`.
struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Attributes<'a> {
    fn skip(&mut self, skipped: impl Fn(&u8) -> bool) {
        let at = self.rest.iter().position(|byte| !skipped(byte));
        self.rest = &self.rest[at.unwrap_or(self.rest.len())..];
    }

    fn take(&mut self, end: impl Fn(&u8) -> bool) -> &'a [u8] {
        let at = self.rest.iter().position(end).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(at);
        self.rest = rest;
        taken
    }

    /// The next attribute: its name in lower case, and its value. A value that the head is too short for is none.
    fn next(&mut self) -> Option<(Vec<u8>, &'a [u8])> {
        self.skip(|byte| byte.is_ascii_whitespace() || *byte == b'/');
        match self.rest.first()? {
            b'>' => {
                self.rest = &self.rest[1..];
                return None;
            }
            // A tag that is never closed ends where the next one begins.
            b'<' => return None,
            _ => {}
        }
        let (first, others) = self.rest.split_at(1);
        self.rest = others;
        let others =
            self.take(|byte| byte.is_ascii_whitespace() || matches!(byte, b'=' | b'>' | b'/'));
        let name = [first, others].concat().to_ascii_lowercase();
        self.skip(u8::is_ascii_whitespace);
        if self.rest.first() != Some(&b'=') {
            return Some((name, b""));
        }
        self.rest = &self.rest[1..];
        self.skip(u8::is_ascii_whitespace);
        let value = match *self.rest.first()? {
            quote @ (b'"' | b'\'') => {
                self.rest = &self.rest[1..];
                let value = self.take(|byte| *byte == quote);
                self.rest = self.rest.get(1..)?;
                value
            }
            _ => {
                let value = self.take(|byte| byte.is_ascii_whitespace() || *byte == b'>');
                self.rest.first()?;
                value
            }
        };
        Some((name, value))
    }
}
