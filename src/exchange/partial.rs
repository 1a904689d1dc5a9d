//! What was read of an answer that was cut short.

use std::fmt;
use std::sync::Arc;

use crate::model::Answer;

/// An answer as far as it came: its head, and of its body what arrived and could be decoded, at most `max_body_bytes`
/// of it. It is no page: it is there to be looked at, never to be taken for the whole.
///
/// Printed it shows its status and size only, since a body may hold secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Partial(Arc<Answer>);

impl Partial {
    pub(super) fn new(answer: Answer) -> Self {
        Self(Arc::new(answer))
    }

    /// What was read.
    #[must_use]
    pub fn answer(&self) -> &Answer {
        &self.0
    }
}

impl fmt::Debug for Partial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partial")
            .field("status", &self.0.status)
            .field("bytes", &self.0.body.len())
            .finish_non_exhaustive()
    }
}
