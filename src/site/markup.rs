//! A streaming reader of HTML tags: no tree, no copies, time linear in the page.
//!
//! It follows the tokenization of the HTML standard (§13.2.5) as far as tags go: comments, declarations, raw text
//! (`script`, `style`, `textarea`, `title`, …), quoting, and the states in which a `<` is only text. A tree builder's view
//! is kept for one thing alone, whether a tag is inside SVG or MathML, for there raw text is none.

use memchr::{memchr, memmem};

/// One tag as it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag<'a> {
    /// Its name as written; compare without regard to case.
    pub(super) name: &'a [u8],
    /// `</name>`.
    pub(super) closes: bool,
    /// `<name/>`: means something only inside SVG and MathML.
    pub(super) self_closing: bool,
    /// Inside SVG or MathML.
    pub(super) foreign: bool,
    /// What is between the name and `>`.
    attributes: &'a [u8],
    /// For elements whose content is text alone (`title`): that content.
    pub(super) text: &'a [u8],
}

impl<'a> Tag<'a> {
    pub(super) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// The attribute called `name`, as written; the first one counts.
    pub(super) fn attribute(&self, name: &str) -> Option<&'a [u8]> {
        let mut attributes = Attributes::new(self.attributes);
        attributes
            .find_map(|(key, value)| key.eq_ignore_ascii_case(name.as_bytes()).then_some(value))
    }
}

/// The attributes of a tag: a state machine over §13.2.5.32 to 40.
struct Attributes<'a> {
    html: &'a [u8],
    at: usize,
    slash: bool,
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c)
}

impl<'a> Attributes<'a> {
    const fn new(html: &'a [u8]) -> Self {
        Self {
            html,
            at: 0,
            slash: false,
        }
    }

    fn skip_space(&mut self) {
        while self.at < self.html.len() && is_space(self.html[self.at]) {
            self.at += 1;
        }
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (&'a [u8], &'a [u8]);

    /// The next attribute; `None` at the `>` that ends the tag, on which `at` then stands, or at the end of the page.
    fn next(&mut self) -> Option<Self::Item> {
        let html = self.html;
        while self.at < html.len() && (is_space(html[self.at]) || html[self.at] == b'/') {
            self.slash = html[self.at] == b'/';
            self.at += 1;
        }
        if self.at >= html.len() || html[self.at] == b'>' {
            return None;
        }
        self.slash = false;
        let start = self.at;
        // A `=` in first place belongs to the name.
        self.at += 1;
        while self.at < html.len()
            && !is_space(html[self.at])
            && !matches!(html[self.at], b'/' | b'>' | b'=')
        {
            self.at += 1;
        }
        let name = &html[start..self.at];
        let after_name = self.at;
        self.skip_space();
        if html.get(self.at) != Some(&b'=') {
            self.at = after_name;
            return Some((name, &[]));
        }
        self.at += 1;
        self.skip_space();
        let value = match html.get(self.at) {
            Some(&quote @ (b'"' | b'\'')) => {
                let from = self.at + 1;
                let Some(length) = memchr(quote, &html[from..]) else {
                    self.at = html.len();
                    return None;
                };
                self.at = from + length + 1;
                &html[from..from + length]
            }
            _ => {
                let from = self.at;
                while self.at < html.len() && !is_space(html[self.at]) && html[self.at] != b'>' {
                    self.at += 1;
                }
                &html[from..self.at]
            }
        };
        Some((name, value))
    }
}

/// All tags of a page, in order.
pub(super) struct Tags<'a> {
    html: &'a [u8],
    at: usize,
    /// Open `svg` and `math` elements.
    foreign: u32,
    /// Open elements inside them that hold HTML again.
    integration: u32,
}

/// Elements whose content is text.
fn raw_text(name: &[u8]) -> Option<&'static str> {
    const NAMES: [&str; 9] = [
        "script",
        "style",
        "title",
        "textarea",
        "xmp",
        "iframe",
        "noembed",
        "noframes",
        "plaintext",
    ];
    let first = name.first()?.to_ascii_lowercase();
    if !matches!(first, b's' | b't' | b'x' | b'i' | b'n' | b'p') {
        return None;
    }
    NAMES
        .into_iter()
        .find(|raw| name.eq_ignore_ascii_case(raw.as_bytes()))
}

/// HTML elements that end SVG and MathML where they appear inside (§13.2.6.5).
fn breaks_out(name: &[u8]) -> bool {
    const NAMES: [&str; 44] = [
        "b",
        "big",
        "blockquote",
        "body",
        "br",
        "center",
        "code",
        "dd",
        "div",
        "dl",
        "dt",
        "em",
        "embed",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "head",
        "hr",
        "i",
        "img",
        "li",
        "listing",
        "menu",
        "meta",
        "nobr",
        "ol",
        "p",
        "pre",
        "ruby",
        "s",
        "small",
        "span",
        "strong",
        "strike",
        "sub",
        "sup",
        "table",
        "tt",
        "u",
        "ul",
        "var",
    ];
    NAMES
        .iter()
        .any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

fn holds_html(name: &[u8]) -> bool {
    [
        "foreignobject",
        "desc",
        "mi",
        "mo",
        "mn",
        "ms",
        "mtext",
        "annotation-xml",
    ]
    .iter()
    .any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

impl<'a> Tags<'a> {
    pub(super) const fn new(html: &'a [u8]) -> Self {
        Self {
            html,
            at: 0,
            foreign: 0,
            integration: 0,
        }
    }

    /// Skips past the next `end`, or to the end of the page.
    fn skip_past(&mut self, from: usize, end: &[u8]) {
        let rest = self.html.get(from..).unwrap_or_default();
        self.at = match memmem::find(rest, end) {
            Some(at) => from + at + end.len(),
            None => self.html.len(),
        };
    }

    /// Skips `<!…>`: a comment, a CDATA section of foreign content, or a declaration.
    fn skip_declaration(&mut self) {
        let rest = &self.html[self.at..];
        if rest.starts_with(b"<!--") {
            self.skip_comment();
        } else if self.foreign > 0 && rest.starts_with(b"<![CDATA[") {
            self.skip_past(self.at + 9, b"]]>");
        } else {
            self.skip_past(self.at + 2, b">");
        }
    }

    fn skip_comment(&mut self) {
        let from = self.at + 4;
        let rest = &self.html[from..];
        if rest.starts_with(b">") || rest.starts_with(b"->") {
            self.skip_past(from, b">");
            return;
        }
        let mut at = 0;
        while let Some(dashes) = memmem::find(&rest[at..], b"--") {
            let after = at + dashes + 2;
            if rest[after..].starts_with(b">") {
                self.at = from + after + 1;
                return;
            }
            if rest[after..].starts_with(b"!>") {
                self.at = from + after + 2;
                return;
            }
            at = after - 1;
        }
        self.at = self.html.len();
    }

    /// The text up to the end tag of `name`; `at` then stands on that end tag.
    fn take_raw(&mut self, name: &str) -> &'a [u8] {
        let from = self.at;
        let end = if name == "plaintext" {
            None
        } else if name == "script" {
            script_end(&self.html[from..])
        } else {
            end_tag(&self.html[from..], name)
        };
        self.at = end.map_or(self.html.len(), |end| from + end);
        &self.html[from..self.at]
    }

    fn track_foreign(&mut self, name: &[u8], closes: bool, self_closing: bool) {
        let opens_foreign = name.eq_ignore_ascii_case(b"svg") || name.eq_ignore_ascii_case(b"math");
        if self.foreign == 0 {
            if opens_foreign && !closes && !self_closing {
                self.foreign = 1;
            }
            return;
        }
        if opens_foreign {
            if closes {
                self.foreign -= 1;
                self.integration = self.integration.min(self.foreign);
            } else if !self_closing {
                self.foreign += 1;
            }
        } else if holds_html(name) {
            if closes {
                self.integration = self.integration.saturating_sub(1);
            } else if !self_closing {
                self.integration += 1;
            }
        } else if self.integration == 0 && !closes && breaks_out(name) {
            self.foreign = 0;
        }
    }
}

/// Where `</name` followed by a space, `/` or `>` begins.
fn end_tag(html: &[u8], name: &str) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = memmem::find(&html[at..], b"</") {
        let start = at + found;
        let rest = &html[start + 2..];
        let ends = rest.len() > name.len()
            && rest[..name.len()].eq_ignore_ascii_case(name.as_bytes())
            && (is_space(rest[name.len()]) || matches!(rest[name.len()], b'/' | b'>'));
        if ends {
            return Some(start);
        }
        at = start + 2;
    }
    None
}

/// As [`end_tag`] for a script, where `<!--` followed by `<script` hides one `</script>`.
fn script_end(html: &[u8]) -> Option<usize> {
    let end = end_tag(html, "script")?;
    if memmem::find(&html[..end], b"<!--").is_none() {
        return Some(end);
    }
    let word = |at: usize, sign: &[u8]| {
        let rest = &html[at..];
        rest.len() > sign.len()
            && rest[..sign.len()].eq_ignore_ascii_case(sign)
            && (is_space(rest[sign.len()]) || matches!(rest[sign.len()], b'/' | b'>'))
    };
    let (mut escaped, mut double) = (false, false);
    let mut at = 0;
    while at < html.len() {
        let step = memchr::memchr2(b'<', b'-', &html[at..])?;
        at += step;
        let rest = &html[at..];
        if rest.starts_with(b"-->") {
            (escaped, double) = (false, false);
        } else if rest.starts_with(b"<!--") && !escaped {
            escaped = true;
            // The dashes may already be those of `-->`.
            at += 1;
        } else if word(at, b"<script") && escaped {
            double = true;
        } else if word(at, b"</script") {
            if !double {
                return Some(at);
            }
            double = false;
        }
        at += 1;
    }
    None
}

impl<'a> Iterator for Tags<'a> {
    type Item = Tag<'a>;

    fn next(&mut self) -> Option<Tag<'a>> {
        let html = self.html;
        loop {
            self.at += memchr(b'<', html.get(self.at..)?)?;
            let next = *html.get(self.at + 1)?;
            let (closes, start) = match next {
                b'a'..=b'z' | b'A'..=b'Z' => (false, self.at + 1),
                b'/' => match *html.get(self.at + 2)? {
                    b'a'..=b'z' | b'A'..=b'Z' => (true, self.at + 2),
                    b'>' => {
                        self.at += 3;
                        continue;
                    }
                    _ => {
                        self.skip_past(self.at + 2, b">");
                        continue;
                    }
                },
                b'!' => {
                    self.skip_declaration();
                    continue;
                }
                b'?' => {
                    self.skip_past(self.at + 2, b">");
                    continue;
                }
                _ => {
                    self.at += 1;
                    continue;
                }
            };
            let length = html[start..]
                .iter()
                .position(|byte| is_space(*byte) || matches!(byte, b'/' | b'>'))?;
            let name = &html[start..start + length];
            let mut attributes = Attributes::new(&html[start + length..]);
            for _ in attributes.by_ref() {}
            let end = start + length + attributes.at;
            // A tag that the page ends in is none.
            if end >= html.len() {
                return None;
            }
            self.at = end + 1;
            let was_foreign = self.foreign > 0 && self.integration == 0;
            if self.foreign > 0
                || name.eq_ignore_ascii_case(b"svg")
                || name.eq_ignore_ascii_case(b"math")
            {
                self.track_foreign(name, closes, attributes.slash);
            }
            let foreign = was_foreign && self.foreign > 0;
            let text: &[u8] = match raw_text(name) {
                Some(raw) if !closes && !foreign => self.take_raw(raw),
                _ => &[],
            };
            return Some(Tag {
                name,
                closes,
                self_closing: attributes.slash,
                foreign,
                attributes: &html[start + length..end],
                text,
            });
        }
    }
}
