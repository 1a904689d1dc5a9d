use std::time::Duration;

use proptest::prelude::*;
use url::Url;

use super::*;

const AGENT: &str = "bot/1.0";
const TAG: (&str, &str) = ("etag", "\"v1\"");
const DATE: (&str, &str) = ("last-modified", "Tue, 15 Nov 1994 08:12:31 GMT");

fn request(fields: &[(&str, &str)]) -> Request {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Request {
        headers: fields.iter().map(owned).collect(),
        ..Request::get(Url::parse("http://h.example/a?b=1").unwrap())
    }
}

fn answer(status: u16, fields: &[(&str, &str)]) -> Answer {
    let field = |(name, value): &(&str, &str)| {
        ((*name).to_owned(), Bytes::copy_from_slice(value.as_bytes()))
    };
    Answer {
        url: Url::parse("http://h.example/a?b=1").unwrap(),
        status,
        headers: Headers(fields.iter().map(field).collect()),
        body: Bytes::from_static(b"page"),
        notes: Vec::new(),
        head_time: Duration::ZERO,
        total_time: Duration::ZERO,
    }
}

fn kept(fields: &[(&str, &str)]) -> Option<CachedAnswer> {
    CachedAnswer::of(&request(&[]), &answer(200, fields), AGENT)
}

fn asks(stored: &CachedAnswer, request: &Request) -> Option<Vec<String>> {
    let question = stored.question(request, AGENT)?;
    let new = question.headers.iter().skip(request.headers.len());
    Some(
        new.map(|(name, value)| format!("{name}: {value}"))
            .collect(),
    )
}

#[test]
fn what_may_be_kept() {
    assert!(kept(&[TAG]).is_some() && kept(&[DATE]).is_some());
    for fields in [
        &[][..],
        &[("last-modified", "yesterday")],
        &[("etag", "")],
        &[("etag", "\"a\u{1}\"")],
        &[TAG, ("cache-control", "private, NO-STORE")],
        &[TAG, ("vary", "accept, *")],
        &[TAG, ("content-range", "bytes 0-3/9")],
        &[DATE, ("vary", "Cookie")],
    ] {
        assert_eq!(kept(fields), None, "{fields:?}");
    }
    for status in [201, 203, 206, 301, 304, 404, 500] {
        assert_eq!(
            CachedAnswer::of(&request(&[]), &answer(status, &[TAG]), AGENT),
            None
        );
    }
    for fields in [
        ("Range", "bytes=0-3"),
        ("if-none-match", "\"x\""),
        ("If-Modified-Since", "x"),
        ("Cache-Control", "No-Store"),
    ] {
        let own = request(&[fields]);
        assert_eq!(
            CachedAnswer::of(&own, &answer(200, &[TAG]), AGENT),
            None,
            "{fields:?}"
        );
        assert_eq!(
            kept(&[TAG]).unwrap().question(&own, AGENT),
            None,
            "{fields:?}"
        );
    }
    let post = Request {
        method: Method::Post,
        ..request(&[])
    };
    assert_eq!(CachedAnswer::of(&post, &answer(200, &[TAG]), AGENT), None);
}

#[test]
fn an_entry_is_asked_about_with_all_its_validators() {
    let plain = request(&[("X-Own", "1")]);
    for (fields, asked) in [
        (
            &[TAG, DATE][..],
            &[
                "If-None-Match: \"v1\"",
                "If-Modified-Since: Tue, 15 Nov 1994 08:12:31 GMT",
            ][..],
        ),
        (&[("etag", "W/\"v1\"")], &["If-None-Match: W/\"v1\""]),
        (&[("etag", "unquoted")], &["If-None-Match: unquoted"]),
        (
            &[DATE],
            &["If-Modified-Since: Tue, 15 Nov 1994 08:12:31 GMT"],
        ),
        (&[TAG, DATE, ("vary", "cookie")], &["If-None-Match: \"v1\""]),
    ] {
        assert_eq!(
            asks(&kept(fields).unwrap(), &plain).unwrap(),
            asked,
            "{fields:?}"
        );
    }
}

#[test]
fn an_entry_of_another_variant_is_not_used() {
    let stored = |own: &Request, vary: &str| {
        CachedAnswer::of(own, &answer(200, &[TAG, ("vary", vary)]), AGENT).unwrap()
    };
    let german = request(&[("Accept-Language", "de")]);
    let french = request(&[("Accept-Language", "fr")]);
    let of_german = stored(&german, "accept-encoding, Accept-Language");
    assert!(of_german.question(&german, AGENT).is_some());
    assert_eq!(of_german.question(&french, AGENT), None);
    assert_eq!(of_german.question(&request(&[]), AGENT), None);
    let of_agent = stored(&french, "User-Agent");
    assert!(of_agent.question(&german, AGENT).is_some());
    assert_eq!(of_agent.question(&german, "bot/2.0"), None);
    let secret = stored(&request(&[("Authorization", "hunter2")]), "authorization");
    assert!(!secret.description().contains("hunter2"));
}

#[test]
fn a_304_confirms_its_own_version_and_brings_the_headers_up_to_date() {
    let stored = kept(&[
        TAG,
        ("content-type", "text/html"),
        ("content-length", "4"),
        ("x-kept", "1"),
        ("x-new", "1"),
        ("x-new", "2"),
        ("set-cookie", "secret=1"),
    ])
    .unwrap();
    let not_modified = answer(
        304,
        &[
            ("etag", "W/\"v1\""),
            ("content-length", "0"),
            ("content-type", "text/plain"),
            ("x-new", "3"),
            ("x-hop", "1"),
            ("connection", "x-hop"),
        ],
    );
    let fresh = stored.confirmed(&not_modified).unwrap();
    let shown = fresh.answer(&not_modified);
    let fields: Vec<_> = shown
        .headers
        .0
        .iter()
        .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value)))
        .collect();
    assert_eq!(
        fields,
        [
            "content-type: text/html",
            "content-length: 4",
            "x-kept: 1",
            "etag: W/\"v1\"",
            "x-new: 3",
        ]
    );
    assert_eq!((shown.status, &shown.body[..]), (200, &b"page"[..]));
    for (fields, same) in [
        (&[][..], true),
        (&[("etag", "\"v2\"")], false),
        (&[DATE], true),
    ] {
        assert_eq!(
            stored.confirmed(&answer(304, fields)).is_some(),
            same,
            "{fields:?}"
        );
    }
    assert_eq!(stored.confirmed(&answer(200, &[TAG])), None);
    let dated = kept(&[DATE]).unwrap();
    for (fields, same) in [
        (&[][..], true),
        (&[DATE], true),
        (&[("last-modified", "Tue, 15 Nov 1994 08:12:32 GMT")], false),
        (&[TAG], false),
    ] {
        assert_eq!(
            dated.confirmed(&answer(304, fields)).is_some(),
            same,
            "{fields:?}"
        );
    }
}

#[test]
fn keys_tell_sites_accounts_and_urls_apart() {
    let plain = request(&[]);
    let other = Request::get(Url::parse("http://h.example/a?b=2").unwrap());
    let keys = [
        cache_key("s", "a", &plain),
        cache_key("sa", "", &plain),
        cache_key("s", "b", &plain),
        cache_key("s", "a", &other),
    ];
    let distinct: std::collections::HashSet<_> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len());
    assert_eq!(keys[0], cache_key("s", "a", &request(&[("X", "1")])));
}

#[test]
fn a_damaged_entry_is_none() {
    let stored = kept(&[TAG]).unwrap();
    let description = stored.description();
    assert!(CachedAnswer::stored(&description, Bytes::from_static(b"page")).is_some());
    assert_eq!(
        CachedAnswer::stored(&description, Bytes::from_static(b"pagf")),
        None
    );
    assert_eq!(
        CachedAnswer::stored(&description[1..], Bytes::from_static(b"page")),
        None
    );
    assert_eq!(CachedAnswer::stored("", Bytes::new()), None);
}

fn fields() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    let name = prop::sample::select(vec![
        "etag",
        "last-modified",
        "vary",
        "cache-control",
        "connection",
        "content-type",
        "x",
        "date",
    ]);
    let value = prop_oneof![
        Just(b"\"v1\"".to_vec()),
        Just(b"W/\"v1\"".to_vec()),
        Just(b"no-store".to_vec()),
        Just(b"*".to_vec()),
        Just(b"x, cookie".to_vec()),
        Just(b"Tue, 15 Nov 1994 08:12:31 GMT".to_vec()),
        prop::collection::vec(any::<u8>(), 0..12),
    ];
    prop::collection::vec((name.prop_map(str::to_owned), value), 0..7)
}

fn raw(status: u16, fields: Vec<(String, Vec<u8>)>, body: Vec<u8>) -> Answer {
    let headers = fields
        .into_iter()
        .map(|(name, value)| (name, Bytes::from(value)));
    Answer {
        headers: Headers(headers.collect()),
        body: Bytes::from(body),
        ..answer(status, &[])
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn what_is_kept_comes_back_and_is_always_asked_about(
        first in fields(),
        second in fields(),
        body in prop::collection::vec(any::<u8>(), 0..40),
        hurt in any::<prop::sample::Index>(),
    ) {
        let plain = request(&[("Cookie", "a=b")]);
        let came = raw(200, first, body);
        let Some(stored) = CachedAnswer::of(&plain, &came, AGENT) else { return Ok(()) };
        prop_assert!(!came.headers.all("cache-control").any(|text| text.contains("no-store")));
        let description = stored.description();
        prop_assert_eq!(CachedAnswer::stored(&description, stored.body().clone()), Some(stored.clone()));
        let question = stored.question(&plain, AGENT).expect("it has a validator");
        prop_assert!(question.headers.len() > plain.headers.len());
        prop_assert!(question.headers.starts_with(&plain.headers));
        // A byte of the description that is gone never gives another page.
        let mut cut = description.clone().into_bytes();
        cut.remove(hurt.index(cut.len()));
        let read = String::from_utf8(cut).ok().and_then(|cut| CachedAnswer::stored(&cut, stored.body().clone()));
        prop_assert!(read.is_none_or(|read| read.body == stored.body));
        let by = raw(304, second, Vec::new());
        if let Some(confirmed) = stored.confirmed(&by) {
            prop_assert_eq!(&confirmed.body, &stored.body);
            let of_body = |answer: &CachedAnswer| answer.headers.all("content-type").map(str::to_owned).collect::<Vec<_>>();
            prop_assert_eq!(of_body(&confirmed), of_body(&stored));
        }
    }
}
