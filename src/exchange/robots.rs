//! What robots.txt allows, by RFC 9309. Pure: fetching, redirects (up to five) and expiry are the caller's.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use texting_robots::Robot;
use url::{Position, Url};

use super::redirect::target;
use crate::model::Answer;

/// Bytes of a robots.txt that are read; the RFC asks for at least this many.
const MAX_BYTES: usize = 500 * 1024;

/// The longest delay that is believed.
const MAX_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The rules of one origin for one crawler. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Robots(Rules);

#[derive(Clone, Debug)]
enum Rules {
    AllowAll,
    DisallowAll,
    Parsed(Arc<Robot>),
}

/// RFC 9309 §2.3.1.2: at least five consecutive redirects should be followed; beyond them the file does not exist.
pub const MOST_ROBOTS_REDIRECTS: usize = 5;

/// What an answer to a request for robots.txt comes to.
#[derive(Clone, Debug)]
pub enum RobotsAnswer {
    /// It lies elsewhere.
    Moved(Url),
    /// The rules.
    Rules(Robots),
    /// The server cannot say, or asks to slow down, which says nothing about the rules: nothing may be asked
    /// until they are known (RFC 9309 §2.3.1.4).
    Unknown,
}

impl RobotsAnswer {
    /// Of one answer; `user_agent` as for [`Robots::from_answer`].
    #[must_use]
    pub fn of(answer: &Answer, user_agent: &str) -> Self {
        match target(answer) {
            Some(Ok(next)) => Self::Moved(next),
            // It leads nowhere: there is no such file.
            Some(Err(_)) => Self::Rules(Robots::missing()),
            None if answer.status == 429 || answer.status >= 500 => Self::Unknown,
            None => Self::Rules(Robots::from_answer(answer.status, &answer.body, user_agent)),
        }
    }
}

/// The URL of the robots.txt that governs `url`.
#[must_use]
pub fn robots_url(url: &Url) -> Url {
    let mut robots = url.clone();
    robots.set_path("/robots.txt");
    robots.set_query(None);
    robots.set_fragment(None);
    // Refused only by URLs without a host, which have nothing to remove.
    let _ = robots.set_username("");
    let _ = robots.set_password(None);
    robots
}

/// The part of a `User-Agent` that robots.txt knows a crawler by: `crawler-node` of `crawler-node/1.0 (…)`.
#[must_use]
pub fn product_token(user_agent: &str) -> &str {
    user_agent
        .split(|c: char| c == '/' || c.is_whitespace())
        .find(|token| !token.is_empty())
        .unwrap_or("*")
}

impl Robots {
    /// The rules by the answer to the request for robots.txt; `user_agent` is a product token or a whole
    /// `User-Agent`.
    ///
    /// 2xx: the body's rules. 3xx (after five hops) and 4xx: the file does not exist, everything is
    /// allowed. All else: the server cannot say, nothing is allowed (RFC 9309 §2.3.1).
    #[must_use]
    pub fn from_answer(status: u16, body: &[u8], user_agent: &str) -> Self {
        Self(match status {
            200..=299 => parse(body, product_token(user_agent)),
            300..=499 => Rules::AllowAll,
            _ => Rules::DisallowAll,
        })
    }

    /// The rules where there is no such file: everything is allowed.
    #[must_use]
    pub const fn missing() -> Self {
        Self(Rules::AllowAll)
    }

    /// The rules while robots.txt cannot be had: nothing is allowed.
    #[must_use]
    pub const fn unreachable() -> Self {
        Self(Rules::DisallowAll)
    }

    /// Whether `url` may be asked. robots.txt itself always may.
    #[must_use]
    pub fn allows(&self, url: &Url) -> bool {
        match &self.0 {
            Rules::AllowAll => true,
            Rules::DisallowAll => url.path() == "/robots.txt",
            Rules::Parsed(robot) => {
                let path = &url[Position::BeforePath..Position::AfterQuery];
                robot.allowed(&normalise(path.as_bytes(), false))
            }
        }
    }

    /// The time between two requests that the file asks for; not part of the RFC, but widely written.
    /// At most a day.
    #[must_use]
    pub fn crawl_delay(&self) -> Option<Duration> {
        let Rules::Parsed(robot) = &self.0 else {
            return None;
        };
        let delay = robot.delay.filter(|delay| *delay >= 0.0)?;
        Some(Duration::try_from_secs_f32(delay).map_or(MAX_DELAY, |delay| delay.min(MAX_DELAY)))
    }
}

fn parse(body: &[u8], token: &str) -> Rules {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let body = match body.get(..MAX_BYTES) {
        // A rule that is cut in two would mean something else.
        Some(head) if body.len() > MAX_BYTES => {
            let end = head.iter().rposition(|b| matches!(b, b'\r' | b'\n'));
            &head[..end.unwrap_or(0)]
        }
        _ => body,
    };
    let lines: Vec<String> = body
        .split(|b| matches!(b, b'\r' | b'\n'))
        .map(normalise_line)
        .filter(|line| !line.is_empty())
        .collect();
    let whole = Robot::new(token, lines.join("\n").as_bytes());
    let robot = whole.or_else(|_| {
        let lines = lines.into_iter().filter_map(bearable);
        Robot::new(token, lines.collect::<Vec<_>>().join("\n").as_bytes())
    });
    robot.map_or(Rules::DisallowAll, |robot| Rules::Parsed(Arc::new(robot)))
}

/// A rule that is too complex for the matcher: a Disallow becomes a prefix, an Allow is dropped, both of
/// which ask for less.
fn bearable(line: String) -> Option<String> {
    if Robot::new("*", format!("user-agent: *\n{line}").as_bytes()).is_ok() {
        return Some(line);
    }
    let (key, rule) = line.split_once(": ")?;
    if key == "allow" {
        return None;
    }
    let prefix = rule.split(['*', '$']).next().unwrap_or_default();
    let prefix = if prefix.is_empty() { "/" } else { prefix };
    Some(format!("{key}: {prefix}"))
}

/// One line as the matcher needs it: no comment, paths in normal form, agents without a version.
fn normalise_line(line: &[u8]) -> String {
    let line = line.split(|&b| b == b'#').next().unwrap_or_default();
    let line = line.trim_ascii();
    let key_end = line
        .iter()
        .position(|b| matches!(b, b':' | b' ' | b'\t'))
        .unwrap_or(line.len());
    let (key, value) = line.split_at(key_end);
    let gap = value
        .iter()
        .position(|b| !matches!(b, b':' | b' ' | b'\t'))
        .unwrap_or(value.len());
    let value = &value[gap..];
    let key = String::from_utf8_lossy(key).to_ascii_lowercase();
    match key.as_str() {
        // The misspellings are those that the large search engines accept.
        "disallow" | "dissallow" | "dissalow" | "disalow" | "diasllow" | "disallaw" => {
            format!("disallow: {}", normalise(value, true))
        }
        "allow" => format!("allow: {}", normalise(value, true)),
        "user-agent" | "useragent" => {
            let value = String::from_utf8_lossy(value);
            format!("user-agent: {}", product_token(&value))
        }
        _ => String::from_utf8_lossy(line).into_owned(),
    }
}

/// A path, or a rule for paths, in the form in which two spellings of the same are equal (RFC 9309 §2.2.2):
/// what need not be percent-encoded is not, all else is, in upper case. `*` and a last `$` of a rule keep
/// their meaning; everywhere else they are encoded, so that they stand for themselves.
fn normalise(path: &[u8], rule: bool) -> String {
    let mut out = String::with_capacity(path.len());
    let mut at = 0;
    while let Some(&byte) = path.get(at) {
        let escape = match path.get(at..at + 3) {
            Some([b'%', high, low]) => hex(*high).zip(hex(*low)).map(|(h, l)| h * 16 + l),
            _ => None,
        };
        at += if escape.is_some() { 3 } else { 1 };
        let plain = match escape {
            Some(byte) => is_unreserved(byte),
            None if byte == b'*' => rule,
            None if byte == b'$' => rule && at == path.len(),
            None => is_unreserved(byte) || b"%:/?#[]@!&()+,;=".contains(&byte),
        };
        let byte = escape.unwrap_or(byte);
        if plain {
            out.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|d| u8::try_from(d).ok())
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::model::Headers;

    fn robots(text: &str, agent: &str) -> Robots {
        Robots::from_answer(200, text.as_bytes(), agent)
    }

    fn allows(robots: &Robots, path: &str) -> bool {
        robots.allows(&Url::parse("https://h.example").unwrap().join(path).unwrap())
    }

    fn rule_matches(rule: &str, path: &str) -> bool {
        !allows(
            &robots(&format!("User-agent: *\nDisallow: {rule}"), "bot"),
            path,
        )
    }

    #[test]
    fn an_answer_moves_tells_or_leaves_unknown() {
        let of = |status: u16, location: Option<&str>| {
            let field = |to: &str| ("location".to_owned(), Bytes::copy_from_slice(to.as_bytes()));
            let answer = Answer {
                url: Url::parse("http://h.example/robots.txt").unwrap(),
                status,
                headers: Headers(location.map(field).into_iter().collect()),
                body: Bytes::from_static(b"User-agent: *\nDisallow: /a"),
                head_time: Duration::ZERO,
                total_time: Duration::ZERO,
            };
            match RobotsAnswer::of(&answer, "bot") {
                RobotsAnswer::Moved(to) => to.to_string(),
                RobotsAnswer::Rules(rules) => format!("rules, /a {}", allows(&rules, "/a")),
                RobotsAnswer::Unknown => "unknown".to_owned(),
            }
        };
        assert_eq!(of(301, Some("/r")), "http://h.example/r");
        assert_eq!(of(302, Some("http://[")), "rules, /a true");
        assert_eq!(of(200, None), "rules, /a false");
        assert_eq!(of(404, None), "rules, /a true");
        assert_eq!(
            (of(429, None), of(503, None)),
            ("unknown".to_owned(), "unknown".to_owned())
        );
    }

    #[test]
    fn the_simple_example_of_the_rfc() {
        let text = "User-Agent: *\nDisallow: *.gif$\nDisallow: /example/\nAllow: /publications/\n\n\
            User-Agent: foobot\nDisallow:/\nAllow:/example/page.html\nAllow:/example/allowed.gif\n\n\
            User-Agent: barbot\nUser-Agent: bazbot\nDisallow: /example/page.html\n\n\
            User-Agent: quxbot\n\nEOF";
        for (agent, path, allowed) in [
            ("anybot", "/a.gif", false),
            ("anybot", "/a.gif?x", true),
            ("anybot", "/example/x", false),
            ("anybot", "/publications/", true),
            ("FooBot/2.1 (+http://x)", "/", false),
            ("foobot", "/example/page.html", true),
            ("foobot", "/example/allowed.gif", true),
            ("barbot", "/example/page.html", false),
            ("bazbot", "/example/page.html", false),
            ("bazbot", "/a.gif", true),
            ("quxbot", "/example/", true),
        ] {
            assert_eq!(
                allows(&robots(text, agent), path),
                allowed,
                "{agent} {path}"
            );
        }
    }

    #[test]
    fn the_longest_match_of_the_rfc() {
        let text =
            "User-Agent: foobot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n";
        let robots = robots(text, "foobot");
        assert!(allows(&robots, "/example/page/"));
        assert!(!allows(&robots, "/example/page/disallowed.gif"));
        let tie = "User-Agent: *\nDisallow: /x\nAllow: /x";
        assert!(allows(&Robots::from_answer(200, tie.as_bytes(), "b"), "/x"));
    }

    #[test]
    fn paths_are_compared_in_normal_form() {
        for (rule, path, matches) in [
            ("/foo/bar?baz=quz", "/foo/bar?baz=quz", true),
            ("/foo/bar/ツ", "/foo/bar/%E3%83%84", true),
            ("/foo/bar/%E3%83%84", "/foo/bar/ツ", true),
            ("/foo/bar/%e3%83%84", "/foo/bar/%E3%83%84", true),
            ("/foo/bar/%62%61%7A", "/foo/bar/baz", true),
            ("/foo/bar/baz", "/foo/bar/%62%61%7a", true),
            ("/a%2fb", "/a/b", false),
            ("/a%2fb", "/a%2Fb", true),
            (
                "/path/file-with-a-%2A.html",
                "/path/file-with-a-*.html",
                true,
            ),
            ("/path/foo-%24", "/path/foo-$", true),
            ("/price$5", "/price$5", true),
            ("/a{b}|c", "/a{b}|c", true),
            ("/q?x='1'", "/q?x='1'", true),
            ("/CASE", "/case", false),
            ("/fish*.php", "/fishheads/catfish.php?x", true),
            ("/*.php$", "/a/b.php", true),
            ("/*.php$", "/a/b.php?x", false),
            ("/private # comment", "/private/x", true),
            ("", "/x", false),
        ] {
            assert_eq!(rule_matches(rule, path), matches, "{rule} {path}");
        }
    }

    #[test]
    fn groups_of_the_same_agent_are_one_and_versions_do_not_count() {
        let text = "User-agent: bot/1.0\nDisallow: /a\n\nuser-agent: *\nDisallow: /\n\nUser-Agent: BOT\nDisallow: /b";
        let robots = robots(text, "bot/3.2");
        assert!(!allows(&robots, "/a") && !allows(&robots, "/b") && allows(&robots, "/c"));
    }

    #[test]
    fn file_forms() {
        let forms = [
            "\u{feff}User-agent: *\nDisallow: /x",
            "User-agent: *\r\nDisallow: /x\r\n",
            "User-agent: *\rDisallow: /x",
            "User-agent: *\n# c\nSitemap: http://a/s.xml\nDisallow: /x",
            "  user-agent : *\n\tdisallow : /x",
        ];
        for text in forms {
            let robots = robots(text, "bot");
            assert!(!allows(&robots, "/x") && allows(&robots, "/y"), "{text:?}");
        }
        let html = robots("<!DOCTYPE html><html><body>Not here</body></html>", "bot");
        assert!(allows(&html, "/x"));
        assert!(allows(&robots("", "bot"), "/"));
    }

    #[test]
    fn status_rules() {
        let all = b"User-agent: *\nDisallow: /";
        for (status, allowed) in [
            (200, false),
            (206, false),
            (301, true),
            (401, true),
            (403, true),
            (404, true),
            (410, true),
            (500, false),
            (503, false),
            (999, false),
        ] {
            let robots = Robots::from_answer(status, all, "bot");
            assert_eq!(allows(&robots, "/x"), allowed, "{status}");
            assert!(allows(&robots, "/robots.txt"), "{status}");
        }
        assert!(!allows(&Robots::unreachable(), "/x"));
    }

    #[test]
    fn the_file_is_read_up_to_500_kib_of_whole_lines() {
        let filler = format!("# {}\n", "x".repeat(1021));
        let mut text = String::from("User-agent: *\nDisallow: /a\n");
        text.push_str(&filler.repeat(499));
        text.push_str(&format!("# {}\n", "x".repeat(1024 - 28 - 3 - 14)));
        text.push_str("Disallow: /bcdefghijkl\nDisallow: /c\n");
        let robots = robots(&text, "bot");
        assert!(!allows(&robots, "/a") && allows(&robots, "/b") && allows(&robots, "/c"));
    }

    #[test]
    fn hostile_rules_are_cheap_and_never_allow_more() {
        let stars = format!("/a{}b$", "*x".repeat(400));
        let text = format!("User-agent: *\nAllow: {stars}\nDisallow: {stars}\nDisallow: /z");
        let robots = robots(&text, "bot");
        assert!(!allows(&robots, "/a1") && !allows(&robots, "/z") && allows(&robots, "/b"));
        let long = format!("User-agent: *\nDisallow: {}", "/*a".repeat(400));
        let path = "/a".repeat(2000);
        assert!(!allows(
            &Robots::from_answer(200, long.as_bytes(), "b"),
            &path
        ));
    }

    #[test]
    fn crawl_delays() {
        for (text, delay) in [
            ("User-agent: *\nCrawl-delay: 2.5", Some(2500)),
            ("User-agent: *\nCrawl-delay: inf", Some(86_400_000)),
            ("User-agent: *\nCrawl-delay: 1e30", Some(86_400_000)),
            ("User-agent: *\nCrawl-delay: NaN", None),
            ("User-agent: *\nCrawl-delay: -1", None),
            ("User-agent: *\nCrawl-delay: soon", None),
            ("User-agent: other\nCrawl-delay: 9", None),
        ] {
            let delay = delay.map(Duration::from_millis);
            assert_eq!(robots(text, "bot").crawl_delay(), delay, "{text}");
        }
    }

    #[test]
    fn where_the_file_lies() {
        let url = Url::parse("https://u:p@h.example:8443/a/b?c#d").unwrap();
        assert_eq!(
            robots_url(&url).as_str(),
            "https://h.example:8443/robots.txt"
        );
        assert_eq!(product_token("crawler-node/0.1.0 (+x)"), "crawler-node");
        assert_eq!(product_token(""), "*");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            body in prop::collection::vec(any::<u8>(), 0..400),
            path in "/[ -~]{0,40}",
        ) {
            let robots = Robots::from_answer(200, &body, "bot");
            let url = Url::parse(&format!("https://h.example{path}")).unwrap();
            let _ = (robots.allows(&url), robots.crawl_delay());
        }

        #[test]
        fn a_prefix_rule_matches_whatever_begins_with_it(
            path in "/[a-zA-Z0-9{}|'é$ *-]{0,20}",
            more in "[a-z]{1,9}",
        ) {
            // In a rule a star must be encoded to stand for itself.
            let rule = path.replace('*', "%2a");
            let rule = rule.trim_end_matches(['$', ' ']);
            let asked = [rule, more.as_str()].concat();
            prop_assert!(rule_matches(rule, &asked), "{} {}", rule, asked);
        }
    }
}
