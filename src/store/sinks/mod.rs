//! Where records go beside the store.

mod jsonl;

use super::StoreError;
use super::kill::Hook;
use crate::model::StoredRecord;

pub(crate) use jsonl::{JsonlSink, outputs_in, sync_dir};

/// A stream of record revisions, each written exactly once.
///
/// The store appends, flushes, and commits the offsets that the flush returned in the transaction that holds the
/// records. On open it hands the committed offsets back, and the sink cuts off what lies behind them.
pub(crate) trait Sink: Send {
    /// Take one revision. `fields` is the record's fields as a JSON object, rendered once for all sinks.
    fn append(&mut self, record: &StoredRecord, fields: &str);

    /// Write and sync what was taken; the files touched with their new lengths in bytes.
    ///
    /// # Errors
    /// When a file could not be written or synced. What it holds behind the committed offset is cut off at the next open.
    fn flush(&mut self, hook: &mut Hook) -> Result<Vec<(String, u64)>, StoreError>;
}
