//! Transfer-Encoding.

use super::{Case, case};
use crate::support::Then::{Close, Hang, Keep, Reset};

const HEAD: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// A chunked answer, kept; its meaning is `ok`.
fn chunked(name: &'static str, body: &str, awc: &'static str, ours: &'static str) -> Case {
    case(name, format!("{HEAD}{body}"), Keep, "ok", awc, ours)
}

/// An answer with fields of its own.
fn coded(
    name: &'static str,
    fields: &str,
    body: &str,
    awc: &'static str,
    ours: &'static str,
) -> Case {
    case(
        name,
        format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n{body}"),
        Close,
        "ok",
        awc,
        ours,
    )
}

pub(super) fn cases() -> Vec<Case> {
    let plain = "2\r\nok\r\n0\r\n\r\n";
    let ends = |body: &str| format!("{HEAD}{body}");
    vec![
        chunked("a chunked body", plain, "whole; kept", "whole; kept"),
        chunked(
            "chunk extensions",
            "2;name=\"a;b\"\r\nok\r\n0;x\r\n\r\n",
            "whole; kept",
            "whole; kept",
        ),
        chunked(
            "trailers",
            "2\r\nok\r\n0\r\nX-Sum: 1\r\nY: 2\r\n\r\n",
            "whole; kept",
            "whole; kept",
        ),
        chunked(
            "trailers of 200 KB",
            &format!("2\r\nok\r\n0\r\n{}\r\n", "X: y\r\n".repeat(33_000)),
            "whole; kept",
            "`Protocol`",
        )
        .curl("has no bound"),
        chunked(
            "a chunk-size line of 5000 bytes",
            &format!("2;{}\r\nok\r\n0\r\n\r\n", "e".repeat(5000)),
            "whole; kept",
            "`Protocol`",
        )
        .curl("has no bound"),
        chunked(
            "200 KB of chunk extensions for 2 bytes",
            &format!(
                "1;{0}\r\no\r\n{1}1\r\nk\r\n0\r\n\r\n",
                "e".repeat(4000),
                format!("1;{}\r\nx\r\n", "e".repeat(4000)).repeat(50)
            ),
            "wrong bytes; kept",
            "`Protocol`",
        )
        .curl("has no bound"),
        chunked(
            "chunk size in capitals with leading zeros",
            "0002\r\nok\r\n000\r\n\r\n",
            "whole; kept",
            "whole; kept",
        ),
        chunked(
            "spaces around the chunk size",
            " 2 \r\nok\r\n0\r\n\r\n",
            "error",
            "whole; kept",
        )
        .curl("an error at the first space; servers that pad with spaces are many"),
        chunked(
            "chunk lines that end in a bare LF",
            "2\nok\n0\n\n",
            "error",
            "whole; kept",
        ),
        chunked(
            "a chunk longer than its size",
            "2\r\nok!\r\n0\r\n\r\n",
            "error",
            "`Protocol`",
        ),
        chunked(
            "a chunk size that is no number",
            "zz\r\nok\r\n0\r\n\r\n",
            "error",
            "`Protocol`",
        ),
        chunked(
            "a negative chunk size",
            "-2\r\nok\r\n0\r\n\r\n",
            "error",
            "`Protocol`",
        ),
        chunked(
            "chunk size 0x2",
            "0x2\r\nok\r\n0\r\n\r\n",
            "error",
            "`Protocol`",
        ),
        chunked(
            "a chunk size of 2^64 and 2",
            "10000000000000002\r\nok\r\n0\r\n\r\n",
            "error",
            "`Protocol`",
        ),
        chunked(
            "an empty chunk-size line",
            "\r\nok\r\n0\r\n\r\n",
            "error",
            "`Protocol`",
        ),
        case(
            "a chunked body without its last chunk, then a close",
            ends("2\r\nok\r\n"),
            Close,
            "ok and more",
            "part; closed",
            "`Truncated`",
        ),
        case(
            "a chunked body without its last chunk, then a reset",
            ends("2\r\nok\r\n"),
            Reset,
            "ok and more",
            "error",
            "`Truncated`",
        ),
        case(
            "a close within a chunk",
            ends("5\r\nok"),
            Close,
            "ok and",
            "part; closed",
            "`Truncated`",
        ),
        case(
            "a close after the size of the last chunk",
            ends("2\r\nok\r\n0\r\n"),
            Close,
            "ok",
            "whole; closed",
            "`Truncated`",
        ),
        case(
            "a close within the trailers",
            ends("2\r\nok\r\n0\r\nX-Sum: 1"),
            Close,
            "ok",
            "whole; closed",
            "`Truncated`",
        ),
        case(
            "silence before the last chunk",
            ends("2\r\nok\r\n"),
            Hang,
            "ok and more",
            "hangs",
            "`IdleTimeout`",
        ),
        chunked(
            "bytes after the last chunk",
            "2\r\nok\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged",
            "whole; kept",
            "whole; closed",
        )
        .trailing(),
        case(
            "a chunked body in HTTP/1.1 that says close",
            "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            Keep,
            "ok",
            "whole; closed",
            "whole; closed",
        ),
        coded(
            "Content-Length beside chunked",
            "Content-Length: 1\r\nTransfer-Encoding: chunked",
            plain,
            "whole; closed",
            "whole; closed",
        ),
        coded(
            "chunked in capitals, spaces around it",
            "Transfer-Encoding:   CHUNKED  ",
            plain,
            "whole; closed",
            "whole; closed",
        ),
        coded(
            "Transfer-Encoding: chunked, chunked",
            "Transfer-Encoding: chunked, chunked",
            plain,
            "error",
            "`Protocol`",
        )
        .curl("takes off one"),
        coded(
            "Transfer-Encoding twice, both chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            plain,
            "error",
            "`Protocol`",
        )
        .curl("takes off one"),
        coded(
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: gzip, chunked",
            plain,
            "error",
            "`Protocol`",
        ),
        coded(
            "Transfer-Encoding: chunked, gzip",
            "Transfer-Encoding: chunked, gzip",
            plain,
            "error",
            "`Protocol`",
        ),
        coded(
            "Transfer-Encoding: identity with a length",
            "Transfer-Encoding: identity\r\nContent-Length: 2",
            "ok",
            "whole; closed",
            "whole; closed",
        ),
        coded(
            "Transfer-Encoding: identity, body until the close",
            "Transfer-Encoding: identity",
            "ok",
            "empty; closed",
            "whole; closed",
        ),
        coded(
            "Transfer-Encoding: xchunked",
            "Transfer-Encoding: xchunked",
            plain,
            "error",
            "`Protocol`",
        ),
        coded(
            "Transfer-Encoding with a control character in it",
            "Transfer-Encoding: \u{b}chunked",
            plain,
            "error",
            "`Protocol`",
        ),
        coded(
            "a space between Transfer-Encoding and its colon",
            "Transfer-Encoding : chunked",
            plain,
            "whole; closed",
            "whole; closed",
        )
        .curl("does not see the field: chunk sizes in the body"),
        coded(
            "Transfer-Encoding folded",
            "Transfer-Encoding:\r\n chunked",
            plain,
            "error",
            "whole; closed",
        )
        .curl("does not see the value: chunk sizes in the body"),
        coded(
            "chunked said, body not chunked",
            "Transfer-Encoding: chunked",
            "ok",
            "error",
            "`Truncated`",
        ),
    ]
}
