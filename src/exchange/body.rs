//! The clock of an exchange, and the reading of a body under it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use tokio::time::{Instant, Sleep, sleep_until};

use super::error::Fault;

/// Room made for a body before its first byte has come, at most.
const PRESIZE: u64 = 1024 * 1024;

/// One timer for all phases of an exchange: it is moved lazily, so that a phase that ends in time costs nothing.
#[derive(Debug)]
pub(super) struct Clock {
    sleep: Option<Pin<Box<Sleep>>>,
    /// When the whole exchange must be over.
    end: Instant,
}

impl Clock {
    pub(super) fn new(end: Instant) -> Self {
        Self { sleep: None, end }
    }

    /// Ready with a fault once `due` (of the present phase) or the end of the exchange has come.
    pub(super) fn poll(
        &mut self,
        due: Option<Instant>,
        fault: Fault,
        cx: &mut Context<'_>,
    ) -> Poll<Fault> {
        let wake = due.map_or(self.end, |due| due.min(self.end));
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(sleep_until(wake)));
        if sleep.deadline() > wake {
            sleep.as_mut().reset(wake);
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            let now = Instant::now();
            if now >= self.end {
                return Poll::Ready(Fault::TotalTimeout);
            }
            if now >= wake {
                return Poll::Ready(fault);
            }
            sleep.as_mut().reset(wake);
        }
    }
}

/// Bounds of a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Bytes as received.
    pub(super) max: u64,
    /// Longest silence.
    pub(super) idle: Duration,
}

/// Reads a body to its end. `expected` is its length, where it was announced.
pub(super) async fn read<S, E>(
    mut stream: S,
    expected: Option<u64>,
    bounds: Bounds,
    clock: &mut Clock,
    broken: impl Fn(E) -> Fault,
) -> Result<Bytes, Fault>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
{
    let too_large = Fault::BodyTooLarge { limit: bounds.max };
    if expected.is_some_and(|length| length > bounds.max) {
        return Err(too_large);
    }
    let mut idle_end = Instant::now() + bounds.idle;
    let mut body = Collected::default();
    loop {
        let Some(chunk) = next(&mut stream, idle_end, clock, &broken).await? else {
            return body.finish(expected);
        };
        if body.received + chunk.len() as u64 > bounds.max {
            return Err(too_large);
        }
        body.add(chunk, expected);
        if expected == Some(body.received) {
            // The end is known; awc still has to be asked, so that it keeps the connection.
            continue;
        }
        idle_end = Instant::now() + bounds.idle;
    }
}

/// The next piece of a body, by `idle_end` at the latest; `None` at its end.
pub(super) async fn next<S, E>(
    stream: &mut S,
    idle_end: Instant,
    clock: &mut Clock,
    broken: impl Fn(E) -> Fault,
) -> Result<Option<Bytes>, Fault>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
{
    std::future::poll_fn(|cx| match Pin::new(&mut *stream).poll_next(cx) {
        Poll::Ready(item) => Poll::Ready(item.transpose().map_err(&broken)),
        Poll::Pending => clock.poll(Some(idle_end), Fault::IdleTimeout, cx).map(Err),
    })
    .await
}

/// A body in one piece; the first chunk is not copied unless a second follows.
#[derive(Default)]
struct Collected {
    first: Option<Bytes>,
    rest: BytesMut,
    received: u64,
}

impl Collected {
    fn add(&mut self, chunk: Bytes, expected: Option<u64>) {
        self.received += chunk.len() as u64;
        if self.first.is_none() && self.rest.is_empty() {
            self.first = Some(chunk);
            return;
        }
        if let Some(first) = self.first.take() {
            // What is announced and does not come costs nothing: a thousand slow servers may announce much.
            let believed = 16 * self.received;
            let room = expected.map_or(4 * self.received, |length| length.min(believed));
            let room = room.min(PRESIZE);
            self.rest
                .reserve(usize::try_from(room.max(self.received)).unwrap_or(0));
            self.rest.extend_from_slice(&first);
        }
        self.rest.extend_from_slice(&chunk);
    }

    fn finish(self, expected: Option<u64>) -> Result<Bytes, Fault> {
        // The wire has seen to it already; a body that is short is never passed on.
        if expected.is_some_and(|length| length != self.received) {
            return Err(Fault::Truncated {
                received: self.received,
                expected,
            });
        }
        Ok(self.first.unwrap_or_else(|| self.rest.freeze()))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    const BOUNDS: Bounds = Bounds {
        max: 10,
        idle: Duration::from_secs(5),
    };

    fn clock() -> Clock {
        Clock::new(Instant::now() + Duration::from_secs(60))
    }

    async fn read_all(chunks: &[&'static str], expected: Option<u64>) -> Result<Bytes, Fault> {
        let chunks: Vec<_> = chunks
            .iter()
            .map(|c| Ok::<_, ()>(Bytes::from(*c)))
            .collect();
        read(stream::iter(chunks), expected, BOUNDS, &mut clock(), |()| {
            Fault::Cancelled
        })
        .await
    }

    #[tokio::test]
    async fn bodies_of_every_number_of_chunks() {
        assert_eq!(read_all(&[], None).await.unwrap(), "");
        assert_eq!(read_all(&["abc"], Some(3)).await.unwrap(), "abc");
        assert_eq!(
            read_all(&["abc", "d", "efg"], None).await.unwrap(),
            "abcdefg"
        );
        assert_eq!(
            read_all(&["abc", "d", "efg"], Some(7)).await.unwrap(),
            "abcdefg"
        );
    }

    #[tokio::test]
    async fn limits_and_lengths() {
        let too_large = Err(Fault::BodyTooLarge { limit: 10 });
        assert_eq!(read_all(&[], Some(11)).await, too_large);
        assert_eq!(read_all(&["123456", "12345"], None).await, too_large);
        assert_eq!(read_all(&["123456", "1234"], None).await.unwrap().len(), 10);
        let short = Fault::Truncated {
            received: 3,
            expected: Some(4),
        };
        assert_eq!(read_all(&["abc"], Some(4)).await, Err(short));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_at_the_idle_clock_and_a_drip_at_the_total_clock() {
        let start = Instant::now();
        let silent = stream::pending::<Result<Bytes, ()>>();
        let fault = read(silent, None, BOUNDS, &mut clock(), |()| Fault::Cancelled).await;
        assert_eq!(fault, Err(Fault::IdleTimeout));
        assert_eq!(start.elapsed().as_secs(), 5);

        let start = Instant::now();
        let drip = Box::pin(stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_secs(4)).await;
            Some((Ok::<_, ()>(Bytes::new()), ()))
        }));
        let fault = read(drip, None, BOUNDS, &mut clock(), |()| Fault::Cancelled).await;
        assert_eq!(fault, Err(Fault::TotalTimeout));
        assert_eq!(start.elapsed().as_secs(), 60);
    }
}
