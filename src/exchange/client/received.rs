//! From what was received to an answer: decoding, under the permit where the body is small.

use std::time::Duration;

use bytes::Bytes;
use url::Url;

use super::super::decode::{self, STEP, Step};
use super::super::error::Fault;
use super::super::head::Head;
use crate::model::Answer;

/// A body up to this size, as received, is judged before its permit is given back: refusals are small, and to look
/// through so little costs microseconds. A larger one is judged by its status until it has been decoded.
pub(in crate::exchange) const JUDGED_BODY: usize = 32 * 1024;

/// Decoding yields to other tasks of the arbiter after this many steps (1 MiB).
const STEPS_AT_ONCE: usize = 1024 * 1024 / STEP;

/// An answer as it was received.
pub(in crate::exchange) struct Received {
    pub(in crate::exchange) head: Head,
    pub(in crate::exchange) body: Bytes,
    pub(in crate::exchange) head_time: Duration,
    pub(in crate::exchange) total_time: Duration,
}

impl Received {
    /// Begins to decode, and ends it too where the body is small.
    pub(super) fn open(self, url: &Url, max_body_bytes: u64) -> Result<Opened, Fault> {
        let small = self.body.len() <= JUDGED_BODY;
        let codings: Vec<_> = self.head.headers.all("content-encoding").collect();
        let mut step = match codings.is_empty() {
            true => Step::Done(self.body.clone()),
            false => decode::begin(self.body.clone(), &codings, max_body_bytes)?,
        };
        if small && let Step::More(decoding) = step {
            step = decoding.step()?;
        }
        let mut answer = self.into_answer(url.clone());
        Ok(match step {
            Step::Done(body) if small => {
                answer.body = body;
                Opened::Small(answer)
            }
            step => Opened::Large(answer, step),
        })
    }

    fn into_answer(self, url: Url) -> Answer {
        Answer {
            url,
            status: self.head.status,
            headers: self.head.headers,
            body: self.body,
            head_time: self.head_time,
            total_time: self.total_time,
        }
    }
}

/// An answer of which perhaps the body is still to be decoded.
pub(super) enum Opened {
    /// It is whole, and small enough to be judged under the permit.
    Small(Answer),
    /// The rest of its body is still to come.
    Large(Answer, Step),
}

pub(super) async fn decode_rest(mut step: Step) -> Result<Bytes, Fault> {
    let mut steps = 0;
    loop {
        match step {
            Step::Done(body) => return Ok(body),
            Step::More(decoding) => step = decoding.step()?,
        }
        steps += 1;
        if steps % STEPS_AT_ONCE == 0 {
            tokio::task::yield_now().await;
        }
    }
}
