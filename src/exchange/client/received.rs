//! From what was received to an answer: the rest of its decoding, under the permit where the body is small.

use std::time::Duration;

use bytes::Bytes;
use url::Url;

use super::super::content::Content;
use super::super::error::Fault;
use super::super::head::Head;
use super::super::partial::Partial;
use crate::model::Answer;

/// A body up to this size, as received, is judged before its permit is given back: refusals are small, and to look
/// through so little costs microseconds. A larger one is judged by its status until it has been decoded.
pub(in crate::exchange) const JUDGED_BODY: u64 = 32 * 1024;

/// An answer as it was received.
pub(in crate::exchange) struct Received {
    pub(in crate::exchange) head: Head,
    pub(in crate::exchange) body: Content,
    /// What ended the body before its end.
    pub(in crate::exchange) cut: Option<Fault>,
    pub(in crate::exchange) head_time: Duration,
    pub(in crate::exchange) total_time: Duration,
}

impl Received {
    /// Ends the decoding where the body is small.
    pub(super) fn open(mut self, url: &Url) -> Opened {
        let small = self.body.received() <= JUDGED_BODY;
        let ended = match self.cut.take() {
            Some(fault) => Err(fault),
            None => {
                self.body.end();
                match small {
                    true => self.body.a_little(),
                    false => Ok(false),
                }
            }
        };
        let answer = Answer {
            url: url.clone(),
            status: self.head.status,
            headers: self.head.headers,
            body: Bytes::new(),
            notes: Vec::new(),
            head_time: self.head_time,
            total_time: self.total_time,
        };
        match ended {
            Ok(true) => Opened::Small(with_body(answer, self.body)),
            Ok(false) => Opened::Large(answer, self.body),
            Err(fault) => Opened::Failed(answer, self.body, fault),
        }
    }
}

/// An answer of which perhaps the body is still to be decoded.
pub(super) enum Opened {
    /// It is whole, and small enough to be judged under the permit.
    Small(Answer),
    /// The rest of its body is still to be decoded.
    Large(Answer, Content),
    /// Its body is not whole.
    Failed(Answer, Content, Fault),
}

impl Opened {
    /// The whole answer; or why there is none, and what there is of it.
    pub(super) async fn finish(self) -> Result<Answer, (Fault, Option<Partial>)> {
        let (answer, mut body, fault) = match self {
            Self::Small(answer) => return Ok(answer),
            Self::Large(answer, mut body) => match body.rest().await {
                Ok(()) => return Ok(with_body(answer, body)),
                Err(fault) => (answer, body, fault),
            },
            Self::Failed(answer, body, fault) => (answer, body, fault),
        };
        let partial = match fault {
            Fault::Truncated { .. } | Fault::IdleTimeout | Fault::TotalTimeout => {
                body.salvage().await;
                Some(Partial::new(with_body(answer, body)))
            }
            _ => None,
        };
        Err((fault, partial))
    }
}

fn with_body(answer: Answer, body: Content) -> Answer {
    let (body, notes) = body.into_body();
    Answer {
        body,
        notes,
        ..answer
    }
}
