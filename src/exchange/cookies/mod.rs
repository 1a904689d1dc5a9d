//! Cookies by RFC 6265 and its successor, draft-ietf-httpbis-rfc6265bis (called 6265bis here).
//!
//! The core is pure: octets and URLs in, values out, `now` as an argument. [`Session`] is the thin shell that an
//! exchange asks. What is kept is bounded, whatever a server sends.

mod date;
mod domain;
pub mod import;
mod jar;
mod parse;
#[cfg(test)]
mod properties;
mod session;

pub use domain::{domain_matches, registrable};
pub use jar::{Changes, Jar, MOST_OF_A_DOMAIN, MOST_OF_A_JAR};
pub use parse::{Refused, read};
pub use session::Session;
