//! Faults that public reports tell of other crawlers, each as a test over real sockets and named after its report.

mod feeds;
mod gates;
mod permits;
mod refusals;
mod retries;
mod shares;
mod site;
mod state;
