use proptest::prelude::*;

use std::time::Duration;

use url::Url;

use super::*;

fn robots(text: &str, agent: &str) -> Robots {
    Robots::from_answer(200, text.as_bytes(), agent)
}

fn allows(robots: &Robots, path: &str) -> bool {
    robots.allows(&Url::parse("https://h.example").unwrap().join(path).unwrap())
}

fn rule_matches(rule: &str, path: &str) -> bool {
    !allows(
        &robots(&format!("User-agent: *\nDisallow: {rule}"), "bot"),
        path,
    )
}

#[test]
fn the_simple_example_of_the_rfc() {
    let text = "User-Agent: *\nDisallow: *.gif$\nDisallow: /example/\nAllow: /publications/\n\n\
        User-Agent: foobot\nDisallow:/\nAllow:/example/page.html\nAllow:/example/allowed.gif\n\n\
        User-Agent: barbot\nUser-Agent: bazbot\nDisallow: /example/page.html\n\n\
        User-Agent: quxbot\n\nEOF";
    for (agent, path, allowed) in [
        ("anybot", "/a.gif", false),
        ("anybot", "/a.gif?x", true),
        ("anybot", "/example/x", false),
        ("anybot", "/publications/", true),
        ("FooBot/2.1 (+http://x)", "/", false),
        ("foobot", "/example/page.html", true),
        ("foobot", "/example/allowed.gif", true),
        ("barbot", "/example/page.html", false),
        ("bazbot", "/example/page.html", false),
        ("bazbot", "/a.gif", true),
        ("quxbot", "/example/", true),
    ] {
        assert_eq!(
            allows(&robots(text, agent), path),
            allowed,
            "{agent} {path}"
        );
    }
}

#[test]
fn the_longest_match_of_the_rfc() {
    let text =
        "User-Agent: foobot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n";
    let robots = robots(text, "foobot");
    assert!(allows(&robots, "/example/page/"));
    assert!(!allows(&robots, "/example/page/disallowed.gif"));
    let tie = "User-Agent: *\nDisallow: /x\nAllow: /x";
    assert!(allows(&Robots::from_answer(200, tie.as_bytes(), "b"), "/x"));
}

#[test]
fn paths_are_compared_in_normal_form() {
    for (rule, path, matches) in [
        ("/foo/bar?baz=quz", "/foo/bar?baz=quz", true),
        ("/foo/bar/ツ", "/foo/bar/%E3%83%84", true),
        ("/foo/bar/%E3%83%84", "/foo/bar/ツ", true),
        ("/foo/bar/%e3%83%84", "/foo/bar/%E3%83%84", true),
        ("/foo/bar/%62%61%7A", "/foo/bar/baz", true),
        ("/foo/bar/baz", "/foo/bar/%62%61%7a", true),
        ("/a%2fb", "/a/b", false),
        ("/a%2fb", "/a%2Fb", true),
        (
            "/path/file-with-a-%2A.html",
            "/path/file-with-a-*.html",
            true,
        ),
        ("/path/foo-%24", "/path/foo-$", true),
        ("/price$5", "/price$5", true),
        ("/a{b}|c", "/a{b}|c", true),
        ("/q?x='1'", "/q?x='1'", true),
        ("/CASE", "/case", false),
        ("/fish*.php", "/fishheads/catfish.php?x", true),
        ("/*.php$", "/a/b.php", true),
        ("/*.php$", "/a/b.php?x", false),
        ("/private # comment", "/private/x", true),
        ("", "/x", false),
    ] {
        assert_eq!(rule_matches(rule, path), matches, "{rule} {path}");
    }
}

#[test]
fn groups_of_the_same_agent_are_one_and_versions_do_not_count() {
    let text = "User-agent: bot/1.0\nDisallow: /a\n\nuser-agent: *\nDisallow: /\n\nUser-Agent: BOT\nDisallow: /b";
    let robots = robots(text, "bot/3.2");
    assert!(!allows(&robots, "/a") && !allows(&robots, "/b") && allows(&robots, "/c"));
}

#[test]
fn file_forms() {
    let forms = [
        "\u{feff}User-agent: *\nDisallow: /x",
        "User-agent: *\r\nDisallow: /x\r\n",
        "User-agent: *\rDisallow: /x",
        "User-agent: *\n# c\nSitemap: http://a/s.xml\nDisallow: /x",
        "  user-agent : *\n\tdisallow : /x",
    ];
    for text in forms {
        let robots = robots(text, "bot");
        assert!(!allows(&robots, "/x") && allows(&robots, "/y"), "{text:?}");
    }
    let html = robots("<!DOCTYPE html><html><body>Not here</body></html>", "bot");
    assert!(allows(&html, "/x"));
    assert!(allows(&robots("", "bot"), "/"));
}

#[test]
fn status_rules() {
    let all = b"User-agent: *\nDisallow: /";
    for (status, allowed) in [
        (200, false),
        (206, false),
        (301, true),
        (401, true),
        (403, true),
        (404, true),
        (410, true),
        (500, false),
        (503, false),
        (999, false),
    ] {
        let robots = Robots::from_answer(status, all, "bot");
        assert_eq!(allows(&robots, "/x"), allowed, "{status}");
        assert!(allows(&robots, "/robots.txt"), "{status}");
    }
    assert!(!allows(&Robots::unreachable(), "/x"));
}

#[test]
fn the_file_is_read_up_to_500_kib_of_whole_lines() {
    let filler = format!("# {}\n", "x".repeat(1021));
    let mut text = String::from("User-agent: *\nDisallow: /a\n");
    text.push_str(&filler.repeat(499));
    text.push_str(&format!("# {}\n", "x".repeat(1024 - 28 - 3 - 14)));
    text.push_str("Disallow: /bcdefghijkl\nDisallow: /c\n");
    let robots = robots(&text, "bot");
    assert!(!allows(&robots, "/a") && allows(&robots, "/b") && allows(&robots, "/c"));
}

#[test]
fn hostile_rules_are_cheap_and_never_allow_more() {
    let stars = format!("/a{}b$", "*x".repeat(400));
    let text = format!("User-agent: *\nAllow: {stars}\nDisallow: {stars}\nDisallow: /z");
    let robots = robots(&text, "bot");
    assert!(!allows(&robots, "/a1") && !allows(&robots, "/z") && allows(&robots, "/b"));
    let long = format!("User-agent: *\nDisallow: {}", "/*a".repeat(400));
    let path = "/a".repeat(2000);
    assert!(!allows(
        &Robots::from_answer(200, long.as_bytes(), "b"),
        &path
    ));
}

#[test]
fn crawl_delays() {
    for (text, delay) in [
        ("User-agent: *\nCrawl-delay: 2.5", Some(2500)),
        ("User-agent: *\nCrawl-delay: inf", Some(86_400_000)),
        ("User-agent: *\nCrawl-delay: 1e30", Some(86_400_000)),
        ("User-agent: *\nCrawl-delay: NaN", None),
        ("User-agent: *\nCrawl-delay: -1", None),
        ("User-agent: *\nCrawl-delay: soon", None),
        ("User-agent: other\nCrawl-delay: 9", None),
    ] {
        let delay = delay.map(Duration::from_millis);
        assert_eq!(robots(text, "bot").crawl_delay(), delay, "{text}");
    }
}

#[test]
fn sitemaps_are_found_under_any_agent_and_each_once() {
    let file = Url::parse("https://h.example/robots.txt").unwrap();
    let text = "Sitemap: https://other.example/a.xml\nUser-agent: other\nsitemap: /b.xml\nDisallow: /\n\
        User-agent: *\nSITEMAP: https://h.example/b.xml # again\nSitemap: ftp://h.example/c\nSitemap:\n";
    let found = robots(text, "bot").sitemaps(&file);
    let found: Vec<&str> = found.iter().map(Url::as_str).take(2).collect();
    assert_eq!(
        found,
        ["https://other.example/a.xml", "https://h.example/b.xml"]
    );
    let many: String = (0..2000).map(|n| format!("Sitemap: /{n}.xml\n")).collect();
    assert_eq!(robots(&many, "bot").sitemaps(&file).len(), 1000);
    assert!(Robots::missing().sitemaps(&file).is_empty());
}

#[test]
fn where_the_file_lies() {
    let url = Url::parse("https://u:p@h.example:8443/a/b?c#d").unwrap();
    assert_eq!(
        robots_url(&url).as_str(),
        "https://h.example:8443/robots.txt"
    );
    assert_eq!(product_token("crawler-node/0.1.0 (+x)"), "crawler-node");
    assert_eq!(product_token(""), "*");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        body in prop::collection::vec(any::<u8>(), 0..400),
        path in "/[ -~]{0,40}",
    ) {
        let robots = Robots::from_answer(200, &body, "bot");
        let url = Url::parse(&format!("https://h.example{path}")).unwrap();
        let _ = (robots.allows(&url), robots.crawl_delay());
    }

    #[test]
    fn a_prefix_rule_matches_whatever_begins_with_it(
        path in "/[a-zA-Z0-9{}|'é$ *-]{0,20}",
        more in "[a-z]{1,9}",
    ) {
        // In a rule a star must be encoded to stand for itself.
        let rule = path.replace('*', "%2a");
        let rule = rule.trim_end_matches(['$', ' ']);
        let asked = [rule, more.as_str()].concat();
        prop_assert!(rule_matches(rule, &asked), "{} {}", rule, asked);
    }
}
