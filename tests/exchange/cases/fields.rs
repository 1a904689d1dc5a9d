//! Header fields.

use super::{Case, case};
use crate::support::Then::Keep;

/// Fields, then a length of 2 and `ok`.
fn fields(
    name: &'static str,
    fields: impl AsRef<[u8]>,
    awc: &'static str,
    ours: &'static str,
) -> Case {
    let bytes = [
        b"HTTP/1.1 200 OK\r\n",
        fields.as_ref(),
        b"\r\nContent-Length: 2\r\n\r\nok",
    ];
    case(name, bytes.concat(), Keep, "ok", awc, ours)
}

pub(super) fn cases() -> Vec<Case> {
    let many = |count: usize| {
        (0..count)
            .map(|n| format!("X-{n}: {n}"))
            .collect::<Vec<_>>()
            .join("\r\n")
    };
    vec![
        fields(
            "a folded field",
            "X-Fold: a\r\n b\r\n\tc",
            "error",
            "whole; kept",
        ),
        fields(
            "a first field that begins with a space",
            " X: y",
            "error",
            "whole; kept",
        )
        .curl("an error; browsers skip it"),
        fields("a space in a name", "Bad Name: x", "error", "whole; kept"),
        fields(
            "a space before the colon",
            "X : y",
            "whole; kept",
            "whole; kept",
        ),
        fields("a line without a colon", "nonsense", "error", "whole; kept")
            .curl("an error; browsers skip it"),
        fields("an empty name", ": y", "error", "whole; kept"),
        fields("an empty value", "X:", "whole; kept", "whole; kept"),
        fields("a name in UTF-8", "X-\u{e9}: y", "error", "whole; kept"),
        fields(
            "a value in UTF-8",
            "X: \u{e9}",
            "whole; kept",
            "whole; kept",
        ),
        fields(
            "a value in Latin-1",
            b"X: \xe9",
            "whole; kept",
            "whole; kept",
        ),
        fields("a NUL in a value", "X: a\0b", "error", "`Protocol`"),
        fields(
            "a control character in a value",
            "X: a\x01b",
            "error",
            "whole; kept",
        ),
        fields("a bare CR in a value", "X: a\rb", "error", "`Protocol`")
            .curl("keeps it in the value, where it may hide a field"),
        fields(
            "a value of 60 KB",
            format!("X: {}", "y".repeat(60_000)),
            "whole; kept",
            "whole; kept",
        ),
        fields(
            "a value of 140 KB",
            format!("X: {}", "y".repeat(140_000)),
            "error",
            "`HeaderTooLarge`",
        ),
        fields(
            "a name of 70 KB",
            format!("{}: y", "n".repeat(70_000)),
            "**panics**",
            "whole; kept",
        ),
        fields("97 fields", many(97), "error", "whole; kept"),
        fields("300 fields", many(300), "error", "whole; kept"),
        fields(
            "10000 fields",
            many(10_000).replace("X-", "x"),
            "error",
            "whole; kept",
        ),
        fields(
            "30000 fields of 4 bytes",
            vec!["a:"; 30_000].join("\r\n"),
            "error",
            "`Protocol`",
        )
        .curl("counts bytes only"),
        fields(
            "three Set-Cookie, one of them malformed",
            "Set-Cookie: a=1\r\nSet-Cookie: =;;\x7f\r\nSet-Cookie: b=2",
            "error",
            "whole; kept",
        ),
        fields(
            "Upgrade beside 200",
            "Connection: upgrade\r\nUpgrade: h2c",
            "whole; closed",
            "whole; kept",
        ),
    ]
}
