use super::*;

const NOW: UnixMillis = UnixMillis(1_700_000_000_000);

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

fn jar(lines: &[(&str, &str)]) -> Jar {
    let mut jar = Jar::default();
    for (from, line) in lines {
        let _ = jar.set(line.as_bytes(), &url(from), NOW);
    }
    jar
}

fn sent_at(jar: &mut Jar, to: &str, now: UnixMillis) -> String {
    let header = jar.header(&url(to), now, |_| false).unwrap_or_default();
    String::from_utf8(header).unwrap()
}

fn sent(jar: &mut Jar, to: &str) -> String {
    sent_at(jar, to, NOW)
}

#[test]
fn longer_paths_go_first_then_those_set_earlier() {
    let mut jar = jar(&[
        ("http://h.example/x/y/z", "root=1; Path=/"),
        ("http://h.example/x/y/z", "deep=2"),
        ("http://h.example/x/y/z", "mid=3; Path=/x"),
        ("http://h.example/x/y/z", "root2=4; Path=/"),
        ("http://h.example/x/y/z", "root=5; Path=/"),
        ("http://h.example/x/y/z", "same=6; Path=/x"),
        ("http://h.example/x/y/z", "same=7; Path=/"),
    ]);
    let all = "deep=2; mid=3; same=6; root=5; root2=4; same=7";
    assert_eq!(sent(&mut jar, "http://h.example/x/y/z?q"), all);
    assert_eq!(
        sent(&mut jar, "http://h.example/xy"),
        "root=5; root2=4; same=7"
    );
}

#[test]
fn cookies_go_where_their_domain_is_and_nowhere_else() {
    let mut jar = jar(&[
        ("http://www.example.com/", "host=1"),
        ("http://www.example.com/", "wide=2; Domain=example.com"),
        ("http://www.example.com/", "evil=3; Domain=other.example"),
        ("http://www.example.com/", "public=4; Domain=com"),
    ]);
    assert_eq!(sent(&mut jar, "http://www.example.com/"), "host=1; wide=2");
    assert_eq!(sent(&mut jar, "http://api.example.com/"), "wide=2");
    assert_eq!(sent(&mut jar, "http://a.www.example.com/"), "wide=2");
    assert_eq!(sent(&mut jar, "http://example.com/"), "wide=2");
    for other in [
        "http://other.example/",
        "http://notexample.com/",
        "http://com/",
    ] {
        assert_eq!(sent(&mut jar, other), "", "{other}");
    }
}

#[test]
fn a_host_only_and_a_domain_cookie_of_one_name_are_two() {
    let mut jar = jar(&[
        ("http://example.com/", "a=host"),
        ("http://example.com/", "a=wide; Domain=example.com"),
    ]);
    assert_eq!(sent(&mut jar, "http://example.com/"), "a=host; a=wide");
    assert_eq!(sent(&mut jar, "http://x.example.com/"), "a=wide");
}

#[test]
fn ports_do_not_part_cookies_and_secure_ones_stay_on_https() {
    let mut jar = jar(&[
        ("https://h.example:8443/", "s=1; Secure"),
        ("http://h.example:8080/", "p=2"),
    ]);
    assert_eq!(sent(&mut jar, "https://h.example/"), "s=1; p=2");
    assert_eq!(sent(&mut jar, "http://h.example:1/"), "p=2");
}

#[test]
fn http_does_not_overlay_a_secure_cookie() {
    let mut jar = jar(&[(
        "https://h.example/",
        "s=1; Secure; Domain=h.example; Path=/a",
    )]);
    let plain = url("http://www.h.example/a/b");
    assert_eq!(
        jar.set(b"s=2; Path=/a/b", &plain, NOW),
        Err(Refused::NotSecure)
    );
    assert_eq!(
        jar.set(b"s=2; Path=/a/b; Max-Age=0", &plain, NOW),
        Err(Refused::NotSecure)
    );
    assert_eq!(jar.set(b"s=2; Path=/", &plain, NOW), Ok(()), "another path");
    assert_eq!(
        jar.set(b"t=2; Path=/a", &plain, NOW),
        Ok(()),
        "another name"
    );
}

#[test]
fn a_past_end_removes_and_time_does_too() {
    let mut jar = jar(&[
        ("http://h.example/", "a=1"),
        ("http://h.example/", "b=2; Max-Age=10"),
        ("http://h.example/", "c=3"),
        (
            "http://h.example/",
            "c=; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
        ),
        ("http://h.example/", "never=; Max-Age=0"),
    ]);
    assert_eq!(jar.len(), 2);
    assert_eq!(sent(&mut jar, "http://h.example/"), "a=1; b=2");
    let later = UnixMillis(NOW.0 + 10_000);
    assert_eq!(sent_at(&mut jar, "http://h.example/", later), "a=1");
}

#[test]
fn one_malformed_line_among_three_costs_that_line_only() {
    let mut jar = jar(&[
        ("http://h.example/", "a=1"),
        ("http://h.example/", "bad\u{1}=2"),
        ("http://h.example/", "c=3; Expires=nonsense; Foo; =;; Path"),
    ]);
    assert_eq!(sent(&mut jar, "http://h.example/"), "a=1; c=3");
}

#[test]
fn nameless_values_and_odd_values_go_back_as_they_came() {
    let mut jar = jar(&[
        ("http://h.example/", "just a value"),
        ("http://h.example/", "q=\"a b\""),
        ("http://h.example/", "k=a=b=="),
        ("http://h.example/", "empty="),
    ]);
    let all = "just a value; q=\"a b\"; k=a=b==; empty=";
    assert_eq!(sent(&mut jar, "http://h.example/"), all);
}

#[test]
fn changes_are_told_once_and_what_says_the_same_is_none() {
    let home = url("http://h.example/");
    let mut jar = jar(&[("http://h.example/", "a=1"), ("http://h.example/", "b=2")]);
    let changes = jar.take_changes();
    assert_eq!((changes.set.len(), changes.removed.len()), (2, 0));
    let version = jar.version();
    jar.set(b"a=1", &home, UnixMillis(NOW.0 + 5)).unwrap();
    assert!(jar.take_changes().is_empty() && jar.version() == version);
    jar.set(b"a=2", &home, NOW).unwrap();
    jar.set(b"b=; Max-Age=0", &home, NOW).unwrap();
    assert!(jar.version() > version);
    let changes = jar.take_changes();
    assert_eq!((changes.set.len(), changes.removed.len()), (1, 1));
    jar.give_back(changes.clone());
    assert_eq!(jar.take_changes(), changes);
}

#[test]
fn a_jar_comes_back_as_it_was_without_what_has_ended() {
    let mut before = jar(&[
        ("http://h.example/", "b=1"),
        ("http://h.example/", "a=2"),
        ("http://h.example/", "short=3; Max-Age=1"),
    ]);
    let written = before.take_changes().set;
    let mut after = Jar::restored(written, UnixMillis(NOW.0 + 2000));
    assert_eq!(sent(&mut after, "http://h.example/"), "b=1; a=2");
    let changes = after.take_changes();
    assert_eq!((changes.set.len(), changes.removed.len()), (0, 1));
}

#[test]
fn a_domain_is_bounded_and_what_is_used_stays() {
    let mut jar = jar(&[("https://h.example/login", "login=1; Path=/login; Secure")]);
    for n in 0..MOST_OF_A_DOMAIN as i64 + 50 {
        let now = UnixMillis(NOW.0 + n);
        let host = url(&format!("https://w{n}.h.example/"));
        jar.set(format!("n{n}={n}").as_bytes(), &host, now).unwrap();
    }
    assert_eq!(jar.len(), MOST_OF_A_DOMAIN);
    assert_eq!(sent(&mut jar, "https://h.example/login"), "login=1");
    assert_eq!(
        sent(&mut jar, "https://w1.h.example/"),
        "",
        "the oldest went"
    );
}

#[test]
fn a_jar_is_bounded_and_what_is_to_be_written_too() {
    let mut jar = Jar::default();
    for n in 0..4 * MOST_OF_A_JAR as i64 {
        let host = url(&format!("http://h{n}.example/"));
        jar.set(b"a=1", &host, UnixMillis(NOW.0 + n)).unwrap();
        assert!(jar.len() <= MOST_OF_A_JAR);
        assert!(jar.unsaved.len() <= 2 * MOST_OF_A_JAR);
    }
    let changes = jar.take_changes();
    assert!(changes.whole && changes.set.len() == jar.len());
    assert!(jar.take_changes().is_empty());
}
