//! The exchange over real sockets, against a server that misbehaves on purpose.

mod bodies;
mod cases;
mod clocks;
mod curl;
mod early;
mod framing;
mod fuzz;
mod peers;
mod permits;
mod support;
mod table;
mod tls;
