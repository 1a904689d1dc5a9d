//! Dates of cookies (RFC 6265 §5.1.1): read by what their parts look like, in whatever order they come.

use jiff::civil::DateTime;

use crate::model::UnixMillis;

const MONTHS: [&[u8]; 12] = [
    b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec",
];

/// The instant that `text` names; `None` where the algorithm fails.
pub(super) fn parse(text: &[u8]) -> Option<UnixMillis> {
    let (mut time, mut day, mut month, mut year) = (None, None, None, None);
    for token in text.split(|&byte| is_delimiter(byte)) {
        if time.is_none()
            && let Some(found) = time_of(token)
        {
            time = Some(found);
        } else if day.is_none()
            && let Some(found) = number(token, 1..=2)
        {
            day = Some(found);
        } else if month.is_none()
            && let Some(found) = month_of(token)
        {
            month = Some(found);
        } else if year.is_none()
            && let Some(found) = number(token, 2..=4)
        {
            year = Some(found);
        }
    }
    let ((hour, minute, second), day, month) = (time?, day?, month?);
    let year = match year? {
        year @ 70..=99 => year + 1900,
        year @ 0..=69 => year + 2000,
        year => year,
    };
    if year < 1601 {
        return None;
    }
    let small = |number: u16| i8::try_from(number).ok();
    let at = DateTime::new(
        i16::try_from(year).ok()?,
        month,
        small(day)?,
        small(hour)?,
        small(minute)?,
        small(second)?,
        0,
    );
    // Not by way of an instant: those end before 9999-12-31, which servers like to write.
    let since = at
        .ok()?
        .duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0));
    i64::try_from(since.as_millis()).ok().map(UnixMillis)
}

const fn is_delimiter(byte: u8) -> bool {
    matches!(byte, 0x09 | 0x20..=0x2f | 0x3b..=0x40 | 0x5b..=0x60 | 0x7b..=0x7e)
}

/// A number of so many digits at the token's start; what follows must not be a digit.
fn number(token: &[u8], digits: std::ops::RangeInclusive<usize>) -> Option<u16> {
    let count = token
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if !digits.contains(&count) {
        return None;
    }
    let value = |sum: u16, byte: &u8| sum * 10 + u16::from(byte - b'0');
    Some(token[..count].iter().fold(0, value))
}

/// `hour:minute:second`, one or two digits each; what follows must not be a digit.
fn time_of(token: &[u8]) -> Option<(u16, u16, u16)> {
    let mut fields = token.splitn(3, |&byte| byte == b':');
    let mut whole = || {
        let field = fields.next()?;
        let digits = field.iter().all(u8::is_ascii_digit);
        digits.then(|| number(field, 1..=2)).flatten()
    };
    let (hour, minute) = (whole()?, whole()?);
    Some((hour, minute, number(fields.next()?, 1..=2)?))
}

fn month_of(token: &[u8]) -> Option<i8> {
    let head = token.get(..3)?.to_ascii_lowercase();
    let index = MONTHS.iter().position(|month| *month == head)?;
    i8::try_from(index + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_that_servers_write() {
        let at = Some(UnixMillis(784_111_777_000));
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "sun, 6 november 1994 8:49:37",
            "1994 Nov 06 08:49:37",
            "08:49:37 06 Nov 94",
            "Nov 6 1994 08:49:37 +0200 (zone is not read)",
            "Sun,06 Nov 1994;08:49:37",
            "6th Nov 1994 08:49:37xyz",
        ] {
            assert_eq!(parse(text.as_bytes()), at, "{text}");
        }
    }

    #[test]
    fn two_digits_are_of_two_centuries() {
        let year = |text: &str| parse(format!("1 Jan {text} 00:00:00").as_bytes());
        assert_eq!(year("70"), Some(UnixMillis(0)));
        assert_eq!(year("69"), year("2069"));
        assert_eq!(year("99"), year("1999"));
        assert_eq!(year("00"), year("2000"));
    }

    #[test]
    fn what_lacks_a_part_or_is_no_date_is_refused() {
        for text in [
            "",
            "Sun, 06 Nov 1994",
            "06 Nov 08:49:37",
            "Nov 1994 08:49",
            "32 Nov 1994 08:49:37",
            "31 Feb 1994 08:49:37",
            "0 Nov 1994 08:49:37",
            "6 Nov 1994 24:00:00",
            "6 Nov 1994 08:60:37",
            "6 Nov 1994 08:49:61",
            "6 Nov 1600 08:49:37",
            "6 Nov 12345 08:49:37",
            "6 Foo 1994 08:49:37",
            "6 Nov 1994 8:49:377",
            "tomorrow",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(b"\xff 6 \x80Nov 1994 08:49:37"), None);
    }
}
