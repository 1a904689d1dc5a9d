//! Exchanges whose body goes elsewhere than into memory.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use awc::http::header::{self, HeaderValue};
use bytes::{Bytes, BytesMut};
use tokio::time::Instant;

use super::body::{self, check_length};
use super::client::{Begun, Busy, Client, Exchanged, JUDGED_BODY, Received, Way, broken};
use super::content::Content;
use super::decode::Growth;
use super::error::Fault;
use super::head::Head;
use super::notes::Notes;
use super::permit::ExchangePermit;
use crate::governor::Hints;
use crate::model::{Answer, Outcome, Request};
use crate::settings::ExchangeSettings;

/// The beginning of an answer with a large body.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// The answer, with the first bytes of its body, decoded.
    pub answer: &'a Answer,
    /// Those bytes as they arrived.
    pub received: &'a [u8],
    /// The length of the body as it arrives, in bytes, where it was announced.
    pub length: Option<u64>,
}

/// Where the body of an answer goes that is not read into memory.
pub trait BodySink {
    /// Whether it takes the body that begins like this. One that is not taken is not read any further.
    ///
    /// # Errors
    /// Any fault ends the exchange.
    fn takes(&mut self, start: Start<'_>) -> Result<bool, Fault>;

    /// Takes the next bytes as they arrived, the first included. While it works nothing is read: it is what growth the memory.
    ///
    /// # Errors
    /// Any fault ends the exchange.
    fn write(&mut self, bytes: Bytes) -> impl Future<Output = Result<(), Fault>>;
}

/// What became of a body.
enum Fetched {
    /// It is small.
    Whole(Received),
    /// The sink has it; or, of one that nobody wanted, this is the beginning.
    Apart(Answer),
}

impl Client {
    /// Makes one exchange whose body, where it is large and `sink` takes it, goes there piece by piece: the memory
    /// needed does not depend on its size. It is asked for without a content coding. The clocks are those of every
    /// exchange; the time that the sink needs is not silence of the server.
    ///
    /// An answer with a body of up to 32 KiB is shown to `judge` whole and given back whole, as by
    /// [`exchange_judged`](Self::exchange_judged). Of a larger one `judge` sees the first bytes. What it refuses, and
    /// what the sink does not take, is given back with no more than those; what the sink took, with an empty body.
    pub async fn download<P: ExchangePermit>(
        &self,
        permit: P,
        request: &Request,
        fresh: bool,
        sink: &mut impl BodySink,
        mut judge: impl FnMut(&Answer) -> Option<(Outcome, Hints)>,
    ) -> Exchanged<P::Receipt> {
        let notes = Rc::new(Notes::default());
        let end = self.end_of(&permit);
        let mut refusal = None;
        let fetched = {
            let _busy = Busy::new(self.busy());
            let judge = |start: &Answer| {
                refusal = judge(start);
                refusal.is_none()
            };
            let way = Way::of(&permit, fresh);
            self.fetch_into(end, request, way, &notes, sink, judge)
                .await
        };
        let received = match fetched {
            Ok(Fetched::Apart(answer)) => {
                if let Some((outcome, said)) = refusal {
                    permit.refused(outcome, said);
                }
                return Exchanged {
                    result: Ok(answer),
                    receipt: permit.release(true),
                    surplus: notes.surplus.get(),
                };
            }
            Ok(Fetched::Whole(received)) => Ok(received),
            Err(fault) => Err(fault),
        };
        self.conclude(permit, request, &notes, received, judge)
            .await
    }

    async fn fetch_into(
        &self,
        end: Instant,
        request: &Request,
        way: Way<'_>,
        notes: &Rc<Notes>,
        sink: &mut impl BodySink,
        judge: impl FnOnce(&Answer) -> bool,
    ) -> Result<Fetched, Fault> {
        let mut builder = self.builder(request, way)?;
        // A part of a coded body could not be gone on with.
        let identity = HeaderValue::from_static("identity");
        builder
            .headers_mut()
            .insert(header::ACCEPT_ENCODING, identity);
        let begun = self.begin(end, request, builder, notes).await?;
        let Begun {
            head,
            head_time,
            sent,
            expected,
            mut response,
            mut clock,
        } = begun;
        let broken = broken(notes, expected);
        let idle = self.settings().idle_timeout;
        let mut start = BytesMut::new();
        while start.len() as u64 <= JUDGED_BODY {
            let idle_end = Instant::now() + idle;
            let next = body::next(&mut response, idle_end, &mut clock, &broken).await?;
            let Some(chunk) = next else {
                check_length(start.len() as u64, expected)?;
                let mut body = Content::behind(&head, Growth::of(self.settings()))?;
                body.add(start.freeze(), expected).await?;
                return Ok(Fetched::Whole(Received {
                    head,
                    body,
                    cut: None,
                    head_time,
                    total_time: sent.elapsed(),
                }));
            };
            start.extend_from_slice(&chunk);
        }
        let mut chunk = start.freeze();
        let mut answer = Answer {
            url: request.url.clone(),
            status: head.status,
            body: beginning(chunk.clone(), &head, self.settings()).await,
            headers: head.headers,
            notes: Vec::new(),
            head_time,
            total_time: sent.elapsed(),
        };
        let start = Start {
            answer: &answer,
            received: &chunk,
            length: expected,
        };
        if !judge(&answer) || !sink.takes(start)? {
            return Ok(Fetched::Apart(answer));
        }
        answer.body = Bytes::new();
        let mut received = 0;
        loop {
            received += chunk.len() as u64;
            let mut writing = pin!(sink.write(chunk));
            poll_fn(|cx| match writing.as_mut().poll(cx) {
                Poll::Ready(written) => Poll::Ready(written),
                Poll::Pending => clock.poll(None, Fault::TotalTimeout, cx).map(Err),
            })
            .await?;
            let idle_end = Instant::now() + idle;
            match body::next(&mut response, idle_end, &mut clock, &broken).await? {
                Some(next) => chunk = next,
                None => break,
            }
        }
        check_length(received, expected)?;
        answer.total_time = sent.elapsed();
        Ok(Fetched::Apart(answer))
    }
}

/// The first bytes of a body, decoded where it is coded in spite of what was asked for.
async fn beginning(received: Bytes, head: &Head, settings: &ExchangeSettings) -> Bytes {
    let growth = Growth {
        bytes: JUDGED_BODY,
        ..Growth::of(settings)
    };
    let Ok(mut content) = Content::behind(head, growth) else {
        return received;
    };
    // The bytes stop in the middle of the stream, and more than these are not wanted: neither is a fault.
    let _ = content.add(received, None).await;
    content.salvage().await;
    content.into_body().0
}
