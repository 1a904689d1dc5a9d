//! The Supervisor: lifecycle of a node's actors, and the report of a run.

mod actor;
mod lane_report;
mod messages;
mod report;
mod restart;

pub use actor::{StartGovernor, Supervisor};
pub use messages::{CrashSite, JobId, StartJob, StopJob};
pub use report::{
    EndpointReport, RecordReport, Report, RunOutcome, SCHEMA_VERSION, SiteReport, TroubleReport,
};
