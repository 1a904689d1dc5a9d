//! Raw bytes against the wire: any answer, however it is split and wherever it ends, is read the same way.
//!
//! Bounded here; `PROPTEST_CASES=1000000` makes a long run of it.

use std::io;

use proptest::prelude::*;

use super::super::error::Fault;
use super::tests::{Seen, block_on, run};

/// Pieces that answers are made of, good ones and bad ones.
const PIECES: &[&[u8]] = &[
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.0 200 OK\r\n",
    b"HTTP/1.1 304 Not Modified\n",
    b"HTTP/1.1 204 \r\n",
    b"HTTP/1.1 103 Early Hints\r\n\r\n",
    b"HTTP/1.1 101 Switch\r\n",
    b"HTTP/1.1 ",
    b"HTTP/2 200\r\n",
    b"Content-Length: 5\r\n",
    b"content-length:5\r\n",
    b"Content-Length: 300\r\n",
    b"Content-Length: 5, 5\r\n",
    b"Content-Length: -1\r\n",
    b"Content-Length:\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding : chunked\r\n",
    b"Transfer-Encoding: gzip\r\n",
    b"Transfer-Encoding:\r\n chunked\r\n",
    b"Connection: close\r\n",
    b"X: y\r\n",
    b" folded\r\n",
    b"no colon\r\n",
    b": no name\r\n",
    b"X-\xe9: \xff\r\n",
    b"5\r\nhello\r\n",
    b"5;ext=1\r\nhello\n",
    b"0\r\n\r\n",
    b"0\r\nT: 1\r\n\r\n",
    b"ffffffffffffffff\r\n",
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b"hello",
];

/// Bytes that are nearly an answer.
fn near_answer() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => prop::sample::select(PIECES).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..20),
        // Beyond the bound of a head and of trailers.
        1 => (100usize..300).prop_map(|count| vec![b'x'; count]),
    ];
    let status = prop::sample::select(&PIECES[..8]).prop_map(<[u8]>::to_vec);
    (status, prop::collection::vec(piece, 0..12))
        .prop_map(|(status, pieces)| [status, pieces.concat()].concat())
}

/// What must not depend on how the bytes came: of a body that failed, only that it did.
fn essence(seen: Seen) -> (Option<u16>, Option<Vec<u8>>, Option<Fault>, bool) {
    let body = seen.fault.is_none().then_some(seen.body);
    (seen.status, body, seen.fault, seen.idle)
}

fn read(raw: &[u8], cuts: &[usize], room: usize, end: Option<io::ErrorKind>) -> Seen {
    block_on(run("GET / HTTP/1.1\r\n\r\n", raw, cuts, room, end))
}

proptest! {
    #[test]
    fn fuzz_splits_of_anything_are_read_the_same(
        raw in near_answer(),
        cuts in prop::collection::vec(1usize..40, 1..20),
        room in 1usize..300,
        reset in any::<bool>(),
    ) {
        let end = reset.then_some(io::ErrorKind::ConnectionReset);
        let whole = essence(read(&raw, &[raw.len().max(1)], 64 * 1024, end));
        let split = essence(read(&raw, &cuts, room, end));
        prop_assert_eq!(whole, split);
    }

    #[test]
    fn fuzz_every_byte_position_splits_alike(raw in near_answer()) {
        let whole = essence(read(&raw, &[raw.len().max(1)], 64 * 1024, None));
        for cut in 1..raw.len() {
            let split = essence(read(&raw, &[cut, raw.len()], 64 * 1024, None));
            prop_assert_eq!(&whole, &split, "{}", cut);
        }
    }

    #[test]
    fn fuzz_what_has_no_fault_has_an_end(raw in near_answer()) {
        let seen = read(&raw, &[7], 64, None);
        // Either an answer whose end was seen, or a fault that says what was missing.
        prop_assert!(seen.fault.is_some() || seen.status.is_some());
        if seen.fault.is_some() {
            prop_assert!(!seen.idle);
        }
    }

    #[test]
    fn fuzz_raw_bytes(raw in prop::collection::vec(any::<u8>(), 0..400), room in 1usize..100) {
        let seen = read(&raw, &[11], room, None);
        prop_assert!(seen.fault.is_some());
    }
}
