//! What robots.txt allows, by RFC 9309.

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use texting_robots::Robot;
use url::{Position, Url};

use super::text;

/// Sitemaps of one file that are kept; search engines take as many.
const MOST_SITEMAPS: usize = 1000;

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

    /// The rules of a file; `None`: there is none. `user_agent` as for [`from_answer`](Self::from_answer).
    #[must_use]
    pub fn of_file(file: Option<&[u8]>, user_agent: &str) -> Self {
        match file {
            Some(text) => Self(parse(text, product_token(user_agent))),
            None => Self::missing(),
        }
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

    /// The sitemaps that the file names, whichever agent they stand under; each once, in the order of the file, at
    /// most a thousand. `file` is the URL of the robots.txt.
    #[must_use]
    pub fn sitemaps(&self, file: &Url) -> Vec<Url> {
        let Rules::Parsed(robot) = &self.0 else {
            return Vec::new();
        };
        let mut known = HashSet::new();
        let named = robot.sitemaps.iter().filter_map(|text| sitemap(file, text));
        named
            .filter(|url| known.insert(url.clone()))
            .take(MOST_SITEMAPS)
            .collect()
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
    let body = text::readable(body, true);
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

/// The sitemaps among the lines, absolute http(s) URLs; the file's own URL is the base of those that are not.
fn sitemap(base: &Url, written: &str) -> Option<Url> {
    let written = written.trim();
    let url = base.join(written).ok().filter(|_| !written.is_empty())?;
    matches!(url.scheme(), "http" | "https").then_some(url)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|d| u8::try_from(d).ok())
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}
