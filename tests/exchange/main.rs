//! The exchange over real sockets, against a server that misbehaves on purpose.

mod bodies;
mod cases;
mod charsets;
mod clocks;
mod codings;
mod cookies;
mod curl;
mod downloads;
mod early;
mod encoders;
mod framing;
mod fuzz;
mod peers;
mod permits;
mod proxy;
mod support;
mod table;
mod tls;
