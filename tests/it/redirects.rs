//! Redirects through the whole product: which are followed, in whose name, and how those end that lead nowhere.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::raw::{Asked, RawServer, answer, missing, page, redirect, working};
use crate::support::{Ran, binary, records, run};

/// Crawls from `starts` with further arguments.
fn crawl(dir: &Path, starts: &[&str], more: &[&str]) -> Ran {
    let mut command = binary(dir);
    command
        .args(["crawl", "--report", "report.json"])
        .args(starts.iter().flat_map(|start| ["--urls", start]))
        .args([
            "--set",
            "test_time_scale=0.01",
            "--set",
            "limits.mode=fixed",
        ])
        .args(more);
    run(&mut command)
}

/// Tasks of the only site, by state.
fn tasks(dir: &Path) -> BTreeMap<String, u64> {
    let text = fs::read_to_string(dir.join("report.json")).expect("a report");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let sites = report["sites"].as_object().expect("sites");
    let tasks = &sites.values().next().expect("a site")["tasks"];
    serde_json::from_value(tasks.clone()).expect("counts")
}

/// What `field` holds in all records, in order.
fn fields(dir: &Path, field: &str) -> Vec<String> {
    let mut found: Vec<String> = records(&dir.join("data"))
        .iter()
        .map(|record| record[field].as_str().expect("a text").to_owned())
        .collect();
    found.sort();
    found
}

/// Answers `/` with links to `paths`, robots.txt with nothing, and the rest by `rest`.
fn linking(
    paths: Vec<String>,
    rest: impl Fn(&Asked<'_>) -> Vec<u8> + Send + Sync + 'static,
) -> RawServer {
    RawServer::start("127.0.0.1:0", move |asked| match asked.target {
        "/robots.txt" => missing(),
        "/" => {
            let links = paths.iter().map(|path| format!("<a href=\"{path}\">x</a>"));
            page(&links.collect::<String>())
        }
        _ => rest(asked),
    })
}

#[test]
fn l01_each_hop_takes_the_slot_of_the_host_it_goes_to() {
    let target = RawServer::start("127.0.0.2:0", |asked| match asked.target {
        "/robots.txt" => missing(),
        _ => {
            working(Duration::from_millis(10));
            page("")
        }
    });
    let sources: Vec<RawServer> = (0..20)
        .map(|n| {
            let to = target.base.clone();
            RawServer::start(&format!("127.0.1.{}:0", n + 1), move |asked| {
                match asked.target.strip_prefix("/r/") {
                    Some(name) => redirect(302, format!("{to}/t/{n}/{name}")),
                    None => missing(),
                }
            })
        })
        .collect();
    let start = format!("{}/", target.base);
    let urls: Vec<String> = sources
        .iter()
        .flat_map(|source| (0..3).map(|name| format!("{}/r/{name}", source.base)))
        .chain([start])
        .collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let dir = tempfile::tempdir().expect("a directory");
    let caps = [
        "--max_concurrency_num",
        "64",
        "--set",
        "limits.max_concurrency_num=1",
    ];
    let ran = crawl(dir.path(), &urls, &caps);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(fields(dir.path(), "url").len(), 61);
    assert_eq!(target.targets().len(), 61);
    assert_eq!(target.most_at_once(), 1, "hit beyond its cap");
    for source in &sources {
        assert_eq!(source.targets().len(), 3);
        assert_eq!(source.most_at_once(), 1);
    }
}

#[test]
fn l44_each_hop_is_checked_against_scope_and_robots() {
    let outside = RawServer::start("127.0.0.4:0", |_| page(""));
    let other = RawServer::start("127.0.0.3:0", |asked| match asked.target {
        "/robots.txt" => answer(200, b"", "User-agent: *\nDisallow: /private\n"),
        _ => page(""),
    });
    let (away, near) = (outside.base.clone(), other.base.clone());
    let paths = ["/denied", "/hidden", "/out", "/through", "/fine"].map(str::to_owned);
    let server = RawServer::start("127.0.0.1:0", move |asked| match asked.target {
        "/robots.txt" => answer(200, b"", "User-agent: *\nDisallow: /secret\n"),
        "/" => page(
            &paths
                .clone()
                .map(|path| format!("<a href={path}>x</a>"))
                .concat(),
        ),
        "/denied" => redirect(301, "/secret"),
        "/hidden" => redirect(302, format!("{near}/private/a")),
        "/out" => redirect(302, format!("{away}/x")),
        "/through" => redirect(302, format!("{near}/ok")),
        _ => page(""),
    });
    let dir = tempfile::tempdir().expect("a directory");
    let starts = [&*format!("{}/", server.base), &*format!("{}/", other.base)];
    let ran = crawl(dir.path(), &starts, &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!server.targets().contains(&"/secret".to_owned()));
    assert_eq!(other.targets().len(), 2, "{:?}", other.targets());
    assert!(outside.heads().is_empty(), "not even its robots.txt");
    assert_eq!(tasks(dir.path())["dropped"], 3);
    let mut wanted = vec![
        format!("{}/", server.base),
        format!("{}/fine", server.base),
        format!("{}/", other.base),
        format!("{}/ok", other.base),
    ];
    wanted.sort();
    assert_eq!(fields(dir.path(), "url"), wanted);
}

#[test]
fn l53_a_page_that_leads_to_itself_and_sets_a_cookie_is_delivered() {
    let server = RawServer::start("127.0.0.1:0", |asked| match asked.target {
        "/a" | "/gate"
            if asked
                .head
                .to_ascii_lowercase()
                .contains("\r\ncookie: seen=1\r\n") =>
        {
            page("")
        }
        "/a" | "/gate" => answer(302, b"Location: /a\r\nSet-Cookie: seen=1\r\n", ""),
        _ => missing(),
    });
    for start in ["/a", "/gate"] {
        let dir = tempfile::tempdir().expect("a directory");
        let ran = crawl(dir.path(), &[&format!("{}{start}", server.base)], &[]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(fields(dir.path(), "url"), [format!("{}/a", server.base)]);
        assert_eq!(
            fields(dir.path(), "requested_url"),
            [format!("{}{start}", server.base)]
        );
    }
    assert_eq!(server.targets(), ["/a", "/a", "/gate", "/a"]);
}

#[test]
fn l53_loops_end_and_say_so_once() {
    let server = linking(
        vec!["/b".to_owned(), "/self".to_owned(), "/e".to_owned()],
        |asked| match asked.target {
            "/b" => redirect(302, "/c"),
            "/c" => redirect(302, "/b"),
            "/self" => redirect(302, "/self"),
            // Something changes each time, so that only the limit ends it.
            "/e" => answer(302, b"Location: /f\r\nSet-Cookie: a=1\r\n", ""),
            "/f" => answer(302, b"Location: /e\r\nSet-Cookie: a=2\r\n", ""),
            _ => missing(),
        },
    );
    let dir = tempfile::tempdir().expect("a directory");
    let ran = crawl(dir.path(), &[&format!("{}/", server.base)], &[]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    let asked = |target: &str| {
        server
            .targets()
            .iter()
            .filter(|asked| *asked == target)
            .count()
    };
    assert_eq!((asked("/b"), asked("/c"), asked("/self")), (1, 1, 1));
    assert_eq!(asked("/e") + asked("/f"), 11, "ten redirects are followed");
    let tasks = tasks(dir.path());
    assert_eq!(
        (tasks["done"], tasks["dropped"], tasks["failed"]),
        (1, 2, 1)
    );
    for (text, times) in [("redirects in a circle", 2), ("more than 10 redirects", 1)] {
        assert_eq!(ran.stderr.matches(text).count(), times, "{}", ran.stderr);
    }
}

#[test]
fn l53_a_chain_is_followed_to_its_limit() {
    let server = RawServer::start("127.0.0.1:0", |asked| {
        match asked.target.trim_start_matches('/').parse::<u32>() {
            Ok(21) => page("end"),
            Ok(n) => redirect(302, (n + 1).to_string()),
            Err(_) => missing(),
        }
    });
    let start = format!("{}/0", server.base);
    for (most, code, asked) in [("20", 3, 21), ("21", 0, 22), ("0", 3, 1)] {
        let dir = tempfile::tempdir().expect("a directory");
        let before = server.targets().len();
        let most = format!("exchange.max_redirects={most}");
        let ran = crawl(dir.path(), &[&start], &["--set", &most]);
        assert_eq!(ran.code, Some(code), "{most}: {}", ran.stderr);
        assert_eq!(server.targets().len() - before, asked, "{most}");
        if code == 0 {
            assert_eq!(fields(dir.path(), "url"), [format!("{}/21", server.base)]);
        }
    }
}

/// What a Location holds, and the target that is asked for next: none where it leads nowhere.
const LOCATIONS: &[(&str, &[u8], Option<&str>)] = &[
    ("/dir/relative", b"sib", Some("/dir/sib")),
    ("/dir/query", b"?page=2", Some("/dir/query?page=2")),
    ("/dir/up", b"../up2", Some("/up2")),
    ("/spaces", b"  /sp ace  ", Some("/sp%20ace")),
    ("/fragment", b"/f#part", Some("/f")),
    ("/text-fragment", b"/tf#:~:text=x", Some("/tf")),
    ("/utf8", "/\u{e9}".as_bytes(), Some("/%C3%A9")),
    ("/latin1", b"/\xe9t\xe9?q=\xfc", Some("/%E9t%E9?q=%FC")),
    ("/escaped", b"/a%2fb%23", Some("/a%2fb%23")),
    ("/pipe", b"/a|b[c]", Some("/a|b[c]")),
    ("/backslash", b"\\bs", Some("/bs")),
    ("/empty", b"", None),
    ("/blank", b"   ", None),
    ("/js", b"javascript:alert(1)", None),
    ("/file", b"file:///etc/passwd", None),
    ("/mail", b"mailto:a@b", None),
    ("/broken", b"http://[::1", None),
    ("/port", b"http://127.0.0.1:99999/", None),
];

#[test]
fn l53_locations_are_read_as_browsers_do() {
    let paths = LOCATIONS.iter().map(|(path, ..)| (*path).to_owned());
    let server = linking(paths.collect(), |asked| {
        let known = LOCATIONS.iter().find(|(path, ..)| *path == asked.target);
        known.map_or_else(|| page(""), |(_, location, _)| redirect(302, location))
    });
    let dir = tempfile::tempdir().expect("a directory");
    let ran = crawl(dir.path(), &[&format!("{}/", server.base)], &[]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    let asked = server.targets();
    for (path, _, target) in LOCATIONS {
        if let Some(target) = target {
            assert!(
                asked.iter().any(|asked| asked == target),
                "{path}: {asked:?}"
            );
        }
    }
    let followed = LOCATIONS
        .iter()
        .filter(|(.., target)| target.is_some())
        .count();
    assert_eq!(fields(dir.path(), "url").len(), 1 + followed);
    let tasks = tasks(dir.path());
    // Another scheme is out of bounds; what is no Location at all is a fault of the server.
    assert_eq!((tasks["dropped"], tasks["failed"]), (3, 4));
}

#[test]
fn several_locations_must_agree_and_other_statuses_lead_nowhere() {
    let statuses = ["/300", "/304", "/305", "/306", "/399"];
    let paths = statuses.iter().chain(&["/same", "/differ", "/none"]);
    let server = linking(
        paths.map(|path| (*path).to_owned()).collect(),
        move |asked| match asked.target {
            "/same" => answer(301, b"Location: /x\r\nlocation: /x\r\n", ""),
            "/differ" => answer(301, b"Location: /y\r\nLocation: /z\r\n", ""),
            "/none" => answer(302, b"", "no Location"),
            "/304" => b"HTTP/1.1 304 Not Modified\r\nLocation: /never\r\n\r\n".to_vec(),
            other => match other[1..].parse() {
                Ok(status) => redirect(status, "/never"),
                Err(_) => page(""),
            },
        },
    );
    let dir = tempfile::tempdir().expect("a directory");
    let ran = crawl(dir.path(), &[&format!("{}/", server.base)], &[]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert_eq!(fields(dir.path(), "url").len(), 2, "the start and /x");
    let asked = server.targets();
    for never in ["/never", "/y", "/z"] {
        assert!(!asked.contains(&never.to_owned()), "{never}");
    }
    assert!(
        ran.stderr.contains("several Locations that differ"),
        "{}",
        ran.stderr
    );
}

#[test]
fn l50_a_redirect_is_followed_whatever_its_body_is() {
    let bodies: [(&str, Vec<u8>); 7] = [
        (
            "/large",
            answer(302, b"Location: /1\r\n", &"x".repeat(1 << 20)),
        ),
        (
            "/plain",
            answer(302, b"Location: /2\r\nContent-Encoding: gzip\r\n", "plain"),
        ),
        (
            "/bad-gzip",
            answer(
                302,
                b"Location: /3\r\nContent-Encoding: gzip\r\n",
                "\u{1f}\u{8b}",
            ),
        ),
        (
            "/odd",
            answer(302, b"Location: /4\r\nContent-Encoding: x-odd\r\n", "?"),
        ),
        (
            "/short",
            b"CUT HTTP/1.1 302 Cut\r\nLocation: /5\r\nContent-Length: 100\r\n\r\nshort".to_vec(),
        ),
        (
            "/close",
            b"CUT HTTP/1.1 302 Close\r\nLocation: /6\r\n\r\nuntil the end".to_vec(),
        ),
        (
            "/chunk",
            b"CUT HTTP/1.1 302 Chunk\r\nLocation: /7\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
                .to_vec(),
        ),
    ];
    let paths = bodies.iter().map(|(path, _)| (*path).to_owned()).collect();
    let server = linking(paths, move |asked| {
        let known = bodies.iter().find(|(path, _)| *path == asked.target);
        known.map_or_else(|| page(""), |(_, bytes)| bytes.clone())
    });
    let dir = tempfile::tempdir().expect("a directory");
    let small = ["--set", "exchange.max_body_bytes=100 KiB"];
    let ran = crawl(dir.path(), &[&format!("{}/", server.base)], &small);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(fields(dir.path(), "url").len(), 8);
    let targets = server.targets();
    assert_eq!(targets.len(), 1 + 7 * 2, "each once: {targets:?}");
}

#[test]
fn a_refresh_is_a_link() {
    let server = linking(
        vec![
            "/meta".to_owned(),
            "/header".to_owned(),
            "/other".to_owned(),
        ],
        |asked| match asked.target {
            "/meta" => page("<meta http-equiv=refresh content='0; url=/by-meta'>"),
            "/header" => answer(
                200,
                b"Content-Type: text/html\r\nRefresh: 5;url=\"/by-header\"\r\n",
                "<title>x</title>",
            ),
            "/other" => page("<meta http-equiv=refresh content=30>"),
            "/by-meta" | "/by-header" => page(""),
            _ => missing(),
        },
    );
    let dir = tempfile::tempdir().expect("a directory");
    let ran = crawl(dir.path(), &[&format!("{}/", server.base)], &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(fields(dir.path(), "url").len(), 6);
    assert_eq!(server.targets().len(), 6, "each once");
}

/// What a site definition sends to its host, and what may go along to another.
const DEFINITION: &str = r#"
name = "shop"
base_url = "BASE/"
robots = "off"
headers = { Cookie = "a=secret", Authorization = "Bearer secret", X-Api-Key = "secret", Referer = "BASE/secret", Accept-Language = "de" }
[modes.crawl]
urls = ["BASE/"]
[endpoints.search]
post = "/search"
form = { q = "{keyword}" }
  [[endpoints.search.records]]
  each = "$.items[*]"
  kind = "content"
  key = "$.id"
[modes.search]
each = "keyword"
start = "search"
"#;

fn with_definition(dir: &Path, base: &str) -> String {
    let sites = dir.join("sites");
    fs::create_dir(&sites).expect("a directory");
    fs::write(sites.join("shop.toml"), DEFINITION.replace("BASE", base)).expect("written");
    sites.to_string_lossy().into_owned()
}

#[test]
fn credentials_do_not_follow_to_another_host() {
    let other = RawServer::start("127.0.0.5:0", |asked| match asked.target {
        "/" => page(""),
        "/landed" => page(""),
        _ => missing(),
    });
    let to = other.base.clone();
    let server = linking(
        vec!["/away".to_owned(), "/near".to_owned()],
        move |asked| match asked.target {
            "/away" => redirect(307, format!("{to}/landed")),
            "/near" => redirect(307, "/near2"),
            _ => page(""),
        },
    );
    let dir = tempfile::tempdir().expect("a directory");
    let sites = with_definition(dir.path(), &server.base);
    let starts = [&*format!("{}/", server.base), &*format!("{}/", other.base)];
    let ran = crawl(dir.path(), &starts, &["--site", "shop", "--sites", &sites]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let head = |server: &RawServer, target: &str| {
        let line = format!("GET {target} ");
        let heads = server.heads();
        heads
            .into_iter()
            .find(|head| head.starts_with(&line))
            .expect("asked")
    };
    let landed = head(&other, "/landed").to_ascii_lowercase();
    assert!(!landed.contains("secret"), "{landed}");
    assert!(landed.contains("accept-language: de"), "{landed}");
    assert_eq!(head(&server, "/near2").matches("secret").count(), 4);
    assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
}

#[test]
fn method_and_body_are_kept_as_the_status_says() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = RawServer::start("127.0.0.1:0", |asked| match asked.target {
        "/search" => {
            let status = asked.head.rsplit("q=").next().expect("a body");
            redirect(status.parse().expect("a status"), format!("/to/{status}"))
        }
        _ => answer(
            200,
            b"Content-Type: application/json\r\n",
            r#"{"items":[{"id":1}]}"#,
        ),
    });
    let sites = with_definition(dir.path(), &server.base);
    let mut command = binary(dir.path());
    command
        .args([
            "crawl", "--mode", "search", "--site", "shop", "--sites", &sites,
        ])
        .args(["--keywords", "301,302,303,307,308"]);
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let heads = server.heads();
    for (status, method) in [
        (301, "GET"),
        (302, "GET"),
        (303, "GET"),
        (307, "POST"),
        (308, "POST"),
    ] {
        let line = format!("{method} /to/{status} ");
        let head = heads.iter().find(|head| head.starts_with(&line));
        let head = head.unwrap_or_else(|| panic!("{line}: {heads:?}"));
        assert_eq!(
            head.ends_with(&format!("q={status}")),
            method == "POST",
            "{head}"
        );
        assert_eq!(
            head.to_ascii_lowercase().contains("content-type"),
            method == "POST",
            "{head}"
        );
    }
}
