//! The built-in platforms over real sockets.

mod client;
mod definition;
mod faults;
mod limits;
mod walk;
mod wire;

use std::time::Duration;

use crawler_node::sim::{Answer, Content, Knobs, Latency, Request, Server, SimConfig, SiteSpec};

/// Tells what it was asked; classes by the first letter of the path.
struct Echo;

impl Content for Echo {
    fn classes(&self) -> &'static [&'static str] {
        &["a", "b"]
    }

    fn class_of(&self, target: &str) -> usize {
        usize::from(!target.starts_with("/a"))
    }

    fn answer(&self, request: &Request<'_>) -> Answer {
        let body = String::from_utf8_lossy(request.body);
        let text = format!("{} {} {body}", request.method, request.target);
        Answer::new(200, "text/plain", text)
    }
}

fn echo(knobs: Knobs) -> Server {
    let site = SiteSpec::new("echo", Echo).knobs(knobs);
    let log_limit = 1_000;
    let sites = vec![site];
    Server::start(SimConfig { sites, log_limit }).unwrap()
}

/// Longer than any test: what is held so ends when its client goes away.
fn held() -> Knobs {
    Knobs {
        latency: Latency::Fixed(Duration::from_secs(600)),
        ..Knobs::default()
    }
}
