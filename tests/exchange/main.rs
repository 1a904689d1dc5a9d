//! The exchange over real sockets, against a server that misbehaves on purpose.

mod bodies;
mod charsets;
mod clocks;
mod codings;
mod downloads;
mod encoders;
mod framing;
mod permits;
mod support;
mod tls;
