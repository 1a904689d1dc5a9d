//! Heads as servers write them.

use proptest::prelude::*;

use super::*;

fn head(raw: &str) -> Result<Head, Fault> {
    parse(raw.as_bytes(), false)
}

#[test]
fn framing_follows_the_rules() {
    for (raw, framing, persistent) in [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            Framing::Length(5),
            true,
        ),
        (
            "HTTP/1.1 200\r\ncontent-length: 5, 5\r\n\r\n",
            Framing::Length(5),
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
            Framing::Length(5),
            true,
        ),
        (
            "HTTP/1.1 200 OK\nContent-Length: 5\n\n",
            Framing::Length(5),
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: foo, Close\r\n\r\n",
            Framing::Length(5),
            false,
        ),
        (
            "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n",
            Framing::Length(5),
            false,
        ),
        (
            "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n",
            Framing::Length(5),
            true,
        ),
        ("HTTP/1.1 200 OK\r\n\r\n", Framing::UntilClose, false),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n",
            Framing::Chunked,
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n",
            Framing::Length(2),
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
            Framing::Chunked,
            false,
        ),
        (
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            Framing::Chunked,
            false,
        ),
        (
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
            Framing::None,
            true,
        ),
        (
            "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
            Framing::None,
            false,
        ),
        (
            "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
            Framing::None,
            true,
        ),
        (
            "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive, close\r\n\r\n",
            Framing::Length(5),
            false,
        ),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
            Framing::None,
            true,
        ),
    ] {
        let head = head(raw).unwrap_or_else(|fault| panic!("{raw:?}: {fault}"));
        assert_eq!(
            (head.framing, head.persistent),
            (framing, persistent),
            "{raw:?}"
        );
    }
    let to_head = parse(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true).unwrap();
    assert_eq!(to_head.framing, Framing::None);
}

#[test]
fn ambiguous_framing_is_refused() {
    for raw in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\x7fContent-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length\x01: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: y\r\nTransfer-Encoding: \x0bchunked\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
    ] {
        assert!(matches!(head(raw), Err(Fault::Protocol(_))), "{raw:?}");
    }
}

#[test]
fn odd_fields_are_kept_or_dropped_one_by_one() {
    let raw = "HTTP/1.1 200 OK\r\nX-Fold: a\r\n  b\r\n\tc\r\nName With Space: x\r\nSpace-After : y\r\nEmpty:\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nContent-Length: 0\r\n\r\n";
    let head = head(raw).unwrap();
    assert_eq!(head.headers.get("x-fold"), Some("a b c"));
    assert_eq!(head.headers.get("space-after"), Some("y"));
    assert_eq!(head.headers.get("empty"), Some(""));
    assert_eq!(
        head.headers.all("set-cookie").collect::<Vec<_>>(),
        ["a=1", "b=2"]
    );
    assert_eq!(head.framing, Framing::Length(0));
}

#[test]
fn any_number_of_fields_and_any_name_length() {
    let mut raw = String::from("HTTP/1.1 200 OK\r\n");
    for n in 0..500 {
        raw.push_str(&format!("X-{n}: {n}\r\n"));
    }
    raw.push_str(&"n".repeat(70_000));
    raw.push_str(": long\r\nContent-Length: 3\r\n\r\n");
    let head = head(&raw).unwrap();
    assert_eq!(head.headers.get("x-499"), Some("499"));
    assert_eq!(head.headers.0.len(), 501);
    assert_eq!(head.framing, Framing::Length(3));
}

#[test]
fn latin_1_and_utf_8_values_stay_bytes() {
    let head = parse(
        b"HTTP/1.1 302 OK\r\nLocation: /\xe9\r\nX: \xc3\xa9\r\n\r\n",
        false,
    )
    .unwrap();
    assert_eq!(head.headers.0[0].1.as_ref(), b"/\xe9");
    assert_eq!(head.headers.get("x"), Some("é"));
}

proptest! {
    #[test]
    fn the_end_is_the_same_however_the_bytes_arrive(
        lines in prop::collection::vec("[a-z:\r ]{0,6}", 0..6),
        crlf in any::<bool>(),
        cuts in prop::collection::vec(1usize..8, 1..40),
    ) {
        let end = if crlf { "\r\n" } else { "\n" };
        let raw = format!("H{end}{}{end}{end}tail", lines.join(end));
        let raw = raw.as_bytes();
        let whole = HeadEnd::default().find(raw);
        let mut finder = HeadEnd::default();
        let mut at = 0;
        let mut found = None;
        for cut in cuts.iter().cycle() {
            at = (at + cut).min(raw.len());
            found = finder.find(&raw[..at]);
            if found.is_some() || at == raw.len() { break; }
        }
        prop_assert_eq!(found, whole);
    }

    #[test]
    fn no_bytes_make_it_panic(raw in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&raw, false);
        let mut with_start = b"HTTP/1.1 200 OK\r\n".to_vec();
        with_start.extend(&raw);
        with_start.extend(b"\r\n\r\n");
        let _ = parse(&with_start, false);
    }
}
