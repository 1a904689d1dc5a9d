//! `report`: the last run of a job.

use std::io::{self, Write};

use super::args::{Common, ReportArgs};
use super::failure::{Failure, printed};
use super::{load, table};
use crate::store::JobStore;
use crate::supervisor::Report;

/// Print the report of the job's last run that has ended.
pub(super) fn run(common: &Common, args: &ReportArgs) -> Result<u8, Failure> {
    let settings = load::settings(common, &[])?.settings;
    let dir = args.out.clone().unwrap_or(settings.out);
    let kept = JobStore::open_read(&dir)
        .and_then(|store| store.last_report())
        .map_err(|error| Failure::usage(error.to_string()))?;
    let Some(kept) = kept else {
        return Err(Failure::usage(format!(
            "{}: no run of this job has ended yet",
            dir.display()
        )));
    };
    let report: Report = serde_json::from_str(&kept).map_err(|error| {
        Failure::internal(format!(
            "{}: the stored report cannot be read: {error}",
            dir.display()
        ))
    })?;
    let mut out = io::stdout().lock();
    printed(if args.json {
        serde_json::to_string_pretty(&report)
            .map_err(io::Error::from)
            .and_then(|text| writeln!(out, "{text}"))
    } else {
        write!(out, "{}", table::text(&report))
    })
}
