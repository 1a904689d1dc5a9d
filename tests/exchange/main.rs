//! The exchange over real sockets, against a server that misbehaves on purpose.

mod bodies;
mod clocks;
mod downloads;
mod framing;
mod permits;
mod support;
mod tls;
