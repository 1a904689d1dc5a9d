//! Status lines, and what stands where one should.

use super::{Case, case};
use crate::support::Then::{Close, Hang, Keep};

/// A status line of its own, then a length of 2 and `ok`.
fn line(name: &'static str, line: &str, awc: &'static str, ours: &'static str) -> Case {
    case(
        name,
        format!("{line}\r\nContent-Length: 2\r\n\r\nok"),
        Keep,
        "ok",
        awc,
        ours,
    )
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        line(
            "no reason phrase",
            "HTTP/1.1 200",
            "whole; kept",
            "whole; kept",
        ),
        line(
            "no reason phrase, but its space",
            "HTTP/1.1 200 ",
            "whole; kept",
            "whole; kept",
        ),
        line(
            "a reason phrase in UTF-8",
            "HTTP/1.1 200 D\u{e9}j\u{e0} vu",
            "whole; kept",
            "whole; kept",
        ),
        line(
            "two spaces before the status",
            "HTTP/1.1  200 OK",
            "error",
            "whole; kept",
        ),
        line(
            "status 999",
            "HTTP/1.1 999 Go Away",
            "999, whole; kept",
            "999, whole; kept",
        ),
        line("status 99", "HTTP/1.1 99 Low", "error", "`Protocol`"),
        line("status 1000", "HTTP/1.1 1000 High", "error", "`Protocol`"),
        line(
            "a status that is no number",
            "HTTP/1.1 abc OK",
            "error",
            "`Protocol`",
        ),
        line(
            "a status and no space after it",
            "HTTP/1.1 200OK",
            "error",
            "`Protocol`",
        )
        .curl("reads three digits, whatever follows"),
        line("HTTP/1.2", "HTTP/1.2 200 OK", "error", "`Protocol`"),
        line(
            "HTTP/2.0 in a status line",
            "HTTP/2.0 200 OK",
            "error",
            "`Protocol`",
        )
        .curl("reads any version"),
        line(
            "http/1.1 in small letters",
            "http/1.1 200 OK",
            "error",
            "`Protocol`",
        )
        .curl("reads small letters"),
        line("ICY 200 OK", "ICY 200 OK", "error", "`Protocol`"),
        line(
            "an empty line before the answer",
            "\r\nHTTP/1.1 200 OK",
            "whole; kept",
            "whole; kept",
        )
        .curl("an error; RFC 9112 §2.2 asks for patience"),
        line(
            "50 empty lines before the answer",
            &format!("{}HTTP/1.1 200 OK", "\r\n".repeat(50)),
            "whole; kept",
            "whole; kept",
        )
        .curl("an error"),
        line(
            "a space before the answer",
            " HTTP/1.1 200 OK",
            "error",
            "`Protocol`",
        ),
        line(
            "a byte order mark before the answer",
            "\u{feff}HTTP/1.1 200 OK",
            "error",
            "`Protocol`",
        ),
        line(
            "the rest of an earlier body before the answer",
            "</html>HTTP/1.1 200 OK",
            "error",
            "`Protocol`",
        ),
        case(
            "a body without a head (HTTP/0.9)",
            "<html>no head at all",
            Close,
            "<html>no head at all",
            "error",
            "`Protocol`",
        ),
        case(
            "garbage, connection held open",
            "GARBAGE\r\n\r\n",
            Hang,
            "",
            "error",
            "`Protocol`",
        ),
        case(
            "a TLS alert in plain",
            b"\x15\x03\x01\x00\x02\x02\x0a",
            Hang,
            "",
            "error",
            "`Protocol`",
        ),
        case(
            "an SSH greeting",
            "SSH-2.0-OpenSSH_9.2\r\n",
            Hang,
            "",
            "error",
            "`Protocol`",
        ),
        case(
            "an HTTP/2 settings frame",
            b"\0\0\x12\x04\0\0\0\0\0",
            Hang,
            "",
            "error",
            "`Protocol`",
        ),
        case(
            "bare LF for every line end",
            "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
            Keep,
            "ok",
            "whole; kept",
            "whole; kept",
        ),
        case(
            "bare CR for every line end",
            "HTTP/1.1 200 OK\rContent-Length: 2\r\rok",
            Close,
            "ok",
            "error",
            "`Truncated`",
        ),
        case(
            "a head that mixes CRLF and LF",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\nX: y\r\n\nok",
            Keep,
            "ok",
            "whole; kept",
            "whole; kept",
        ),
    ]
}
