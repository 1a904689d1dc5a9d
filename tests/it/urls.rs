//! URLs through the whole product: what is sent is what was linked, and each page is asked once.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;

use crate::raw::{RawServer, missing, page};
use crate::support::{Ran, binary, records, run};

fn crawl(dir: &Path, start: &str, more: &[&str]) -> Ran {
    let mut command = binary(dir);
    command.args(["crawl", "--urls", start]).args(more);
    run(&mut command)
}

/// Pages for all, the first with `links`; it is asked as `/`.
fn linking(listener: TcpListener, links: impl IntoIterator<Item = String>) -> RawServer {
    let links = links
        .into_iter()
        .map(|link| format!("<a href=\"{link}\">x</a>"));
    let first = page(&links.collect::<String>());
    RawServer::on(listener, move |asked| match asked.target {
        "/" => first.clone(),
        "/robots.txt" => missing(),
        _ => page(""),
    })
}

/// A listener on a free port of an address, and that port.
fn listen(address: &str) -> (TcpListener, u16) {
    let listener = TcpListener::bind((address, 0)).expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    (listener, port)
}

fn texts(links: &[&str]) -> Vec<String> {
    links.iter().map(|link| (*link).to_owned()).collect()
}

fn urls(dir: &Path) -> Vec<String> {
    let records = records(&dir.join("data"));
    let url = |record: &serde_json::Value| record["url"].as_str().expect("a URL").to_owned();
    records.iter().map(url).collect()
}

#[test]
fn l45_what_is_sent_is_what_was_linked() {
    // Each as it goes over the wire, with other spellings of the same page behind it.
    let groups: &[&[&str]] = &[
        &["/a%23b"],
        &["/a%25"],
        &["/a%2Fb", "/a%2fb"],
        &["/a/b"],
        &["/a?a"],
        &["/a?a="],
        &["/a?"],
        &["/a"],
        &["/a?b=2&a=1"],
        &["/a?a=1&b=2"],
        &["/a?x&x"],
        &["/%7euser", "/~user", "/%7Euser"],
        &["/x%c3%a9", "/x%C3%A9", "/x\u{e9}"],
        &["/it's", "/it's#frag", "/it's#!/state", "/it's#:~:text=a"],
        &["/it%27s"],
        &["/a+b"],
        &["/a%20b", "/a b"],
        &["/q[1]|2", "/q%5B1%5D%7C2"],
        &["//"],
        &["/a//b"],
        &["/100%"],
    ];
    let links: Vec<String> = groups.iter().flat_map(|group| texts(group)).collect();
    // `//` would name a host.
    let server = linking(
        listen("127.0.0.1").0,
        links.into_iter().map(|link| match &*link {
            "//" => ".//".to_owned(),
            _ => link,
        }),
    );
    let dir = tempfile::tempdir().expect("a directory");
    let ran = crawl(dir.path(), &format!("{}/", server.base), &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let mut wanted: Vec<&str> = groups.iter().map(|group| group[0]).collect();
    wanted.push("/");
    wanted.sort_unstable();
    let mut asked = server.targets();
    asked.sort_unstable();
    assert_eq!(asked, wanted);
    assert_eq!(urls(dir.path()).len(), wanted.len());
}

#[test]
fn l46_each_class_of_equal_urls_is_asked_once() {
    let (listener, port) = listen("127.0.0.1");
    let host = format!("localhost:{port}");
    let links = [
        format!("HTTP://LOCALHOST:{port}/"),
        format!("http://{host}"),
        format!("http://{host}/./a/../"),
        format!("http://{host}/%2e%2e/"),
        format!("http://{host}/../"),
        format!("http://{host}/#x"),
        format!("http://localhost.:{port}/"),
        format!("//{host}/"),
        format!("/\\{host}"),
        // By the URL standard a path of this host, beside a base of the same scheme.
        format!("http:/{host}/"),
        format!("ht\ntp://{host}/"),
        String::new(),
        "#".to_owned(),
        " / ".to_owned(),
        "?x".to_owned(),
        format!("http://{host}?x"),
        " /sp ace".to_owned(),
        "/sp%20ace".to_owned(),
        "/d/../d/./e".to_owned(),
        "d/e".to_owned(),
        "\\d\\e".to_owned(),
    ];
    let server = linking(listener, links);
    let dir = tempfile::tempdir().expect("a directory");
    let ran = crawl(dir.path(), &format!("http://{host}"), &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let mut asked = server.targets();
    asked.sort_unstable();
    let path = format!("/{host}/");
    assert_eq!(asked, ["/", "/?x", "/d/e", &path, "/sp%20ace"]);
    let robots = server
        .heads()
        .iter()
        .filter(|head| head.starts_with("GET /robots.txt"))
        .count();
    assert_eq!(robots, 1, "one host, whatever its name ends with");
}

#[test]
fn l46_a_host_with_a_dot_at_its_end_is_asked_by_its_plain_name() {
    let (listener, port) = listen("127.0.0.1");
    let server = linking(listener, []);
    let dir = tempfile::tempdir().expect("a directory");
    let ran = crawl(dir.path(), &format!("http://localhost.:{port}/"), &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let heads = server.heads();
    assert!(
        heads.iter().all(|head| head
            .to_ascii_lowercase()
            .contains(&format!("host: localhost:{port}\r\n"))),
        "{heads:?}"
    );
    assert_eq!(urls(dir.path()), [format!("http://localhost:{port}/")]);
}

#[test]
fn l47_users_in_links_are_neither_sent_nor_shown_nor_known() {
    let (listener, port) = listen("127.0.0.1");
    let host = format!("127.0.0.1:{port}");
    let links = [
        format!("http://u:hidden@{host}/"),
        format!("http://info@{host}/"),
        format!("http://u:hidden@{host}/only"),
        format!("//hidden@{host}/only"),
    ];
    let server = linking(listener, links);
    let dir = tempfile::tempdir().expect("a directory");
    let ran = crawl(
        dir.path(),
        &format!("http://{host}/"),
        &["--set", "log.level=trace"],
    );
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(server.targets(), ["/", "/only"]);
    for head in server.heads() {
        assert!(
            !head.to_ascii_lowercase().contains("authorization"),
            "{head}"
        );
    }
    let data = format!("{:?}", records(&dir.path().join("data")));
    assert!(
        !ran.stderr.contains("hidden") && !data.contains("hidden"),
        "{}",
        ran.stderr
    );
}

#[test]
fn l47_a_password_of_a_start_url_is_refused_without_repeating_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let ran = crawl(dir.path(), "http://u:hidden@127.0.0.1:9/", &[]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("http://***@127.0.0.1:9/"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("allowed:"), "{}", ran.stderr);
    assert!(
        !ran.stderr.contains("hidden") && !ran.stdout.contains("hidden"),
        "{}",
        ran.stderr
    );
}

#[test]
fn l47_all_forms_of_an_ipv6_address_are_one_host() {
    if TcpListener::bind("[::1]:0").is_err() {
        eprintln!("left out: this machine has no IPv6");
        return;
    }
    let (listener, port) = listen("::1");
    let links = [
        format!("http://[0:0::1]:{port}/"),
        format!("http://[0000:0000:0000:0000:0000:0000:0000:0001]:{port}/#x"),
        format!("http://u@[::0.0.0.1]:{port}/a"),
        "/a".to_owned(),
        "/b".to_owned(),
    ];
    let server = linking(listener, links);
    let dir = tempfile::tempdir().expect("a directory");
    let caps = [
        "--max_concurrency_num",
        "8",
        "--set",
        "limits.max_concurrency_num=1",
    ];
    let ran = crawl(dir.path(), &format!("http://[0::1]:{port}/"), &caps);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(server.targets(), ["/", "/a", "/b"]);
    assert_eq!(server.most_at_once(), 1, "one host, one slot");
    let host = format!("host: [::1]:{port}\r\n");
    for head in server.heads() {
        assert!(head.to_ascii_lowercase().contains(&host), "{head}");
    }
}

#[test]
fn options_of_urls_count_as_configured() {
    let links = texts(&[
        "/p?b=2&a=1",
        "/p?a=1&b=2",
        "/p?a=1&b=2&utm_source=x",
        "/p?a=1&b=2&a=1",
        "/p;jsessionid=AB?a=1&b=2",
        "/p;jsessionid=CD?a=1&b=2&fbclid=1",
    ]);
    let asked = |arguments: &[&str]| -> BTreeSet<String> {
        let server = linking(listen("127.0.0.1").0, links.clone());
        let dir = tempfile::tempdir().expect("a directory");
        let ran = crawl(dir.path(), &format!("{}/", server.base), arguments);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let asked = server.targets();
        let once: BTreeSet<String> = asked.iter().cloned().collect();
        assert_eq!(asked.len(), once.len(), "each once");
        once
    };
    assert_eq!(asked(&[]).len(), 7);
    let sort = ["--set", "crawl.urls.query=sort"];
    assert_eq!(asked(&sort).len(), 6);
    let all = [
        "--set",
        "crawl.urls.query=sort_unique",
        "--set",
        "crawl.urls.drop_params=@tracking,@session",
    ];
    // The first is sent as it was linked.
    assert_eq!(
        asked(&all),
        BTreeSet::from(["/".to_owned(), "/p?b=2&a=1".to_owned()])
    );
    let site = [
        "--set",
        "sites.web.urls.query=sort",
        "--set",
        "sites.web.urls.drop_params=utm_*",
    ];
    assert_eq!(asked(&site).len(), 5);
}

#[test]
fn a_job_that_goes_on_under_other_rules_says_so() {
    let server = linking(listen("127.0.0.1").0, texts(&["/p?b=2&a=1"]));
    let dir = tempfile::tempdir().expect("a directory");
    let start = format!("{}/", server.base);
    let said = |arguments: &[&str]| {
        let ran = crawl(dir.path(), &start, arguments);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.stderr
            .matches("pages are recognised by other rules")
            .count()
    };
    let sort = ["--set", "crawl.urls.query=sort"];
    assert_eq!(said(&[]), 0, "a new job");
    assert_eq!(said(&[]), 0, "the same rules");
    assert_eq!(said(&sort), 1, "other rules");
    assert_eq!(said(&sort), 0, "said once");
    assert_eq!(
        server.targets(),
        ["/", "/p?b=2&a=1"],
        "nothing waits to be asked again"
    );
}

#[test]
fn a_job_of_an_earlier_program_goes_on_and_says_that_keys_have_changed() {
    let server = linking(listen("127.0.0.1").0, texts(&["/a"]));
    let dir = tempfile::tempdir().expect("a directory");
    let start = format!("{}/", server.base);
    assert_eq!(crawl(dir.path(), &start, &[]).code, Some(0));
    let store = dir.path().join("data/.crawler-node/store.db");
    let db = rusqlite::Connection::open(&store).expect("the store");
    db.execute_batch("DROP TABLE key_rules")
        .expect("an older store");
    drop(db);
    let ran = crawl(dir.path(), &start, &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("pages are recognised by other rules"),
        "{}",
        ran.stderr
    );
    assert_eq!(server.targets(), ["/", "/a"], "whose keys are as they were");
}
