//! Cookies through the whole product: what servers are sent, what outlives a run and a kill, what an import brings.

mod server;

use std::fs;
use std::path::Path;
use std::process::Command;

use crawler_node::model::CookiePolicy;
use crawler_node::settings::SiteSettings;
use crawler_node::{Engine, Job, Settings};

use self::server::{CookieServer, Told, page};
use crate::support::{Ran, binary, records, run, settings};

/// A crawl of `urls`, one page at a time.
fn crawl(dir: &Path, urls: &[String]) -> Command {
    let mut command = binary(dir);
    command.args(["crawl", "--out", "out", "--log-level", "warning"]);
    command.args([
        "--set",
        "limits.mode=fixed",
        "--set",
        "test_time_scale=0.01",
    ]);
    command.arg("--urls").args(urls);
    command
}

/// A crawl of the definitions that lie in the directory.
fn crawl_sites(dir: &Path, names: &str) -> Ran {
    let mut command = binary(dir);
    command.args(["crawl", "--sites", "sites", "--site", names]);
    run(command.args(["--set", "limits.mode=fixed"]))
}

fn done(ran: &Ran) {
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
}

fn statuses(dir: &Path) -> Vec<(String, u64)> {
    let mut all: Vec<_> = records(dir)
        .iter()
        .map(|record| {
            let url = url::Url::parse(record["url"].as_str().expect("a URL")).expect("a URL");
            (
                url.path().to_owned(),
                record["status"].as_u64().expect("a status"),
            )
        })
        .collect();
    all.sort();
    all
}

/// `/login` gives a session, which `/data` asks for.
fn login(told: &Told) -> String {
    let known = told.cookies() == ["SESS=a=b=="];
    match told.path.as_str() {
        "/login" => page(
            200,
            "Set-Cookie: SESS=a=b==; Path=/; HttpOnly\r\n",
            "<a href=/data>",
        ),
        "/data" if known => page(200, "", "the data"),
        _ => page(403, "", "who are you?"),
    }
}

async fn crawled(settings: Settings, dir: &Path, urls: &[String]) -> u8 {
    let engine = Engine::builder(settings).start().expect("an engine");
    let job = Job::crawl(urls.to_vec()).out(dir);
    let job = engine.submit(job).await.expect("submitted");
    let report = job.wait().await.expect("ended");
    engine.drain().await;
    report.exit_code
}

#[actix_rt::test]
async fn a_login_cookie_opens_the_pages_behind_it() {
    let server = CookieServer::start(login);
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("out");
    let code = crawled(settings(dir.path(), 2), &out, &[server.url("/login")]).await;
    assert_eq!(code, 0);
    let all = [("/data".to_owned(), 200), ("/login".to_owned(), 200)];
    assert_eq!(statuses(&out), all);
}

#[actix_rt::test]
async fn cookies_that_are_off_are_neither_kept_nor_sent() {
    let server = CookieServer::start(|told| match told.path.as_str() {
        "/login" => page(200, "Set-Cookie: SESS=1\r\n", "<a href=/data>"),
        _ => page(200, "", "data"),
    });
    for by_site in [true, false] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut settings = settings(dir.path(), 2);
        if by_site {
            let web = SiteSettings {
                cookies: Some(CookiePolicy::Off),
                ..SiteSettings::default()
            };
            settings.sites.insert("web".to_owned(), web);
        } else {
            settings.exchange.cookies = CookiePolicy::Off;
        }
        let out = dir.path().join("out");
        assert_eq!(crawled(settings, &out, &[server.url("/login")]).await, 0);
        assert!(server.told().iter().all(|told| told.cookie.is_empty()));
        assert!(
            !dir.path().join("state/state.db").exists(),
            "nothing to keep"
        );
    }
}

#[actix_rt::test]
async fn a_cookie_of_a_redirect_goes_with_the_next_hop_and_the_jar_decides_for_each_host() {
    // From the first host by way of another one back to it, as single sign-on does.
    let server = CookieServer::start(|told| {
        let to = |host: &str, path: &str, cookie: &str| {
            let port = told.port;
            let more = format!("Location: http://{host}:{port}{path}\r\nSet-Cookie: {cookie}\r\n");
            page(302, &more, "")
        };
        match (told.host.as_str(), told.path.as_str()) {
            ("127.0.0.1", "/start") => to("127.0.0.2", "/sso", "first=1; Path=/"),
            ("127.0.0.2", "/sso") => to("127.0.0.1", "/back", "sso=2; Path=/"),
            ("127.0.0.1", "/back") => page(200, "", "back"),
            _ => page(200, "", "home"),
        }
    });
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("out");
    let urls = [
        server.url("/start"),
        server.url("/").replace("127.0.0.1", "127.0.0.2"),
    ];
    assert_eq!(crawled(settings(dir.path(), 1), &out, &urls).await, 0);
    let cookie = |host: &str, path: &str| {
        let told = server.told();
        let found = told
            .iter()
            .find(|told| told.host == host && told.path == path);
        found.expect("asked").cookie.clone()
    };
    assert_eq!(cookie("127.0.0.1", "/start"), "");
    assert_eq!(
        cookie("127.0.0.2", "/sso"),
        "",
        "another host's is not sent"
    );
    assert_eq!(cookie("127.0.0.1", "/back"), "first=1");
}

#[actix_rt::test]
async fn a_cookie_of_a_refusal_is_sent_when_it_is_asked_again() {
    let server = CookieServer::start(|told| match told.cookies().as_slice() {
        [cookie] if cookie == "pass=1" => page(200, "", "welcome"),
        _ => page(503, "Set-Cookie: pass=1\r\n", "first a cookie"),
    });
    let dir = tempfile::tempdir().expect("a directory");
    let mut settings = settings(dir.path(), 1);
    settings.sites.insert(
        "web".to_owned(),
        SiteSettings {
            robots: Some(crawler_node::model::RobotsPolicy::Off),
            ..SiteSettings::default()
        },
    );
    let out = dir.path().join("out");
    assert_eq!(crawled(settings, &out, &[server.url("/")]).await, 0);
    assert_eq!(server.told().len(), 2);
}

#[test]
fn parallel_answers_all_set_their_cookies_and_a_later_run_sends_them() {
    let server = CookieServer::start(|told| match told.path.as_str() {
        "/" => {
            let links: String = (0..40).map(|n| format!("<a href=/n/{n}>")).collect();
            page(200, "", &links)
        }
        "/later" => page(200, "", "later"),
        path => {
            let n = path.rsplit('/').next().unwrap_or_default();
            page(200, &format!("Set-Cookie: n{n}={n}; Path=/\r\n"), "one")
        }
    });
    let dir = tempfile::tempdir().expect("a directory");
    let first = run(crawl(dir.path(), &[server.url("/")]).args(["--max-concurrency-num", "8"]));
    done(&first);
    let mut again = crawl(dir.path(), &[server.url("/later")]);
    done(&run(again.arg("--fresh")));
    let told = server.told();
    let later = told
        .iter()
        .find(|told| told.path == "/later")
        .expect("asked");
    let mut sent = later.cookies();
    sent.sort();
    let mut all: Vec<String> = (0..40).map(|n| format!("n{n}={n}")).collect();
    all.sort();
    assert_eq!(sent, all);
}

#[test]
fn a_session_outlives_a_kill_and_the_resumed_run_need_not_log_in_again() {
    // `/data` hangs until it has been killed once.
    let server = CookieServer::start(|told| match (told.path.as_str(), told.nth_of_path) {
        ("/data", 0) => page(200, "X-Hang: yes\r\n", ""),
        _ => login(told),
    });
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = crawl(dir.path(), &[server.url("/login")]);
    let mut child = command.spawn().expect("starts");
    server.wait_for(|told| told.path == "/data");
    child.kill().expect("killed");
    child.wait().expect("dead");
    done(&run(&mut crawl(dir.path(), &[server.url("/login")])));
    let told = server.told();
    let asked = |path: &str| told.iter().filter(|told| told.path == path).count();
    assert_eq!((asked("/login"), asked("/data")), (1, 2));
    assert!(statuses(&dir.path().join("out")).contains(&("/data".to_owned(), 200)));
}

fn definition(name: &str, base: &str) -> String {
    format!(
        "name = \"{name}\"\nbase_url = \"{base}\"\nrobots = \"off\"\n\
         [modes.crawl]\nurls = [\"{base}/{name}/login\"]\n"
    )
}

/// Site definitions of these names, all on one server.
fn sites(dir: &Path, names: &[&str], base: &str) {
    fs::create_dir_all(dir.join("sites")).expect("a directory");
    for name in names {
        let file = dir.join("sites").join(format!("{name}.toml"));
        fs::write(file, definition(name, base)).expect("a definition");
    }
}

#[test]
fn two_sites_on_one_host_do_not_see_each_others_cookies() {
    let server = CookieServer::start(|told| {
        let (site, page_name) = told.path[1..].split_once('/').unwrap_or_default();
        match page_name {
            "login" => {
                let more = format!("Set-Cookie: who={site}; Path=/\r\n");
                page(200, &more, &format!("<a href=/{site}/a><a href=/{site}/b>"))
            }
            _ => page(200, "", "data"),
        }
    });
    let dir = tempfile::tempdir().expect("a directory");
    sites(dir.path(), &["one", "two"], &server.url(""));
    done(&crawl_sites(dir.path(), "one,two"));
    let told = server.told();
    assert_eq!(told.len(), 6);
    for told in told {
        let site = told.path[1..]
            .split('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        match told.path.ends_with("login") {
            true => assert_eq!(told.cookie, ""),
            false => assert_eq!(told.cookie, format!("who={site}")),
        }
    }
}

fn sessions(dir: &Path, args: &[&str]) -> Ran {
    run(binary(dir).args(["sessions"]).args(args))
}

#[test]
fn an_imported_session_is_sent_with_full_values_and_without_what_is_not_the_sites_own() {
    let server = CookieServer::start(|told| match told.cookies().as_slice() {
        [token, other] if token == "token=\"x=y==\"" && other == "b=2" => page(
            200,
            "Set-Cookie: b=3; Path=/\r\n",
            if told.path == "/shop/login" {
                "<a href=/shop/next>"
            } else {
                ""
            },
        ),
        [_, other] if other == "b=3" => page(200, "", "renewed"),
        _ => page(403, "", "no"),
    });
    let dir = tempfile::tempdir().expect("a directory");
    sites(dir.path(), &["shop"], &server.url(""));
    let mut file = String::from("# Netscape HTTP Cookie File\n");
    file.push_str("#HttpOnly_127.0.0.1\tFALSE\t/\tFALSE\t0\ttoken\t\"x=y==\"\n");
    file.push_str("127.0.0.1\tFALSE\t/\tFALSE\t4000000000\tb\t2\n");
    file.push_str("127.0.0.1\tFALSE\t/\tFALSE\t1600000000\told\tx\n");
    for n in 0..40 {
        let value = "s3cret".repeat(85);
        file.push_str(&format!(
            ".other{}.com\tTRUE\t/\tFALSE\t0\tn{n}\t{value}\n",
            n % 2
        ));
    }
    fs::write(dir.path().join("cookies.txt"), file).expect("a file");
    let import = [
        "import",
        "--sites",
        "sites",
        "--site",
        "shop",
        "--file",
        "cookies.txt",
    ];
    let ran = sessions(dir.path(), &import);
    done(&ran);
    assert_eq!(
        ran.stdout,
        "shop/default: 2 cookies of 127.0.0.1 taken from cookies.txt (Netscape cookies.txt); 40 cookies of other \
         sites left out; 1 cookie that had ended left out\n"
    );
    done(&crawl_sites(dir.path(), "shop"));
    let told = server.told();
    assert_eq!(told[0].cookie, "token=\"x=y==\"; b=2");
    assert_eq!(
        told[1].cookie, "token=\"x=y==\"; b=3",
        "the server renewed it"
    );

    let again = sessions(dir.path(), &import);
    done(&again);
    assert!(
        again.stdout.ends_with("; 2 cookies that it had are gone\n"),
        "{}",
        again.stdout
    );
}

#[test]
fn cookies_are_listed_without_values_and_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let none = sessions(dir.path(), &["list"]);
    done(&none);
    assert_eq!(none.stdout, "no cookies are kept\n");
    assert!(!dir.path().join("state").exists());
    sites(dir.path(), &["shop"], "https://www.example.com");
    let json = r#"[{"name":"wide","value":"s3cret","domain":".example.com","expirationDate":4000000000,"secure":true}]"#;
    for (text, account, form) in [
        (json, "default", "JSON export"),
        ("Cookie: a=s3cret=; b=s3cret", "second", "Cookie header"),
    ] {
        let mut command = binary(dir.path());
        command.args([
            "sessions", "import", "--sites", "sites", "--site", "shop", "--file", "-",
        ]);
        command.args(["--account", account]);
        let ran = server::with_input(&mut command, text);
        done(&ran);
        assert!(ran.stdout.contains(form), "{}", ran.stdout);
    }
    let listed = sessions(dir.path(), &["list", "--site", "shop"]);
    done(&listed);
    for part in [
        "wide",
        "(6 bytes)",
        ".example.com",
        "second",
        "(7 bytes)",
        "subdomains too, https only",
        "with the session",
    ] {
        let part = part.trim_start_matches('.');
        assert!(listed.stdout.contains(part), "{part}: {}", listed.stdout);
    }
    assert!(!listed.stdout.contains("s3cret"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let file = fs::metadata(dir.path().join("state/state.db")).expect("the state");
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
    }
    let removed = sessions(
        dir.path(),
        &[
            "remove",
            "--sites",
            "sites",
            "--site",
            "shop",
            "--account",
            "second",
        ],
    );
    done(&removed);
    assert_eq!(removed.stdout, "shop/second: 2 cookies removed\n");
    let listed = sessions(dir.path(), &["list"]);
    assert!(listed.stdout.contains("wide") && !listed.stdout.contains("second"));
}

#[test]
fn an_import_that_is_wrong_says_where_and_what_is_allowed_and_changes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    sites(dir.path(), &["shop"], "https://www.example.com");
    let file = |text: &str| fs::write(dir.path().join("f"), text).expect("a file");
    let import = |more: &[&str]| {
        let mut args = vec!["import", "--sites", "sites", "--file", "f"];
        args.extend(more);
        let ran = sessions(dir.path(), &args);
        assert_eq!(ran.code, Some(2), "{}{}", ran.stdout, ran.stderr);
        assert!(!ran.stderr.contains("s3cret"), "{}", ran.stderr);
        ran.stderr
    };
    let shop = ["--site", "shop"];
    for (text, more, told) in [
        (
            "a=s3cret",
            &["--site", "shp"][..],
            "--site shp: there is no site of this name; nearest: shop; known: web",
        ),
        (
            "a=s3cret",
            &["--site", "web"],
            "--domain: site web has no base_url; name the domain",
        ),
        (
            "a=s3cret",
            &["--site", "shop", "--domain", "other.com"],
            "--domain other.com: not a domain of site shop; allowed: example.com and what lies below",
        ),
        (
            "a=s3cret",
            &["--site", "shop", "--domain", "a b"],
            "--domain a b: not the name of a host",
        ),
        (
            "a=s3cret",
            &["--site", "shop", "--account", "a/b"],
            "--account a/b: no name of an account; allowed:",
        ),
        (
            "hello",
            &shop,
            "f: it is none of the known forms; allowed: a Netscape cookies.txt",
        ),
        (
            "# Netscape HTTP Cookie File\nwww.example.com FALSE / TRUE 0 a s3cret",
            &shop,
            "f: line 2: its fields are parted by spaces; they must be parted by tabs",
        ),
        (
            "www.other.com\tFALSE\t/\tTRUE\t0\ta\ts3cret",
            &shop,
            "f: it holds no cookie of site shop (its domains: example.com); 1 cookie of other sites left out; nothing \
             was changed",
        ),
    ] {
        file(text);
        let stderr = import(more);
        assert!(stderr.contains(told), "{told}\n{stderr}");
    }
    fs::write(dir.path().join("f"), b"a=\xff").expect("a file");
    assert!(import(&shop).contains("f: it is not UTF-8 text"));
    fs::remove_file(dir.path().join("f")).expect("removed");
    assert!(import(&shop).contains("error: f: "));
    assert!(!dir.path().join("state").exists(), "nothing was changed");
}

#[test]
fn a_crawl_without_definition_takes_the_session_of_a_named_domain() {
    let server = CookieServer::start(|told| page(200, "", &told.cookie));
    let dir = tempfile::tempdir().expect("a directory");
    let text = r#"{"cookies": [{"name": "a", "value": "1", "domain": "127.0.0.1"}]}"#;
    let mut command = binary(dir.path());
    command.args([
        "sessions",
        "import",
        "--site",
        "web",
        "--domain",
        "127.0.0.1",
        "--file",
        "-",
    ]);
    done(&server::with_input(&mut command, text));
    done(&run(&mut crawl(dir.path(), &[server.url("/")])));
    let told = server.told();
    let asked = told.iter().find(|told| told.path == "/").expect("asked");
    assert_eq!(asked.cookie, "a=1");
}

#[test]
fn a_state_that_cannot_be_read_ends_the_site_and_says_how_to_go_on_without() {
    let server = CookieServer::start(|_| page(200, "", "data"));
    let dir = tempfile::tempdir().expect("a directory");
    fs::create_dir_all(dir.path().join("state")).expect("a directory");
    fs::write(
        dir.path().join("state/state.db"),
        "this is no database, by any means",
    )
    .expect("a file");
    let ran = run(&mut crawl(dir.path(), &[server.url("/")]));
    assert_ne!(ran.code, Some(0));
    for part in ["state.db", "sites.web.cookies = \"off\""] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    assert!(
        server.told().is_empty(),
        "nobody was asked without a session"
    );
    let mut without = crawl(dir.path(), &[server.url("/")]);
    done(&run(without.args(["--set", "sites.web.cookies=off"])));
}
