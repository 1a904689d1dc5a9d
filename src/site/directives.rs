//! What a page asks of robots: `X-Robots-Tag` and `<meta name=robots>`.
//!
//! Neither has a standard of its own. Read as the large search engines document it: directives add up, those for all robots
//! and those for this one, and case does not matter.

use crate::model::Headers;

/// Directives of one page that are kept; no page needs more.
const MOST: usize = 20;
/// Longest directive that is kept, in bytes.
const LONGEST: usize = 100;

/// Directives that carry a value behind a colon. Any other name before a colon is that of a robot.
const WITH_VALUE: [&str; 4] = [
    "max-image-preview",
    "max-snippet",
    "max-video-preview",
    "unavailable_after",
];

/// What a page asks of this robot: each directive once, in the order it was met, in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directives(Vec<String>);

impl Directives {
    /// Adds what the `X-Robots-Tag` fields of an answer say to all robots and to `agent`, a product token.
    pub fn add_headers(&mut self, headers: &Headers, agent: &str) {
        for value in headers.all("x-robots-tag") {
            self.add(value, agent, true);
        }
    }

    /// Adds what a meta element of this name says, where it speaks to all robots or to `agent`.
    pub fn add_meta(&mut self, name: &str, content: &str, agent: &str) {
        let name = name.trim();
        if name.eq_ignore_ascii_case("robots") || is_agent(name, agent) {
            self.add(content, agent, false);
        }
    }

    /// A list by commas. In a header a part may begin with the name of the robot that it and what follows it speak to.
    fn add(&mut self, list: &str, agent: &str, names_robots: bool) {
        let mut ours = true;
        let mut dated = false;
        for part in list.split(',').map(str::trim) {
            // The comma in a date: `unavailable_after: Friday, 25-Jun-10 15:00:00 GMT`.
            if dated && part.starts_with(|c: char| c.is_ascii_digit()) {
                dated = false;
                if let Some(last) = self.0.last_mut().filter(|_| ours) {
                    let date = format!("{last}, {}", part.to_ascii_lowercase());
                    *last = cut(&date).to_owned();
                }
                continue;
            }
            let mut directive = part;
            while names_robots
                && let Some((name, rest)) = directive.split_once(':')
                && !WITH_VALUE.contains(&name.trim().to_ascii_lowercase().as_str())
            {
                ours = name.trim() == "*" || is_agent(name.trim(), agent);
                directive = rest.trim();
            }
            dated = directive
                .get(..17)
                .is_some_and(|start| start.eq_ignore_ascii_case("unavailable_after"));
            if ours {
                self.put(directive);
            }
        }
    }

    fn put(&mut self, directive: &str) {
        let words: Vec<&str> = directive.split_ascii_whitespace().collect();
        let directive = words.join(" ").to_ascii_lowercase();
        let directive = cut(&directive);
        if !directive.is_empty()
            && self.0.len() < MOST
            && !self.0.iter().any(|known| known == directive)
        {
            self.0.push(directive.to_owned());
        }
    }

    /// Whether the links of the page are not to be followed.
    #[must_use]
    pub fn nofollow(&self) -> bool {
        // Some write the words without commas.
        let words = self.0.iter().flat_map(|directive| directive.split(' '));
        words
            .into_iter()
            .any(|word| matches!(word, "nofollow" | "none"))
    }

    /// All of them, by commas; `None` where there is none.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.join(", "))
    }
}

fn is_agent(name: &str, agent: &str) -> bool {
    !agent.is_empty() && name.eq_ignore_ascii_case(agent)
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn header(values: &[&str]) -> Directives {
        let field = |value: &&str| {
            (
                "x-robots-tag".to_owned(),
                Bytes::copy_from_slice(value.as_bytes()),
            )
        };
        let mut directives = Directives::default();
        directives.add_headers(&Headers(values.iter().map(field).collect()), "crawler-node");
        directives
    }

    #[test]
    fn headers_speak_to_all_robots_or_to_one() {
        for (values, text) in [
            (&[][..], None),
            (&[""], None),
            (&["NoIndex , NOFOLLOW"], Some("noindex, nofollow")),
            (&["noindex", "noindex", "none"], Some("noindex, none")),
            (&["googlebot: nofollow"], None),
            (
                &["Crawler-Node: nofollow, noarchive"],
                Some("nofollow, noarchive"),
            ),
            (
                &["otherbot: noindex, nofollow", "noarchive"],
                Some("noarchive"),
            ),
            (&["noindex, otherbot: nofollow"], Some("noindex")),
            (
                &["otherbot: nofollow, crawler-node: noindex"],
                Some("noindex"),
            ),
            (&["*: nofollow"], Some("nofollow")),
            (
                &["unavailable_after: 25 Jun 2010 15:00:00 PST"],
                Some("unavailable_after: 25 jun 2010 15:00:00 pst"),
            ),
            (
                &["crawler-node: unavailable_after: Friday, 25-Jun-10 15:00:00 GMT, nofollow"],
                Some("unavailable_after: friday, 25-jun-10 15:00:00 gmt, nofollow"),
            ),
            (
                &["otherbot: unavailable_after: Friday, 25-Jun-10 15:00:00 GMT, nofollow"],
                None,
            ),
            (
                &["max-snippet:-1, max-image-preview: large"],
                Some("max-snippet:-1, max-image-preview: large"),
            ),
        ] {
            assert_eq!(header(values).text().as_deref(), text, "{values:?}");
        }
    }

    #[test]
    fn metas_speak_to_all_robots_or_to_one() {
        for (name, content, text) in [
            ("robots", "NOINDEX,NoFollow", Some("noindex, nofollow")),
            (" Robots ", "none", Some("none")),
            ("CRAWLER-NODE", "nofollow", Some("nofollow")),
            ("googlebot", "nofollow", None),
            ("description", "nofollow", None),
            ("robots", "otherbot: nofollow", Some("otherbot: nofollow")),
        ] {
            let mut directives = Directives::default();
            directives.add_meta(name, content, "crawler-node");
            assert_eq!(directives.text().as_deref(), text, "{name} {content}");
        }
        let mut directives = Directives::default();
        directives.add_meta("", "nofollow", "");
        assert_eq!(directives, Directives::default());
    }

    #[test]
    fn links_are_not_followed_where_a_directive_says_so() {
        for (value, nofollow) in [
            ("nofollow", true),
            ("None", true),
            ("noindex nofollow", true),
            ("noindex", false),
            ("follow, all", false),
            ("nofollowing", false),
        ] {
            assert_eq!(header(&[value]).nofollow(), nofollow, "{value}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_and_little_is_kept(values in prop::collection::vec(".{0,300}", 0..30)) {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            let directives = header(&values);
            let _ = directives.nofollow();
            prop_assert!(directives.text().is_none_or(|text| text.len() <= MOST * (LONGEST + 2)));
        }
    }
}
