//! The HTTP cache (RFC 9111) of a client that asks again each time: what may be kept of an answer, with which validators it
//! is asked about, and what a 304 means. Pure; where it is kept is the caller's.
//!
//! Nothing is answered from the cache without asking. So freshness does not matter here, and a mistake costs a request,
//! never a page that is out of date.

mod control;
mod entry;
mod headers;

pub use control::freshness;
pub use entry::{CachedAnswer, cache_key, is_conditional};
