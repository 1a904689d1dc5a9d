use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use proptest::prelude::*;

use super::*;

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn zlib(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn bare(data: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn brotli(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = brotli::CompressorWriter::new(&mut out, 4096, 3, 18);
    encoder.write_all(data).unwrap();
    drop(encoder);
    out
}

fn zstd(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0; zstd_safe::compress_bound(data.len())];
    let length = zstd_safe::compress(&mut out[..], data, 3).unwrap();
    out.truncate(length);
    out
}

type Encode = fn(&[u8]) -> Vec<u8>;

/// Every form of every coding: its label, and how it is made.
const CODINGS: [(&str, Encode); 5] = [
    ("gzip", gzip),
    ("deflate", zlib),
    ("deflate", bare),
    ("br", brotli),
    ("zstd", zstd),
];

#[derive(Debug, PartialEq)]
struct Decoded {
    body: Vec<u8>,
    notes: Vec<BodyNote>,
    fault: Option<Fault>,
}

fn headers(media_type: &str, coding: &str) -> Headers {
    let fields = [("content-type", media_type), ("content-encoding", coding)];
    Headers(
        fields
            .map(|(name, value)| (name.to_owned(), value.to_owned().into()))
            .into(),
    )
}

/// Decodes `body`, handed in by pieces of `size` bytes; checks the bounds of every step.
fn decode_split(body: &[u8], media_type: &str, coding: &str, limit: u64, size: usize) -> Decoded {
    let growth = Growth {
        bytes: limit,
        expansion: 1000,
    };
    decode_within(body, media_type, coding, growth, size)
}

/// As [`decode_split`], with bounds of one's own.
fn decode_within(
    body: &[u8],
    media_type: &str,
    coding: &str,
    growth: Growth,
    size: usize,
) -> Decoded {
    let limit = growth.bytes;
    let mut decoded = Decoded {
        body: Vec::new(),
        notes: Vec::new(),
        fault: None,
    };
    let mut decoder = match Decoder::new(&headers(media_type, coding), growth) {
        Ok((Some(decoder), _)) => decoder,
        Ok((None, notes)) => {
            return Decoded {
                body: body.to_vec(),
                notes,
                fault: None,
            };
        }
        Err(fault) => {
            return Decoded {
                fault: Some(fault),
                ..decoded
            };
        }
    };
    let mut pieces = body.chunks(size.max(1));
    loop {
        let before = decoded.body.len();
        let step = decoder.step(&mut decoded.body);
        assert!(decoded.body.len() - before <= STEP);
        assert!(decoded.body.len() as u64 <= limit + 1);
        match step {
            Ok(Step::More) => {}
            Ok(Step::Hungry) => match pieces.next() {
                Some(piece) => decoder.feed(Bytes::copy_from_slice(piece)),
                None => decoder.end(),
            },
            Ok(Step::Done) => break,
            Err(fault) => {
                decoded.fault = Some(fault);
                break;
            }
        }
    }
    decoded.notes = decoder.notes();
    decoded
}

fn decode(body: &[u8], coding: &str) -> Decoded {
    decode_split(body, "", coding, 10_000_000, usize::MAX)
}

fn text() -> Vec<u8> {
    b"some text that is long enough to be looked at ".repeat(40)
}

fn good(body: impl Into<Vec<u8>>, notes: &[BodyNote]) -> Decoded {
    Decoded {
        body: body.into(),
        notes: notes.to_vec(),
        fault: None,
    }
}

#[test]
fn every_coding_is_undone() {
    for (label, encode) in CODINGS {
        for data in [&b""[..], b"x", b"{\"a\": 1}", &text()] {
            assert_eq!(decode(&encode(data), label), good(data, &[]), "{label}");
        }
    }
}

#[test]
fn an_empty_body_needs_no_decoding() {
    for (label, _) in CODINGS {
        assert_eq!(decode(b"", label), good("", &[]), "{label}");
    }
    assert_eq!(decode(b"", "gzip, br"), good("", &[]));
}

#[test]
fn plain_bodies_under_any_label_stay_and_are_noted() {
    for label in ["gzip", "deflate", "br", "zstd"] {
        for body in [
            "<",
            "{\"a\": 1}",
            "<!doctype html><html><head><title>t</title></head>",
            "页面",
        ] {
            let note = BodyNote::NotEncoded(label);
            assert_eq!(
                decode(body.as_bytes(), label),
                good(body, &[note]),
                "{label}"
            );
        }
    }
}

#[test]
fn gzip_and_zstd_may_have_several_members() {
    let members = |encode: Encode| [encode(b"one "), encode(b""), encode(b"two")].concat();
    assert_eq!(decode(&members(gzip), "gzip"), good("one two", &[]));
    assert_eq!(decode(&members(zstd), "zstd"), good("one two", &[]));
    let skipped = [
        &[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3][..],
        &zstd(b"one"),
    ]
    .concat();
    assert_eq!(decode(&skipped, "zstd"), good("one", &[]));
}

#[test]
fn bytes_behind_the_end_are_dropped_and_noted() {
    for (label, encode) in CODINGS {
        for tail in [&b"\0"[..], b"rubbish", &[0; 2000]] {
            let body = [&encode(b"one"), tail].concat();
            assert_eq!(
                decode(&body, label),
                good("one", &[BodyNote::BytesBehind]),
                "{label}"
            );
        }
    }
}

#[test]
fn gzip_under_the_label_deflate_is_undone() {
    let note = BodyNote::OtherCoding("deflate");
    assert_eq!(decode(&gzip(b"one"), "deflate"), good("one", &[note]));
}

#[test]
fn a_text_encoded_twice_under_one_label_is_undone_twice_and_a_file_once() {
    let twice = gzip(&gzip(b"<p>one"));
    let html = decode_split(&twice, "text/html", "gzip", 1000, 7);
    assert_eq!(html, good("<p>one", &[BodyNote::EncodedTwice]));
    let file = decode_split(&twice, "application/octet-stream", "gzip", 1000, 7);
    assert_eq!(file, good(gzip(b"<p>one"), &[]));
    let archive = decode_split(&gzip(b"tar"), "application/x-gzip", "gzip", 1000, 7);
    assert_eq!(archive, good(gzip(b"tar"), &[BodyNote::ArchiveKept]));
}

#[test]
fn unknown_codings_are_skipped() {
    let note = BodyNote::UnknownCoding("aws-chunked".to_owned());
    assert_eq!(
        decode(&gzip(b"one"), "gzip, aws-chunked"),
        good("one", &[note])
    );
    let note = BodyNote::UnknownCoding("UTF-8".to_owned());
    assert_eq!(decode(b"one", "UTF-8"), good("one", &[note]));
}

#[test]
fn a_stream_that_stops_is_truncated_and_what_came_before_is_kept() {
    let text = text();
    for (label, encode) in CODINGS {
        let whole = encode(&text);
        for end in [8, whole.len() / 2, whole.len() - 8, whole.len() - 1] {
            let cut = decode(&whole[..end], label);
            let truncated = Fault::Truncated {
                received: end as u64,
                expected: None,
            };
            assert_eq!(cut.fault, Some(truncated), "{label} {end}");
            assert!(text.starts_with(&cut.body));
        }
    }
    let half = gzip(&text);
    assert!(decode(&half[..half.len() - 8], "gzip").body == text);
}

#[test]
fn a_changed_stream_is_corrupt_and_its_coding_is_named() {
    let mut changed = gzip(&text());
    let crc = changed.len() - 6;
    changed[crc] ^= 1;
    let fault = decode(&changed, "gzip").fault.unwrap();
    assert!(matches!(&fault, Fault::Decode(_)), "{fault}");
    assert!(fault.to_string().contains("gzip: "), "{fault}");
    for (label, encode) in CODINGS {
        let mut changed = encode(&text());
        changed[6..30].fill(0xff);
        let fault = decode(&changed, label).fault.unwrap();
        assert!(matches!(fault, Fault::Decode(_)), "{label} {fault}");
        let named = format!("{label}: ");
        assert!(fault.to_string().contains(&named), "{fault}");
    }
}

#[test]
fn windows_larger_than_http_allows_are_refused() {
    // A frame header (RFC 8878 §3.1.1.1.2) with a window of 16 MiB, without a size.
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0, 14 << 3, 1, 0, 0];
    let fault = decode(&frame, "zstd").fault.unwrap();
    assert!(fault.to_string().contains("zstd: "), "{fault}");
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0, 13 << 3, 1, 0, 0];
    assert_eq!(decode(&frame, "zstd"), good("", &[]));
    // The mark of a large window, which RFC 7932 does not know.
    let fault = decode(&[0x11, 0x1e, 0x80, 0, 0, 0, 0, 0], "br")
        .fault
        .unwrap();
    assert!(matches!(fault, Fault::Decode(_)), "{fault}");
}

#[test]
fn the_limit_is_exact_for_every_coding() {
    let data: Vec<u8> = (0..1000u32).map(|n| (n * n % 251) as u8).collect();
    for (label, encode) in CODINGS {
        let body = encode(&data);
        let whole = decode_split(&body, "", label, 1000, 100);
        assert_eq!(whole, good(data.clone(), &[]), "{label}");
        let less = decode_split(&body, "", label, 999, 100);
        assert_eq!(less.fault, Some(Fault::DecodedTooLarge { limit: 999 }));
        assert_eq!(less.body, data[..999], "{label}");
    }
}

#[test]
fn a_coding_in_between_is_bounded_too() {
    let bomb = gzip(&gzip(&vec![0; 3_000_000]));
    let inner = zlib(&vec![0; 200_000]);
    let fault = decode_split(&gzip(&inner), "", "deflate, gzip", 100_000, 4096).fault;
    assert_eq!(fault, Some(Fault::DecodedTooLarge { limit: 100_000 }));
    let fault = decode_split(&bomb, "text/html", "gzip", 100_000, 4096).fault;
    assert_eq!(fault, Some(Fault::DecodedTooLarge { limit: 100_000 }));
}

#[test]
fn a_bomb_stops_at_its_ratio() {
    for (label, encode) in [("gzip", gzip as Encode), ("br", brotli), ("zstd", zstd)] {
        let bomb = encode(&vec![0; 4 * 1024 * 1024]);
        let decoded = decode_split(&bomb, "", label, 1 << 30, 512);
        let bomb = Fault::ExpandsTooMuch { limit: 1000 };
        assert_eq!(decoded.fault, Some(bomb), "{label}");
    }
}

#[test]
fn how_much_a_body_may_grow_can_be_set() {
    // A gzip of zeros grows about a thousandfold, a brotli of them much more.
    for (label, encode, expansion, fails) in [
        ("gzip", gzip as Encode, 10, true),
        ("gzip", gzip, 900, true),
        ("gzip", gzip, 2000, false),
        ("br", brotli, 2000, true),
        ("br", brotli, 1_000_000, false),
    ] {
        let data = vec![0; 2 * 1024 * 1024];
        let growth = Growth {
            bytes: 1 << 30,
            expansion,
        };
        let decoded = decode_within(&encode(&data), "", label, growth, usize::MAX);
        let bomb = fails.then_some(Fault::ExpandsTooMuch { limit: expansion });
        assert_eq!(decoded.fault, bomb, "{label} {expansion}");
        if !fails {
            assert_eq!(decoded.body.len(), data.len(), "{label} {expansion}");
        }
    }
    // Small bodies may grow as they like.
    let small = vec![0; 1024 * 1024];
    let growth = Growth {
        bytes: 1 << 30,
        expansion: 10,
    };
    let decoded = decode_within(&brotli(&small), "", "br", growth, usize::MAX);
    assert_eq!(decoded, good(small, &[]));
}

#[test]
fn what_waits_inside_a_decoder_is_bounded() {
    // Members that hold nothing: much input, no output, none of it kept.
    let nothing = gzip(b"").repeat(20_000);
    assert_eq!(decode_split(&nothing, "", "gzip", 10, 1000), good("", &[]));
    let stacked = gzip(&zstd(b"").repeat(20_000));
    assert_eq!(
        decode_split(&stacked, "", "zstd, gzip", 1_000_000, 1000),
        good("", &[])
    );
}

/// Data of many shapes: from noise to long repetitions.
fn data() -> impl Strategy<Value = Vec<u8>> {
    (prop::collection::vec(any::<u8>(), 0..300), 0usize..300)
        .prop_map(|(part, times)| part.repeat(times))
}

/// Fewer cases than usual: each of them encodes and decodes up to 90 KB. `PROPTEST_CASES` asks for more.
fn quick() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: usual.cases / 4,
        ..usual
    }
}

proptest! {
    #![proptest_config(quick())]

    #[test]
    fn what_was_encoded_by_any_stack_comes_back_however_it_is_split(
        data in data(),
        stack in prop::collection::vec(0..CODINGS.len(), 1..=4),
        size in 1usize..5000,
    ) {
        let mut body = data.clone();
        let mut label = Vec::new();
        for index in stack {
            body = CODINGS[index].1(&body);
            label.push(CODINGS[index].0);
        }
        let decoded = decode_split(&body, "", &label.join(", "), 1_000_000, size);
        prop_assert_eq!(decoded, good(data, &[]));
    }

    #[test]
    fn any_bytes_give_the_same_however_they_are_split(
        start in prop::sample::select(vec![
            vec![], vec![0x1f, 0x8b, 8, 0], vec![0x78, 0x9c], vec![0x28, 0xb5, 0x2f, 0xfd], vec![b'<'],
        ]),
        tail in prop::collection::vec(any::<u8>(), 0..400),
        label in prop::sample::select(vec!["gzip", "deflate", "br", "zstd", "gzip, br", "deflate, zstd", "x"]),
        media_type in prop::sample::select(vec!["text/html", "", "application/gzip"]),
        size in 1usize..50,
    ) {
        let body = [start, tail].concat();
        let whole = decode_split(&body, media_type, label, 100_000, usize::MAX);
        let split = decode_split(&body, media_type, label, 100_000, size);
        prop_assert_eq!(whole.fault.is_some(), split.fault.is_some());
        if whole.fault.is_none() {
            prop_assert_eq!(whole, split);
        }
    }

    #[test]
    fn a_changed_or_cut_body_is_never_passed_on_as_another(
        (label, encode) in prop::sample::select(vec![("gzip", gzip as Encode), ("deflate", zlib)]),
        data in data(),
        at in any::<prop::sample::Index>(),
        to in any::<u8>(),
        size in 1usize..2000,
    ) {
        let mut body = encode(&data);
        let at = at.index(body.len());
        prop_assume!(body[at] != to && at >= 10);
        body[at] = to;
        let decoded = decode_split(&body, "", label, 1_000_000, size);
        // A checksum of 32 bits stands between.
        prop_assert!(decoded.fault.is_some() || decoded.body == data);
    }
}
