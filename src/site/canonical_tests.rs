//! Tests of the canonical form: one for each page, stable, and nothing merged that may differ.

use proptest::prelude::*;

use super::*;

fn rules(query: QueryRule, drop: &[&str]) -> Canonical {
    Canonical::new(&UrlRules {
        query,
        drop_params: drop.iter().map(|text| text.parse().unwrap()).collect(),
    })
}

fn form(canonical: &Canonical, text: &str) -> String {
    canonical.of(&Url::parse(text).unwrap()).as_str().to_owned()
}

fn canon(text: &str) -> String {
    form(&Canonical::default(), text)
}

#[test]
fn equivalent_urls_have_one_form() {
    for (given, wanted) in [
        ("HTTP://Example.COM:80", "http://example.com/"),
        ("http://h?x", "http://h/?x"),
        (
            "https://example.com:443/a/../b/./c#x",
            "https://example.com/b/c",
        ),
        ("http://h/%2e%2E/a/%2e/b", "http://h/a/b"),
        ("http://h/../../a", "http://h/a"),
        ("http://h/%7euser/%2f%e4", "http://h/~user/%2F%E4"),
        ("http://h/a?q=%41%20b&x=%2c", "http://h/a?q=A%20b&x=%2C"),
        ("http://h/a#:~:text=x", "http://h/a"),
        ("http://h/a#!/b", "http://h/a"),
        ("http://h/?f[a]=1|2", "http://h/?f%5Ba%5D=1%7C2"),
        ("http://h/?f%5ba%5d=1%7c2", "http://h/?f%5Ba%5D=1%7C2"),
        ("http://h/[x]", "http://h/%5Bx%5D"),
        ("http://h/x é", "http://h/x%20%C3%A9"),
        ("http://h/x%20%c3%a9", "http://h/x%20%C3%A9"),
        ("http://h\\a\\b", "http://h/a/b"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        (
            "http://XN--BCHER-KVA.example/",
            "http://xn--bcher-kva.example/",
        ),
        ("http://[0:0::1]:80/", "http://[::1]/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
    ] {
        assert_eq!(canon(given), wanted, "{given}");
    }
}

#[test]
fn what_may_differ_stays_apart() {
    for given in [
        "http://h/?b=2&a=1",
        "http://h/a//b",
        "http://h/100%",
        "http://h/?",
        "http://h/?a",
        "http://h/?a=",
        "http://h/?a=1&a=1",
        "http://h/a%23b",
        "http://h/a%25",
        "http://h/a%2Fb",
        "http://h/a/b",
        "http://h/a%3Fb",
        "http://h/a'b",
        "http://h/a%27b",
        "http://h/a+b",
        "http://h/a%2Bb",
        "http://h/a%20b",
        "http://h/A",
        "http://h/a",
        "http://h/a/",
        "http://h/a;v=1",
        "http://h:8080/a",
        "https://h/a",
        "http://www.h/a",
        "http://h/%C3%A9",
        "http://h/%E9",
    ] {
        assert_eq!(canon(given), given, "{given}");
    }
    // Digits decoded behind a stray `%` would become another escape.
    assert_eq!(canon("http://h/%%34%31"), "http://h/%%341");
}

#[test]
fn a_query_is_sorted_when_asked() {
    let sort = rules(QueryRule::Sort, &[]);
    let unique = rules(QueryRule::SortUnique, &[]);
    for (given, sorted, once) in [
        (
            "http://h/?b=2&a=1",
            "http://h/?a=1&b=2",
            "http://h/?a=1&b=2",
        ),
        (
            "http://h/?b=2&a=2&b=1",
            "http://h/?a=2&b=2&b=1",
            "http://h/?a=2&b=2&b=1",
        ),
        (
            "http://h/?a=1&b&a=1",
            "http://h/?a=1&a=1&b",
            "http://h/?a=1&b",
        ),
        ("http://h/?&&a&", "http://h/?a", "http://h/?a"),
        ("http://h/?", "http://h/", "http://h/"),
        ("http://h/?a=&a", "http://h/?a=&a", "http://h/?a=&a"),
        ("http://h/?%62&a", "http://h/?a&b", "http://h/?a&b"),
    ] {
        assert_eq!(form(&sort, given), sorted, "{given}");
        assert_eq!(form(&unique, given), once, "{given}");
    }
}

#[test]
fn options_that_do_not_count_are_dropped() {
    let drop = rules(QueryRule::Exact, &["utm_*", "@session", "ref"]);
    for (given, wanted) in [
        (
            "http://h/?utm_source=x&b=1&UTM_medium=y&a=2",
            "http://h/?b=1&a=2",
        ),
        ("http://h/?utm%5Fsource=x", "http://h/"),
        ("http://h/?ref", "http://h/"),
        ("http://h/?reference=1", "http://h/?reference=1"),
        ("http://h/?", "http://h/?"),
        ("http://h/?a=utm_source", "http://h/?a=utm_source"),
        ("http://h/a;jsessionid=1F?x", "http://h/a?x"),
        ("http://h/a;v=1;JSESSIONID=1F/b;ref", "http://h/a;v=1/b"),
        ("http://h/;jsessionid=1", "http://h/"),
    ] {
        assert_eq!(form(&drop, given), wanted, "{given}");
    }
}

/// All that a server can make of a path or a query by the RFC: bytes, those that are delimiters told from data.
fn meaning(text: &str) -> Vec<(u8, bool)> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let pair = bytes[at..].get(1..3).and_then(|pair| {
            (bytes[at] == b'%').then_some(())?;
            Some(hex_value(pair[0])? * 16 + hex_value(pair[1])?)
        });
        match pair {
            Some(byte) => {
                out.push((byte, true));
                at += 3;
            }
            None => {
                out.push((
                    bytes[at],
                    is_unreserved(bytes[at]) || is_excluded(bytes[at]),
                ));
                at += 1;
            }
        }
    }
    out
}

fn any_rules() -> impl Strategy<Value = Canonical> {
    let query = prop_oneof![
        Just(QueryRule::Exact),
        Just(QueryRule::Sort),
        Just(QueryRule::SortUnique)
    ];
    let drop = prop::collection::vec(
        prop_oneof![Just("a"), Just("b*"), Just("@session"), Just("@tracking")],
        0..3,
    );
    (query, drop).prop_map(|(query, drop)| rules(query, &drop))
}

/// Text of which links are made, with much of what matters in it.
const TAIL: &str = "(/|a|b|B|%|%2[eEfF3]|%7[eEcC]|%4[1a]|%[a-fA-F0-9]{2}|\\.|\\.\\.|;|&|=|\\?|\\[|\\]|\\||\\\\|\\^|'|\"|é| |\\+|#|utm_a=1|;jsessionid=1){0,16}";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_form_is_stable(tail in TAIL, canonical in any_rules()) {
        if let Ok(url) = Url::parse(&format!("http://h.example/{tail}")) {
            let once = canonical.of(&url).into_owned();
            prop_assert_eq!(&*canonical.of(&once), &once, "again");
            // Read back, as from a store.
            prop_assert_eq!(&Url::parse(once.as_str()).unwrap(), &once);
            prop_assert_eq!(once.origin(), url.origin());
            prop_assert!(once.fragment().is_none());
        }
    }

    #[test]
    fn equal_keys_mean_the_same(one in TAIL, other in TAIL) {
        let parse = |tail: &str| Url::parse(&format!("http://h/{tail}"));
        if let (Ok(one), Ok(other)) = (parse(&one), parse(&other))
            && canonical(&one) == canonical(&other)
        {
            prop_assert_eq!(meaning(one.path()), meaning(other.path()));
            prop_assert_eq!(one.query().map(meaning), other.query().map(meaning));
        }
    }

    #[test]
    fn the_form_keeps_the_meaning(tail in TAIL) {
        if let Ok(url) = Url::parse(&format!("http://h/{tail}")) {
            let form = canonical(&url);
            prop_assert_eq!(meaning(form.path()), meaning(url.path()));
            prop_assert_eq!(form.query().map(meaning), url.query().map(meaning));
        }
    }

    #[test]
    fn the_rules_keep_what_they_do_not_name(tail in TAIL, canonical in any_rules()) {
        if let Ok(url) = Url::parse(&format!("http://h/?{tail}")) {
            let plain = Canonical::default().of(&url).into_owned();
            let form = canonical.of(&url).into_owned();
            let options = |url: &Url| -> std::collections::BTreeSet<String> {
                let all = url.query().unwrap_or_default().split('&').map(str::to_owned);
                all.filter(|option| !option.is_empty() && !canonical.drops(option)).collect()
            };
            prop_assert_eq!(options(&form), options(&plain));
        }
    }

    #[test]
    fn escaping_unreserved_changes_nothing(text in "[a-zA-Z0-9_~-]{1,12}", lower in any::<bool>()) {
        let escaped: String = text
            .bytes()
            .map(|b| if lower { format!("%{b:02x}") } else { format!("%{b:02X}") })
            .collect();
        prop_assert_eq!(canon(&format!("http://h/{escaped}?q={escaped}")), canon(&format!("http://h/{text}?q={text}")));
    }

    #[test]
    fn fragments_never_matter(fragment in "[ -~]{0,20}") {
        prop_assert_eq!(canon(&format!("http://h/a?b#{fragment}")), "http://h/a?b");
    }
}
