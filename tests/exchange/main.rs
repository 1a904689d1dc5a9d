//! The exchange over real sockets, against a server that misbehaves on purpose.

mod bodies;
mod clocks;
mod framing;
mod permits;
mod proxy;
mod support;
mod tls;
