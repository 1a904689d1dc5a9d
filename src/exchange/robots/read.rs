//! One reading of robots.txt: the file, where it leads, and what came of it.

use std::time::Duration;

use bytes::Bytes;
use url::Url;

use super::super::error::{Fault, FetchError};
use super::super::redirect::target;
use super::fresh::good_for;
use super::rules::{Robots, robots_url};
use super::text::{MAX_BYTES, readable};
use crate::governor::hints::hints;
use crate::model::{Answer, Request, UnixMillis};

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
        match Said::of(answer) {
            Said::Moved(to) => Self::Moved(to),
            Said::File(file) => Self::Rules(Robots::of_file(file.as_deref(), user_agent)),
            Said::Nothing => Self::Unknown,
        }
    }
}

enum Said {
    Moved(Url),
    File(Option<Bytes>),
    Nothing,
}

impl Said {
    fn of(answer: &Answer) -> Self {
        match target(answer) {
            Some(Ok(next)) => Self::Moved(next),
            // It leads nowhere: there is no such file.
            Some(Err(_)) => Self::File(None),
            None => match answer.status {
                200..=299 => Self::File(Some(answer.body.clone())),
                // By decision; RFC 9309 §2.3.1.3 counts 408 and 429 among those that allow everything. A 304 answers a
                // question that was not asked.
                304 | 408 | 429 => Self::Nothing,
                300..=499 => Self::File(None),
                _ => Self::Nothing,
            },
        }
    }
}

/// What one reading of robots.txt, redirects included, came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RobotsRead {
    /// The rules are known.
    Known {
        /// The file; `None`: there is none, and everything is allowed.
        file: Option<Bytes>,
        /// How long this may be believed. At most 24 hours.
        good_for: Duration,
    },
    /// They are not: nothing may be asked (RFC 9309 §2.3.1.4).
    Unreachable {
        /// Why, for people; names the host.
        why: String,
        /// Whether there was a connection. Without one a page could not be asked for either.
        connected: bool,
        /// What the server asked to wait before the next request.
        retry_after: Option<Duration>,
    },
}

/// Reads the robots.txt that governs `url`. `ask` makes one exchange, under a permit of the host that it goes to.
///
/// # Errors
/// What `ask` fails with when it cannot make an exchange at all.
pub async fn read_robots<E>(
    url: &Url,
    mut ask: impl AsyncFnMut(&Request) -> Result<Result<Answer, FetchError>, E>,
) -> Result<RobotsRead, E> {
    let mut request = Request::get(robots_url(url));
    let mut last = None;
    for _ in 0..=MOST_ROBOTS_REDIRECTS {
        let mut came = ask(&request).await?;
        if let Some(range) = came.as_ref().err().and_then(first_part) {
            // The rules are in the part that is read, where the server gives parts.
            request.headers.push(("Range".to_owned(), range));
            came = ask(&request).await?;
        }
        request.headers.clear();
        let answer = match came {
            Ok(answer) => answer,
            Err(error) => return Ok(failed(&error)),
        };
        let now = UnixMillis::now();
        match Said::of(&answer) {
            Said::Moved(next) => request.url = next,
            Said::File(file) => {
                let good_for = good_for(&answer, now);
                // Only what is read of it is kept.
                let whole = answer.status != 206;
                let file = file.map(|body| Bytes::from(readable(&body, whole).into_owned()));
                return Ok(RobotsRead::Known { file, good_for });
            }
            Said::Nothing => {
                return Ok(RobotsRead::Unreachable {
                    why: format!(
                        "{} answered {} for robots.txt",
                        answer.url.origin().ascii_serialization(),
                        answer.status
                    ),
                    connected: true,
                    retry_after: hints(&answer.headers, now).retry_after,
                });
            }
        }
        last = Some(answer);
    }
    let good_for = last.map_or(Duration::ZERO, |answer| {
        good_for(&answer, UnixMillis::now())
    });
    Ok(RobotsRead::Known {
        file: None,
        good_for,
    })
}

/// What to ask for of a file that is larger than a body may be: as much as is read of it, and a byte more, by which it
/// is known to go on.
fn first_part(error: &FetchError) -> Option<String> {
    match error.fault {
        Fault::BodyTooLarge { limit } if limit > 0 => {
            Some(format!("bytes=0-{}", (limit - 1).min(MAX_BYTES as u64)))
        }
        _ => None,
    }
}

fn failed(error: &FetchError) -> RobotsRead {
    RobotsRead::Unreachable {
        why: format!("robots.txt: {error}"),
        connected: !matches!(
            error.fault,
            Fault::Dns(_) | Fault::Connect(_) | Fault::ConnectTimeout
        ),
        retry_after: None,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::model::{Headers, Method};

    fn answer(url: &Url, status: u16, fields: &[(&str, &str)]) -> Answer {
        let field = |(name, value): &(&str, &str)| {
            ((*name).to_owned(), Bytes::copy_from_slice(value.as_bytes()))
        };
        Answer {
            url: url.clone(),
            status,
            headers: Headers(fields.iter().map(field).collect()),
            body: Bytes::from_static(b"User-agent: *\nDisallow: /a"),
            notes: Vec::new(),
            head_time: Duration::ZERO,
            total_time: Duration::ZERO,
        }
    }

    /// Reads from a server that gives each answer once, the last one for ever; gives the URLs asked too.
    fn read(answers: &[(u16, &[(&str, &str)])]) -> (RobotsRead, Vec<String>) {
        let mut asked = Vec::new();
        let start = Url::parse("http://h.example/deep/page?q").unwrap();
        let reading = read_robots(&start, async |request| {
            let (status, fields) = answers.get(asked.len()).or(answers.last()).unwrap();
            asked.push(request.url.to_string());
            Ok::<_, Infallible>(Ok(answer(&request.url, *status, fields)))
        });
        let read = futures_util::FutureExt::now_or_never(reading).unwrap();
        (read.unwrap(), asked)
    }

    fn good_for(read: &RobotsRead) -> u64 {
        match read {
            RobotsRead::Known { good_for, .. } => good_for.as_secs(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_answer_moves_tells_or_leaves_unknown() {
        let url = Url::parse("http://h.example/robots.txt").unwrap();
        let asked = Url::parse("http://h.example/a").unwrap();
        let of = |status: u16, location: Option<&str>| {
            let fields: Vec<_> = location.map(|to| ("location", to)).into_iter().collect();
            match RobotsAnswer::of(&answer(&url, status, &fields), "bot") {
                RobotsAnswer::Moved(to) => to.to_string(),
                RobotsAnswer::Rules(rules) => format!("rules, /a {}", rules.allows(&asked)),
                RobotsAnswer::Unknown => "unknown".to_owned(),
            }
        };
        assert_eq!(of(301, Some("/r")), "http://h.example/r");
        assert_eq!(of(302, Some("http://[")), "rules, /a true");
        assert_eq!(of(200, None), "rules, /a false");
        assert_eq!(of(404, None), "rules, /a true");
        for status in [304, 408, 429, 500, 503, 599] {
            assert_eq!(of(status, None), "unknown", "{status}");
        }
    }

    #[test]
    fn five_redirects_are_followed_to_wherever_they_lead_and_the_sixth_is_a_missing_file() {
        let hop: (u16, &[(&str, &str)]) = (301, &[("location", "//other.example/r")]);
        let file: (u16, &[(&str, &str)]) = (200, &[]);
        let (five, asked) = read(&[hop, hop, hop, hop, hop, file]);
        assert!(matches!(five, RobotsRead::Known { file: Some(_), .. }));
        assert_eq!(asked.len(), 6);
        assert_eq!(
            asked[..2],
            ["http://h.example/robots.txt", "http://other.example/r"]
        );
        let (six, asked) = read(&[hop]);
        assert!(matches!(six, RobotsRead::Known { file: None, .. }));
        assert_eq!((asked.len(), good_for(&six)), (6, 3600));
    }

    #[test]
    fn a_file_is_good_for_as_long_as_it_says_but_no_longer_than_a_day() {
        for (status, fields, seconds) in [
            (200, &[][..], 86_400),
            (200, &[("cache-control", "public, max-age=1800")], 1800),
            (200, &[("cache-control", "max-age=604800")], 86_400),
            (200, &[("cache-control", "no-store")], 300),
            (200, &[("cache-control", "max-age=0")], 300),
            (200, &[("expires", "0")], 300),
            (404, &[], 86_400),
            (403, &[], 3600),
            (401, &[("cache-control", "max-age=900")], 900),
        ] {
            assert_eq!(
                good_for(&read(&[(status, fields)]).0),
                seconds,
                "{status} {fields:?}"
            );
        }
    }

    #[test]
    fn what_a_server_asks_to_wait_is_kept_and_what_never_connected_is_told_apart() {
        let (read, _) = read(&[(503, &[("retry-after", "120")])]);
        let RobotsRead::Unreachable {
            why,
            connected,
            retry_after,
        } = read
        else {
            panic!("{read:?}");
        };
        assert_eq!(why, "http://h.example answered 503 for robots.txt");
        assert_eq!(
            (connected, retry_after),
            (true, Some(Duration::from_secs(120)))
        );
        for (fault, there) in [
            (Fault::Dns("no".to_owned()), false),
            (Fault::Connect("refused".to_owned()), false),
            (Fault::ConnectTimeout, false),
            (Fault::HeadTimeout, true),
            (Fault::Disconnected { reused: false }, true),
            (Fault::BodyTooLarge { limit: 1 }, true),
        ] {
            let error = FetchError {
                host: "h".into(),
                method: Method::Get,
                fault,
                partial: None,
            };
            assert!(
                matches!(failed(&error), RobotsRead::Unreachable { connected, .. } if connected == there)
            );
        }
    }
}
