//! What an origin tells of its limits in the header of an answer.

use std::time::Duration;

use bytes::Bytes;

use crate::governor::Hints;
use crate::governor::hints::hints;
use crate::model::{Headers, UnixMillis};
use crate::sim::limits::Left;

/// The `Retry-After` of a refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryTold {
    /// None.
    #[default]
    Absent,
    /// Whole seconds, rounded up.
    Seconds,
    /// Seconds with three decimals, rounded up.
    Fraction,
    /// The date of RFC 9110.
    Date,
    /// The date of RFC 850.
    Rfc850,
    /// The date of C's `asctime`.
    Asctime,
    /// Zero, whatever the wait is.
    Zero,
    /// A date ten seconds ago.
    Past,
    /// Another form each time, in turn.
    Rotate,
}

/// What every answer tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fields {
    /// Nothing.
    #[default]
    Absent,
    /// `RateLimit` and `RateLimit-Policy` as the IETF's draft has them.
    Ietf,
    /// The same, where `r` and `t` allow a hundred times what `q` and `w` do: the trap that the draft warns of.
    IetfTrap,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`.
    Legacy(Reset),
}

/// How `X-RateLimit-Reset` is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// Seconds from now.
    Seconds,
    /// Seconds of the epoch.
    Epoch,
    /// Milliseconds of the epoch.
    Millis,
    /// A date of ISO 8601.
    Iso,
}

/// A header as the origin writes it.
pub(super) type Header = Vec<(&'static str, String)>;

/// The wall clock at the start of every run: 2026-01-01T00:00:00Z.
const EPOCH: Duration = Duration::from_secs(1_767_225_600);
/// The origin's wall clock is ahead of the client's.
const SKEW: Duration = Duration::from_secs(7_200);

const RFC_9110: &str = "%a, %d %b %Y %H:%M:%S GMT";

impl RetryTold {
    /// The seven forms of [`RetryTold::Rotate`].
    const FORMS: [Self; 7] = [
        Self::Seconds,
        Self::Fraction,
        Self::Date,
        Self::Rfc850,
        Self::Asctime,
        Self::Zero,
        Self::Past,
    ];

    /// Tells `wait`; `nth` counts the refusals.
    pub(super) fn write(self, now: Duration, wait: Duration, nth: usize, header: &mut Header) {
        let form = if self == Self::Rotate {
            Self::FORMS[nth % Self::FORMS.len()]
        } else {
            self
        };
        let server = EPOCH + SKEW + now;
        // A date has no fraction, so it is the first whole second that is not before the end of the wait.
        let until = Duration::from_secs((server + wait).as_nanos().div_ceil(NANOS) as u64);
        let value = match form {
            Self::Absent | Self::Rotate => return,
            Self::Seconds => wait.as_nanos().div_ceil(NANOS).to_string(),
            Self::Fraction => {
                let millis = wait.as_nanos().div_ceil(1_000_000);
                format!("{}.{:03}", millis / 1000, millis % 1000)
            }
            Self::Date => date(until, RFC_9110),
            Self::Rfc850 => date(until, "%A, %d-%b-%y %H:%M:%S GMT"),
            Self::Asctime => date(until, "%a %b %e %H:%M:%S %Y"),
            Self::Zero => "0".to_owned(),
            Self::Past => date(server.saturating_sub(Duration::from_secs(10)), RFC_9110),
        };
        header.push(("retry-after", value));
        header.push(("date", date(server, RFC_9110)));
    }
}

const NANOS: u128 = 1_000_000_000;

impl Fields {
    /// Tells what is `left`.
    pub(super) fn write(self, now: Duration, left: Left, header: &mut Header) {
        let Left {
            of,
            window,
            remaining,
            reset,
        } = left;
        let seconds = |time: Duration| time.as_nanos().div_ceil(NANOS);
        let server = EPOCH + SKEW + now;
        match self {
            Self::Absent => {}
            Self::Ietf if window.is_zero() => {
                let policy = format!("\"all\";q={of};qu=\"concurrent-requests\"");
                header.push(("ratelimit-policy", policy));
            }
            Self::Ietf => {
                let policy = format!("\"all\";q={of};w={}", seconds(window).max(1));
                header.push(("ratelimit-policy", policy));
                let now = format!("\"all\";r={remaining};t={}", seconds(reset));
                header.push(("ratelimit", now));
            }
            Self::IetfTrap => {
                let per_second = f64::from(of) / window.as_secs_f64().max(1e-3);
                let quota = (per_second * 1000.0).round();
                header.push(("ratelimit-policy", format!("\"all\";q={quota};w=1000")));
                header.push(("ratelimit", format!("\"all\";r={quota};t=10")));
            }
            Self::Legacy(unit) => {
                let at = server + reset;
                let reset = match unit {
                    Reset::Seconds => seconds(reset).to_string(),
                    Reset::Epoch => seconds(at).to_string(),
                    Reset::Millis => at.as_nanos().div_ceil(1_000_000).to_string(),
                    Reset::Iso => date(
                        Duration::from_secs(seconds(at) as u64),
                        "%Y-%m-%dT%H:%M:%SZ",
                    ),
                };
                header.push(("x-ratelimit-limit", of.to_string()));
                header.push(("x-ratelimit-remaining", remaining.to_string()));
                header.push(("x-ratelimit-reset", reset));
                header.push(("date", date(server, RFC_9110)));
            }
        }
    }
}

fn date(at: Duration, format: &str) -> String {
    let seconds = i64::try_from(at.as_secs()).unwrap_or(i64::MAX);
    // Only a run of many thousand years leaves the calendar; it tells no date then.
    jiff::Timestamp::from_second(seconds)
        .map(|at| at.strftime(format).to_string())
        .unwrap_or_default()
}

/// What the client reads from it, at `now` by its own clock.
pub(super) fn read(header: Header, now: Duration) -> Hints {
    let fields = header
        .into_iter()
        .map(|(name, value)| (name.to_owned(), Bytes::from(value)));
    let now = UnixMillis(0).after(EPOCH + now);
    hints(&Headers(fields.collect()), now)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn retry(form: RetryTold, nth: usize) -> Header {
        let mut header = Header::new();
        form.write(MS(1_250), MS(2_500), nth, &mut header);
        header
    }

    #[test]
    fn each_form_of_retry_after_is_written_as_servers_do() {
        let value = |form| retry(form, 0)[0].1.clone();
        assert!(retry(RetryTold::Absent, 0).is_empty());
        assert_eq!(value(RetryTold::Seconds), "3");
        assert_eq!(value(RetryTold::Fraction), "2.500");
        assert_eq!(value(RetryTold::Zero), "0");
        // The server's clock stands at 02:00:01.25, the wait ends at 02:00:03.75.
        assert_eq!(value(RetryTold::Date), "Thu, 01 Jan 2026 02:00:04 GMT");
        assert_eq!(value(RetryTold::Rfc850), "Thursday, 01-Jan-26 02:00:04 GMT");
        assert_eq!(value(RetryTold::Asctime), "Thu Jan  1 02:00:04 2026");
        assert_eq!(value(RetryTold::Past), "Thu, 01 Jan 2026 01:59:51 GMT");
        let date = ("date", "Thu, 01 Jan 2026 02:00:01 GMT".to_owned());
        assert_eq!(retry(RetryTold::Seconds, 0)[1], date);
    }

    #[test]
    fn forms_take_turns() {
        let values: Vec<String> = (0..8)
            .map(|nth| retry(RetryTold::Rotate, nth)[0].1.clone())
            .collect();
        assert_eq!(values[0], "3");
        assert_eq!(values[5], "0");
        assert_eq!(values[7], values[0]);
    }

    #[test]
    fn the_client_reads_a_wait_that_is_not_too_short_whatever_its_clock_says() {
        for form in [
            RetryTold::Seconds,
            RetryTold::Fraction,
            RetryTold::Date,
            RetryTold::Rfc850,
            RetryTold::Asctime,
        ] {
            let wait = read(retry(form, 0), MS(1_260)).retry_after;
            let wait = wait.unwrap_or_default();
            assert!(wait >= MS(2_500) && wait <= MS(4_000), "{form:?}: {wait:?}");
        }
        for form in [RetryTold::Zero, RetryTold::Past] {
            let wait = read(retry(form, 0), MS(1_260)).retry_after;
            assert_eq!(wait, Some(Duration::ZERO), "{form:?}");
        }
    }

    fn fields(fields: Fields) -> Vec<(&'static str, String)> {
        let left = Left {
            of: 100,
            window: MS(10_000),
            remaining: 7,
            reset: MS(2_500),
        };
        let mut header = Header::new();
        fields.write(MS(1_250), left, &mut header);
        header
    }

    #[test]
    fn each_kind_of_field_tells_the_same() {
        assert!(fields(Fields::Absent).is_empty());
        let ietf = fields(Fields::Ietf);
        assert_eq!(ietf[0].1, "\"all\";q=100;w=10");
        assert_eq!(ietf[1].1, "\"all\";r=7;t=3");
        let trap = fields(Fields::IetfTrap);
        assert_eq!(trap[0].1, "\"all\";q=10000;w=1000");
        assert_eq!(trap[1].1, "\"all\";r=10000;t=10");
        for (unit, reset) in [
            (Reset::Seconds, "3"),
            (Reset::Epoch, "1767232804"),
            (Reset::Millis, "1767232803750"),
            (Reset::Iso, "2026-01-01T02:00:04Z"),
        ] {
            let header = fields(Fields::Legacy(unit));
            assert_eq!(header[0].1, "100");
            assert_eq!(header[1].1, "7");
            assert_eq!(header[2].1, reset, "{unit:?}");
        }
    }
}
