//! What can be seen of a node from outside: log lines, counters, progress.

pub mod logging;
mod metrics;

pub use metrics::{
    EndpointMetrics, Exchanged, Flight, Metrics, Progress, SiteMeter, SiteMetrics, SiteState,
};
