//! Built-in platforms: servers on loopback to crawl without a network, with limits that they do not tell.
//!
//! A [`Server`] runs on a thread of its own and shares no state with the engine: what it counts, it counts at its own
//! sockets. Demo, tests and benches use it; so may the tests of an application.
//!
//! A request passes a gate (hidden [`Limit`]s and the [`Ban`]), then the [`Fault`]s, then takes its [`Latency`], then is
//! answered. It is in flight from the moment its head was read until its last byte was written.
//!
//! The [`simulator`] runs the same limits in virtual time, with the governor against them.
//!
//! ```
//! use crawler_node::sim::{HtmlSite, Server, SimConfig, SiteSpec};
//!
//! let server = Server::start(SimConfig::one(SiteSpec::new("web", HtmlSite::new(1, 50))))?;
//! let url = server.base_url("web");
//! assert!(url.is_some_and(|url| url.starts_with("http://127.0.0.1:")));
//! assert_eq!(server.stop().requests(), 0);
//! # Ok::<(), std::io::Error>(())
//! ```

mod api;
mod bench;
mod book;
mod connection;
mod content;
mod counts;
mod dice;
mod gate;
mod http;
mod knobs;
mod limits;
mod media;
mod pages;
mod schedule;
mod server;
pub mod simulator;
mod slow;

pub use api::ApiSite;
pub use bench::BenchSite;
pub use content::{Answer, Content, Request};
pub use counts::{ClassCounts, Counts, LogEntry, SiteCounts};
pub use knobs::{
    EndpointKnobs, Fault, FaultKind, KnobError, Knobs, Latency, Pick, ROBOTS, Refusal, RetryAfter,
};
pub use limits::{Ban, Limit};
pub use media::MediaSite;
pub use pages::HtmlSite;
pub use schedule::{Step, When};
pub use server::{Server, SimConfig, SiteSpec};
pub use slow::SlowHosts;
