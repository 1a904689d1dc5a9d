//! Answers before the answer.

use super::{Case, case};
use crate::support::Then::{Close, Hang, Keep};

const FINAL: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn before(name: &'static str, interim: &str, awc: &'static str, ours: &'static str) -> Case {
    case(name, format!("{interim}{FINAL}"), Keep, "ok", awc, ours)
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        before(
            "100 before the answer",
            "HTTP/1.1 100 Continue\r\n\r\n",
            "100, empty; kept",
            "whole; kept",
        ),
        before(
            "102 before the answer",
            "HTTP/1.1 102 Processing\r\n\r\n",
            "102, empty; kept",
            "whole; kept",
        ),
        before(
            "103 before the answer",
            "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n",
            "103, empty; kept",
            "whole; kept",
        ),
        before(
            "an unknown 1xx before the answer",
            "HTTP/1.1 199 What\r\n\r\n",
            "199, empty; kept",
            "whole; kept",
        ),
        before(
            "100, 102, 103 and 103 before the answer",
            "HTTP/1.1 100 C\r\n\r\nHTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 E\r\nLink: x\r\n\r\nHTTP/1.1 103 E\r\n\r\n",
            "100, empty; kept",
            "whole; kept",
        ),
        before(
            "103 with a Content-Length and no body",
            "HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\n",
            "103, wrong bytes; kept",
            "whole; kept",
        ),
        before(
            "103 with a body",
            "HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\nhello",
            "103, wrong bytes; kept",
            "`Protocol`",
        ),
        before(
            "100 in HTTP/1.0",
            "HTTP/1.0 100 Continue\r\n\r\n",
            "hangs",
            "whole; kept",
        ),
        before(
            "100 answers of 103",
            &"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(100),
            "103, empty; kept",
            "`Protocol`",
        )
        .curl("has no bound"),
        case(
            "103 and no answer, then a close",
            "HTTP/1.1 103 Early Hints\r\n\r\n",
            Close,
            "ok",
            "103, empty; closed",
            "`Truncated`",
        ),
        case(
            "103 and no answer, then silence",
            "HTTP/1.1 103 Early Hints\r\n\r\n",
            Hang,
            "ok",
            "103, empty; **the next answer is lost**",
            "`HeadTimeout`",
        ),
        case(
            "101, which was not asked for",
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
            Hang,
            "",
            "hangs",
            "`Protocol`",
        ),
    ]
}
