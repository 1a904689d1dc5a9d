//! Hosts that take their time cost the others nothing, and no more descriptors than their connections.

#![cfg(target_os = "linux")]

use std::process::{Command, Stdio};
use std::time::Duration;

use crawler_node::sim::{HtmlSite, Knobs, Latency, Server, SimConfig, SiteSpec, SlowHosts};

use crate::support::{DEADLINE, binary};

const HOSTS: u16 = 200;
const PAGES: u32 = 150;

fn crawl(dir: &std::path::Path, urls: &[String], cap: u32) -> Command {
    let mut command = binary(dir);
    command
        .args(["crawl", "--out", "data", "--urls"])
        .args(urls)
        .args(["--max_concurrency_num", &cap.to_string()])
        .args([
            "--set",
            "limits.max_concurrency_num=2",
            "--set",
            "limits.mode=fixed",
        ])
        // The slow ones are still there when the healthy one is done, however long that takes here.
        .args([
            "--set",
            "exchange.head_timeout=1h",
            "--set",
            "exchange.total_timeout=1h",
        ])
        .args(["--set", "exchange.idle_timeout=1h"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd"))
        .expect("a process")
        .count()
}

#[test]
fn a_healthy_host_is_crawled_to_its_end_beside_200_that_hang_and_drip() {
    let knobs = Knobs {
        latency: Latency::Fixed(Duration::from_millis(5)),
        ..Knobs::default()
    };
    let spec = SiteSpec::new("web", HtmlSite::new(1, PAGES)).knobs(knobs);
    let server = Server::start(SimConfig::one(spec)).expect("a server");
    let slow = SlowHosts::start(HOSTS).expect("slow hosts");
    let mut urls: Vec<String> = slow.urls().collect();
    urls.push(format!("{}/", server.base_url("web").expect("a site")));
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = crawl(dir.path(), &urls, u32::from(HOSTS) + 20)
        .spawn()
        .expect("the binary starts");
    let whole = HtmlSite::new(1, PAGES).expected().len() as u64;
    assert!(server.wait_for(DEADLINE, |counts| counts.requests() >= whole));
    let open = descriptors(child.id());
    let (now, peak) = (slow.open(), slow.peak());
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert_eq!(
        now,
        usize::from(HOSTS),
        "all slow hosts are being waited for"
    );
    assert_eq!(peak, usize::from(HOSTS), "each once");
    assert!(open < usize::from(HOSTS) + 100, "{open} descriptors");
}

#[test]
fn more_connections_than_the_soft_limit_of_descriptors_are_no_trouble() {
    let slow = SlowHosts::start(HOSTS).expect("slow hosts");
    let urls: Vec<String> = slow.urls().collect();
    let dir = tempfile::tempdir().expect("a directory");
    let crawl = crawl(dir.path(), &urls, u32::from(HOSTS));
    // A shell lowers the limit of what it becomes.
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "ulimit -S -n 100; exec \"$0\" \"$@\""])
        .arg(crawl.get_program())
        .args(crawl.get_args())
        .current_dir(dir.path())
        .env_clear()
        .env("CRAWLER__STATE", dir.path().join("state"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = shell.spawn().expect("a shell");
    let all = slow.wait_for(usize::from(HOSTS), DEADLINE);
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert!(all, "{} of {HOSTS} were open at once", slow.peak());
}
