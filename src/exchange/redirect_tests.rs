//! Tests of redirects: targets, what goes along, where a chain ends.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::model::Headers;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

#[test]
fn targets_by_the_url_standard() {
    let base = url("http://a.example/dir/rel?x=1#frag");
    for (location, target) in [
        ("sib", "http://a.example/dir/sib#frag"),
        ("?page=2", "http://a.example/dir/rel?page=2#frag"),
        ("../x", "http://a.example/x#frag"),
        ("/abs", "http://a.example/abs#frag"),
        ("//b.example/p", "http://b.example/p#frag"),
        ("https://b.example", "https://b.example/#frag"),
        ("/new#own", "http://a.example/new#own"),
        ("", "http://a.example/dir/rel?x=1#frag"),
        (" /spaced path ", "http://a.example/spaced%20path#frag"),
        ("/中文", "http://a.example/%E4%B8%AD%E6%96%87#frag"),
        (
            "http://bücher.example/",
            "http://xn--bcher-kva.example/#frag",
        ),
        ("http:\\\\b.example\\p", "http://b.example/p#frag"),
        ("HTTP://B.EXAMPLE:80/", "http://b.example/#frag"),
    ] {
        assert_eq!(
            resolve(&base, location).unwrap().as_str(),
            target,
            "{location:?}"
        );
    }
}

#[test]
fn targets_that_are_refused() {
    let base = url("http://a.example/");
    for (location, error) in [
        ("http://", RedirectError::NotAUrl),
        ("http://[::1", RedirectError::NotAUrl),
        ("http://a.example:99999/", RedirectError::NotAUrl),
        ("http://256.1.1.1/", RedirectError::NotAUrl),
        ("javascript:alert(1)", RedirectError::Scheme),
        ("JavaScript:alert(1)", RedirectError::Scheme),
        ("file:///etc/passwd", RedirectError::Scheme),
        ("data:text/html,x", RedirectError::Scheme),
        ("mailto:a@b", RedirectError::Scheme),
        ("ftp://a.example/", RedirectError::Scheme),
    ] {
        assert_eq!(resolve(&base, location), Err(error), "{location:?}");
    }
}

#[test]
fn l47_a_user_in_a_target_is_dropped() {
    let base = url("http://a.example/");
    for location in [
        "http://user@b.example/x",
        "http://:secret@b.example/x",
        "//u:p@b.example./x",
    ] {
        let target = resolve(&base, location).unwrap();
        assert_eq!(target.as_str(), "http://b.example/x", "{location:?}");
    }
}

fn answer(status: u16, fields: &[(&str, &[u8])]) -> Answer {
    let field = |(name, value): &(&str, &[u8])| ((*name).to_owned(), Bytes::copy_from_slice(value));
    Answer {
        url: url("http://a.example/dir/a?q"),
        status,
        headers: Headers(fields.iter().map(field).collect()),
        body: Bytes::new(),
        notes: Vec::new(),
        head_time: Duration::ZERO,
        total_time: Duration::ZERO,
    }
}

fn leads(status: u16, locations: &[&[u8]]) -> Option<Result<String, RedirectError>> {
    let fields: Vec<_> = locations.iter().map(|value| ("location", *value)).collect();
    target(&answer(status, &fields)).map(|target| target.map(Into::into))
}

#[test]
fn five_statuses_redirect_and_others_do_not() {
    for status in [301, 302, 303, 307, 308] {
        assert!(leads(status, &[b"/x"]).is_some(), "{status}");
        assert!(leads(status, &[]).is_none(), "{status} without a Location");
    }
    for status in [200, 201, 300, 304, 305, 306, 309, 399, 404, 503] {
        assert!(leads(status, &[b"/x"]).is_none(), "{status}");
    }
}

#[test]
fn l53_a_location_may_be_empty_odd_or_there_twice() {
    let to = |text: &str| Some(Ok(text.to_owned()));
    for (fields, wanted) in [
        (&[&b""[..]][..], None),
        (&[b" \t"], None),
        (&[b"", b"/x"], to("http://a.example/x")),
        (&[b"/x", b"/x"], to("http://a.example/x")),
        (&[b"/x", b"/y"], Some(Err(RedirectError::Several))),
        (&[b"/x y"], to("http://a.example/x%20y")),
        (&[b"?page=2"], to("http://a.example/dir/a?page=2")),
        (&[b"#top"], to("http://a.example/dir/a?q#top")),
        // UTF-8 and Latin-1 come back as the server wrote them.
        (&["/é".as_bytes()], to("http://a.example/%C3%A9")),
        (&[b"/\xe9?\xe9#\xe9"], to("http://a.example/%E9?%E9#%E9")),
        (
            &["http://b\u{fc}cher.example/".as_bytes()],
            to("http://xn--bcher-kva.example/"),
        ),
        (
            &[b"http://b\xfccher.example/"],
            Some(Err(RedirectError::NotAUrl)),
        ),
        (&[b"/a\x00b"], to("http://a.example/a%00b")),
    ] {
        assert_eq!(leads(302, fields), wanted, "{fields:?}");
    }
}

fn post() -> Request {
    let header = |name: &str| (name.to_owned(), "v".to_owned());
    Request {
        method: Method::Post,
        url: url("https://a.example/form"),
        headers: [
            "Accept",
            "Content-Type",
            "Cookie",
            "Authorization",
            "X-Api-Key",
        ]
        .map(header)
        .to_vec(),
        body: Bytes::from("a=1"),
    }
}

fn names(request: &Request) -> Vec<&str> {
    request
        .headers
        .iter()
        .map(|(name, _)| name.as_str())
        .collect()
}

#[test]
fn method_and_body_survive_as_the_status_says() {
    for (status, method) in [
        (301, Method::Get),
        (302, Method::Get),
        (303, Method::Get),
        (307, Method::Post),
        (308, Method::Post),
    ] {
        let next = follow(&post(), status, url("https://a.example/next")).unwrap();
        assert_eq!(next.method, method, "{status}");
        assert_eq!(next.body.is_empty(), method == Method::Get, "{status}");
        assert_eq!(
            names(&next).contains(&"Content-Type"),
            method == Method::Post
        );
        assert!(names(&next).contains(&"Cookie"), "{status}");
    }
    let get = Request::get(url("https://a.example/"));
    assert_eq!(
        follow(&get, 301, url("https://a.example/x"))
            .unwrap()
            .method,
        Method::Get
    );
}

#[test]
fn credentials_stay_with_their_origin() {
    let mut request = post();
    request.body = Bytes::new();
    request
        .headers
        .push(("Referer".to_owned(), "https://a.example/secret".to_owned()));
    for other in [
        "https://b.example/",
        "http://a.example/",
        "https://a.example:444/",
    ] {
        let next = follow(&request, 307, url(other)).unwrap();
        assert_eq!(names(&next), ["Accept", "Content-Type"], "{other}");
    }
    let near = follow(&request, 307, url("https://a.example/other")).unwrap();
    assert_eq!(
        near.headers, request.headers,
        "a Referer is left as it was set"
    );
}

#[test]
fn a_body_is_never_sent_again_unencrypted() {
    let down = url("http://a.example/form");
    assert_eq!(
        follow(&post(), 307, down.clone()),
        Err(RedirectError::Downgrade)
    );
    assert_eq!(
        follow(&post(), 308, down.clone()),
        Err(RedirectError::Downgrade)
    );
    assert!(
        follow(&post(), 303, down.clone()).is_ok(),
        "the body is gone"
    );
    let mut plain = post();
    plain.url = url("http://a.example/");
    assert!(follow(&plain, 307, down).is_ok());
    assert!(follow(&plain, 307, url("https://a.example/")).is_ok());
}

/// Goes the way of `hops`, each a path, and whether the answer that leads there sets a cookie.
fn chain(most: u32, hops: &[(&str, bool)]) -> Result<(), ChainError> {
    let mut chain = Chain::new(most);
    let mut request = Request::get(url("http://a.example/a"));
    for (path, cookie) in hops {
        let fields: &[(&str, &[u8])] = if *cookie {
            &[("set-cookie", b"a=b")]
        } else {
            &[]
        };
        let next = Request::get(url("http://a.example").join(path).unwrap());
        chain.go_on(&request, &answer(302, fields), &next)?;
        request = next;
    }
    Ok(())
}

#[test]
fn l53_a_circle_is_one_only_if_nothing_changed() {
    assert_eq!(chain(9, &[("/b", false), ("/c", false)]), Ok(()));
    assert_eq!(chain(9, &[("/a", false)]), Err(ChainError::Circle));
    assert_eq!(chain(9, &[("/a#x", false)]), Err(ChainError::Circle));
    assert_eq!(
        chain(9, &[("/b", false), ("/a", false)]),
        Err(ChainError::Circle)
    );
    assert_eq!(
        chain(9, &[("/a", true)]),
        Ok(()),
        "asked again with the cookie"
    );
    assert_eq!(chain(9, &[("/b", true), ("/a", false)]), Ok(()));
    assert_eq!(
        chain(9, &[("/b", true), ("/a", false), ("/b", false)]),
        Err(ChainError::Circle),
        "the cookie did not help"
    );
}

#[test]
fn l53_a_chain_ends_at_its_limit() {
    let hops: Vec<String> = (0..21).map(|n| format!("/{n}")).collect();
    let hops: Vec<(&str, bool)> = hops.iter().map(|path| (&**path, false)).collect();
    assert_eq!(chain(20, &hops), Err(ChainError::TooLong(20)));
    assert_eq!(chain(21, &hops), Ok(()));
    assert_eq!(chain(0, &hops[..1]), Err(ChainError::TooLong(0)));
    assert_eq!(chain(4, &[("/a", true); 5]), Err(ChainError::TooLong(4)));
}

#[test]
fn a_form_that_leads_to_its_own_page_is_no_circle() {
    let form = post();
    let page = follow(&form, 303, form.url.clone()).unwrap();
    let mut chain = Chain::new(9);
    assert_eq!(chain.go_on(&form, &answer(303, &[]), &page), Ok(()));
    assert_eq!(
        chain.go_on(&page, &answer(302, &[]), &page),
        Err(ChainError::Circle)
    );
}

/// Bytes such as a Location may be made of.
fn location() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 1..6),
        prop::sample::select(vec![
            "http:",
            "https://",
            "//",
            "\\\\",
            "/",
            "..",
            "?",
            "#",
            "@",
            ":",
            "[::1]",
            "%",
            "%e9",
            "javascript:",
            "é",
            "xn--",
            "a.example",
            ".",
            "1.2.3.4",
            " ",
            "\t",
            ":80",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
    ];
    prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    #[test]
    fn any_bytes_as_a_location_give_a_url_that_may_be_asked_or_an_error(
        fields in prop::collection::vec(location(), 0..3), status in 300_u16..310
    ) {
        let fields: Vec<(&str, &[u8])> = fields.iter().map(|value| ("location", &**value)).collect();
        if let Some(Ok(target)) = target(&answer(status, &fields)) {
            prop_assert!(target.has_host());
            prop_assert!(target.as_str().is_ascii());
            prop_assert!(matches!(target.scheme(), "http" | "https"));
            prop_assert!(target.username().is_empty() && target.password().is_none());
            let next = follow(&post(), status, target.clone());
            prop_assert_eq!(next.is_err(), target.scheme() == "http" && matches!(status, 300 | 304..=309));
        }
    }

    #[test]
    fn a_chain_never_goes_on_beyond_its_limit(hops in prop::collection::vec((0_u8..4, any::<bool>()), 0..40), most in 0_u32..12) {
        let paths = ["/a", "/b", "/c", "/d"];
        let hops: Vec<_> = hops.iter().map(|(n, cookie)| (paths[usize::from(*n)], *cookie)).collect();
        if chain(most, &hops).is_ok() {
            prop_assert!(hops.len() <= most as usize);
        }
    }
}
