//! Pages per second of `crawl`, durable, beside a straight loop without actors, on one core.
//!
//! One run: a loopback server on the second core serves 20 000 pages of 8 KB with ten links each; on the
//! first core runs, one after another, (1) awc alone, (2) a straight loop (awc, streaming link extraction,
//! a hash set, one SQLite commit per 200 pages) and (3) the `crawler-node` binary. Printed are pages/s,
//! CPU time per page, peak memory, and the ratios.
//!
//! `cargo bench --bench crawl [-- --pages 20000 --cap 64 --rounds 3]`

#![allow(
    missing_docs,
    clippy::print_stdout,
    reason = "a program that prints figures"
)]

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crawler_node::sim::{BenchSite, Server, SimConfig, SiteSpec};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::Pid;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let option = |name: &str, default: u64| {
        arguments
            .iter()
            .position(|argument| argument == name)
            .and_then(|at| arguments.get(at + 1))
            .map_or(default, |value| value.parse().expect("a number"))
    };
    let pages = option("--pages", 20_000);
    let cap = option("--cap", 64);
    let rounds = option("--rounds", 3);
    match arguments.iter().position(|a| a == "--role") {
        None => compare(pages, cap, rounds),
        Some(at) => {
            let address = arguments.get(at + 2).cloned().unwrap_or_default();
            match arguments[at + 1].as_str() {
                "server" => serve(pages),
                "bare" => actix_rt::System::new().block_on(bare(&address, pages, cap as usize)),
                "straight" => actix_rt::System::new().block_on(straight(&address, cap as usize)),
                other => panic!("no role {other}"),
            }
        }
    }
}

fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core).expect("a core");
    // On a machine of one core everything shares it, and the figures say so.
    let _ = sched_setaffinity(Pid::from_raw(0), &set);
}

/// One measured child process.
#[derive(Clone, Copy)]
struct Figure {
    pages_per_second: f64,
    cpu_ms_per_page: f64,
    peak_mib: f64,
}

fn cpu_of_children() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("getrusage");
    let time = |value: nix::sys::time::TimeVal| {
        Duration::new(
            value.tv_sec().try_into().expect("positive"),
            u32::try_from(value.tv_usec()).expect("positive") * 1000,
        )
    };
    time(usage.user_time()) + time(usage.system_time())
}

/// Runs a command on the first core under GNU-time-like measurement.
fn measure(pages: u64, mut command: Command) -> Figure {
    let before = cpu_of_children();
    let started = Instant::now();
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let peak = std::thread::spawn({
        let status = format!("/proc/{}/status", child.id());
        move || {
            let mut peak = 0u64;
            while let Ok(text) = std::fs::read_to_string(&status) {
                let now = text
                    .lines()
                    .find_map(|line| line.strip_prefix("VmHWM:"))
                    .and_then(|value| value.trim().trim_end_matches(" kB").parse().ok());
                match now {
                    Some(now) => peak = peak.max(now),
                    None => break,
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            peak
        }
    });
    let mut errors = String::new();
    child
        .stderr
        .take()
        .expect("piped")
        .read_to_string(&mut errors)
        .expect("text");
    let status = child.wait().expect("ended");
    let elapsed = started.elapsed();
    assert!(status.success(), "{status}: {errors}");
    let cpu = cpu_of_children() - before;
    Figure {
        pages_per_second: pages as f64 / elapsed.as_secs_f64(),
        cpu_ms_per_page: cpu.as_secs_f64() * 1e3 / pages as f64,
        peak_mib: peak.join().expect("joined") as f64 / 1024.0,
    }
}

fn compare(pages: u64, cap: u64, rounds: u64) {
    let me = std::env::current_exe().expect("own path");
    let mut server = Command::new(&me)
        .args(["--role", "server", "-", "--pages", &pages.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("server started");
    let mut address = String::new();
    BufReader::new(server.stdout.as_mut().expect("piped"))
        .read_line(&mut address)
        .expect("an address");
    let address = address.trim().to_owned();
    pin(0);
    println!(
        "{pages} pages of 8 KB with ten links, cap {cap}, crawler on one core, server on the other"
    );
    let mut best: [Option<Figure>; 3] = [None; 3];
    for _ in 0..rounds {
        let role = |role: &str| {
            let mut command = Command::new(&me);
            command.args([
                "--role",
                role,
                &address,
                "--pages",
                &pages.to_string(),
                "--cap",
                &cap.to_string(),
            ]);
            command
        };
        let out = tempfile::tempdir().expect("a directory");
        let figures = [
            measure(pages, role("bare")),
            measure(pages, role("straight")),
            measure(pages, ours(&address, cap, out.path())),
        ];
        let stored = std::fs::read(out.path().join("data/web.page.jsonl")).expect("records");
        assert_eq!(
            stored.iter().filter(|byte| **byte == b'\n').count() as u64,
            pages
        );
        for (best, figure) in best.iter_mut().zip(figures) {
            if best.is_none_or(|known| known.pages_per_second < figure.pages_per_second) {
                *best = Some(figure);
            }
        }
    }
    drop(server.stdin.take());
    server.wait().expect("server ended");
    let figures = best.map(|figure| figure.expect("at least one round"));
    for (name, figure) in ["awc alone", "straight loop", "crawler-node"]
        .iter()
        .zip(&figures)
    {
        println!(
            "{name:14} {:8.0} pages/s  {:.4} CPU ms/page  {:5.1} MiB",
            figure.pages_per_second, figure.cpu_ms_per_page, figure.peak_mib
        );
    }
    println!(
        "crawler-node / straight loop: {:.2} of its pages/s, {:.2} of its CPU (best of {rounds} rounds)",
        figures[2].pages_per_second / figures[1].pages_per_second,
        figures[2].cpu_ms_per_page / figures[1].cpu_ms_per_page
    );
}

fn ours(address: &str, cap: u64, out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crawler-node"));
    command
        .current_dir(out)
        .args([
            "crawl",
            "--mode",
            "crawl",
            "--urls",
            &format!("http://{address}/"),
        ])
        .args([
            "--max-concurrency-num",
            &cap.to_string(),
            "--out",
            "data",
            "--state",
            "state",
        ])
        .args([
            "--set",
            &format!("prefetch={}", cap * 2),
            "--log-level",
            "warning",
        ]);
    command
}

fn serve(pages: u64) {
    pin(1);
    let pages = u32::try_from(pages).expect("a number of pages");
    let site = SiteSpec::new("bench", BenchSite::new(pages, 8 * 1024, 10));
    let server = Server::start(SimConfig::one(site)).expect("server");
    println!("{}", server.addr());
    let mut rest = String::new();
    std::io::stdin().read_to_string(&mut rest).expect("stdin");
    server.stop();
}

fn client() -> awc::Client {
    awc::Client::builder()
        .connector(awc::Connector::new().limit(0))
        .disable_redirects()
        .finish()
}

fn path(n: u64) -> String {
    match n {
        0 => "/".to_owned(),
        n => format!("/p/{n}"),
    }
}

/// awc and nothing else: the bodies are read and dropped.
async fn bare(address: &str, pages: u64, cap: usize) {
    let client = client();
    let fetch = |n: u64| {
        let client = client.clone();
        let url = format!("http://{address}{}", path(n));
        async move {
            let mut answer = client
                .get(url)
                .no_decompress()
                .send()
                .await
                .expect("answer");
            assert!(answer.status().is_success());
            answer.body().await.expect("body");
        }
    };
    let mut flying: FuturesUnordered<_> = (0..cap as u64).map(fetch).collect();
    let mut next = cap as u64;
    while flying.next().await.is_some() {
        if next < pages {
            flying.push(fetch(next));
            next += 1;
        }
    }
}

/// What one would write by hand: no actors, no limits, no resume.
async fn straight(address: &str, cap: usize) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut db = rusqlite::Connection::open(dir.path().join("pages.db")).expect("a database");
    db.execute_batch(
        "pragma journal_mode=wal; pragma synchronous=full;
         create table page(url text primary key, status integer, title text) without rowid;",
    )
    .expect("a table");
    let client = Rc::new(client());
    let start = url::Url::parse(&format!("http://{address}/")).expect("a URL");
    let mut seen: HashSet<String> = HashSet::from([start.to_string()]);
    let mut queue = std::collections::VecDeque::from([start.clone()]);
    let mut flying = FuturesUnordered::new();
    let mut rows: Vec<(String, u16, String)> = Vec::new();
    loop {
        while flying.len() < cap
            && let Some(url) = queue.pop_front()
        {
            let client = client.clone();
            flying.push(async move {
                let mut answer = client
                    .get(url.as_str())
                    .no_decompress()
                    .send()
                    .await
                    .expect("answer");
                let body = answer.body().await.expect("body");
                (url, answer.status().as_u16(), body)
            });
        }
        let Some((url, status, body)) = flying.next().await else {
            break;
        };
        let (title, links) = links_of(&body);
        for link in links {
            if let Ok(mut link) = url.join(&link) {
                link.set_fragment(None);
                if link.authority() == start.authority() && !seen.contains(link.as_str()) {
                    seen.insert(link.to_string());
                    queue.push_back(link);
                }
            }
        }
        rows.push((url.to_string(), status, title));
        if rows.len() == 200 {
            commit(&mut db, &mut rows);
        }
    }
    commit(&mut db, &mut rows);
    eprintln!("{} pages", seen.len());
}

fn links_of(body: &[u8]) -> (String, Vec<String>) {
    use std::borrow::Cow;
    use std::cell::RefCell;

    use lol_html::html_content::{Element, TextChunk};
    use lol_html::{ElementContentHandlers, HtmlRewriter, Selector, Settings};

    thread_local! {
        static SELECTORS: (Selector, Selector) =
            ("a[href]".parse().expect("selector"), "title".parse().expect("selector"));
    }
    let links = RefCell::new(Vec::new());
    let title = RefCell::new(String::new());
    SELECTORS.with(|(a, t)| {
        let settings = Settings::new()
            .append_element_content_handler((
                Cow::Borrowed(a),
                ElementContentHandlers::default().element(|element: &mut Element<'_, '_>| {
                    links.borrow_mut().extend(element.get_attribute("href"));
                    Ok(())
                }),
            ))
            .append_element_content_handler((
                Cow::Borrowed(t),
                ElementContentHandlers::default().text(|text: &mut TextChunk<'_>| {
                    title.borrow_mut().push_str(text.as_str());
                    Ok(())
                }),
            ));
        let mut rewriter = HtmlRewriter::new(settings, |_: &[u8]| {});
        rewriter.write(body).expect("html");
        rewriter.end().expect("html");
    });
    (title.into_inner(), links.into_inner())
}

fn commit(db: &mut rusqlite::Connection, rows: &mut Vec<(String, u16, String)>) {
    let transaction = db.transaction().expect("transaction");
    {
        let mut insert = transaction
            .prepare_cached("insert or replace into page values (?1, ?2, ?3)")
            .expect("statement");
        for (url, status, title) in rows.drain(..) {
            insert.execute((url, status, title)).expect("row");
        }
    }
    transaction.commit().expect("commit");
}
