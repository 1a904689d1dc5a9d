//! Everything between a permit and an answer: dialling, framing, clocks, limits, decoding; and the pure rules of
//! redirects and robots.txt.
//!
//! What arrives is what the server sent, or a named error: `docs/exchange.md` says what is guaranteed.

mod body;
pub mod cache;
mod chunks;
mod client;
mod content;
pub mod cookies;
mod decode;
mod dial;
mod download;
mod egress;
mod error;
mod head;
mod network;
mod notes;
mod pace;
mod partial;
mod permit;
mod phase;
mod range;
mod redirect;
mod robots;
mod wire;

pub use client::{Client, ClientError, Exchanged};
pub use decode::{Decoder, Growth, Step};
pub use dial::{Lookup, SystemLookup};
pub use download::{BodySink, Start};
pub use egress::{DIRECT, Egress, EgressCounts, Offer, Slot, Wanted};
pub use error::{Fault, FetchError, RetryClass};
pub use network::Network;
pub use partial::Partial;
pub use permit::{ExchangePermit, Timed};
pub use range::{ContentRange, ask_for_rest, validator};
pub use redirect::{Chain, ChainError, RedirectError, follow, resolve, target};
pub use robots::{
    HostRobots, MOST_ROBOTS_REDIRECTS, Robots, RobotsAnswer, RobotsRead, RobotsTimes, Standing,
    product_token, read_robots, robots_url,
};
