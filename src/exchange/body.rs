//! The clock of an exchange, and the reading of a body under it.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use tokio::time::{Instant, Sleep, sleep_until};

use super::content::Content;
use super::error::Fault;
use super::notes::Notes;
use super::pace::Pace;

/// One timer for all phases of an exchange: it is moved lazily, so that a phase that ends in time costs nothing.
#[derive(Debug)]
pub(super) struct Clock {
    sleep: Option<Pin<Box<Sleep>>>,
    /// When the whole exchange must be over.
    end: Instant,
    /// The least pace of the body, and where its bytes are counted.
    pace: Option<(Pace, Rc<Notes>)>,
}

impl Clock {
    pub(super) fn new(end: Instant) -> Self {
        Self {
            sleep: None,
            end,
            pace: None,
        }
    }

    /// From now on the body, counted in `notes`, must keep `pace`.
    pub(super) fn watch(&mut self, pace: Option<Pace>, notes: &Rc<Notes>) {
        self.pace = pace.map(|pace| (pace, Rc::clone(notes)));
    }

    /// Ready with a fault once `due` (of the present phase) or the end of the exchange has come, or the body is too slow.
    pub(super) fn poll(
        &mut self,
        due: Option<Instant>,
        fault: Fault,
        cx: &mut Context<'_>,
    ) -> Poll<Fault> {
        let look = |pace: &Option<(Pace, _)>| pace.as_ref().map(|(pace, _)| pace.due());
        let end = self.end;
        let first =
            |look: Option<Instant>| [due, look].into_iter().flatten().fold(end, Instant::min);
        let wake = first(look(&self.pace));
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(sleep_until(wake)));
        if sleep.deadline() > wake {
            sleep.as_mut().reset(wake);
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            let now = Instant::now();
            if now >= end {
                return Poll::Ready(Fault::TotalTimeout);
            }
            if due.is_some_and(|due| now >= due) {
                return Poll::Ready(fault);
            }
            if let Some((pace, notes)) = &mut self.pace
                && pace.is_too_slow(now, notes.body_bytes.get())
            {
                return Poll::Ready(Fault::TooSlow);
            }
            sleep.as_mut().reset(first(look(&self.pace)));
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

/// Reads a body to its end. `expected` is its length, where it was announced. What has come of it lies in `body`,
/// whatever goes wrong.
pub(super) async fn read<S, E>(
    mut stream: S,
    expected: Option<u64>,
    bounds: Bounds,
    clock: &mut Clock,
    broken: impl Fn(E) -> Fault,
    body: &mut Content,
) -> Result<(), Fault>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
{
    let too_large = Fault::BodyTooLarge { limit: bounds.max };
    if expected.is_some_and(|length| length > bounds.max) {
        return Err(too_large);
    }
    let mut idle_end = Instant::now() + bounds.idle;
    loop {
        let Some(chunk) = next(&mut stream, idle_end, clock, &broken).await? else {
            return check_length(body.received(), expected);
        };
        if body.received() + chunk.len() as u64 > bounds.max {
            return Err(too_large);
        }
        body.add(chunk, expected).await?;
        if expected == Some(body.received()) {
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

/// Whether a body of this length is whole. The wire has seen to it already; a body that is short is never passed on.
pub(super) fn check_length(received: u64, expected: Option<u64>) -> Result<(), Fault> {
    match expected {
        Some(length) if length != received => Err(Fault::Truncated { received, expected }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::super::decode::Growth;
    use super::super::head::{Framing, Head};
    use super::*;
    use crate::model::Headers;

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
        let mut body = plain();
        read(
            stream::iter(chunks),
            expected,
            BOUNDS,
            &mut clock(),
            |()| Fault::Cancelled,
            &mut body,
        )
        .await?;
        Ok(body.into_body().0)
    }

    /// A body without a length.
    async fn read_some<S>(stream: S, clock: &mut Clock) -> Result<(), Fault>
    where
        S: Stream<Item = Result<Bytes, ()>> + Unpin,
    {
        let mut body = plain();
        read(
            stream,
            None,
            BOUNDS,
            clock,
            |()| Fault::Cancelled,
            &mut body,
        )
        .await
    }

    fn plain() -> Content {
        let head = Head {
            status: 200,
            headers: Headers::default(),
            framing: Framing::UntilClose,
            persistent: false,
        };
        let growth = Growth {
            bytes: 10,
            expansion: 1000,
        };
        Content::behind(&head, growth).unwrap()
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
        let fault = read_some(silent, &mut clock()).await;
        assert_eq!(fault, Err(Fault::IdleTimeout));
        assert_eq!(start.elapsed().as_secs(), 5);

        let start = Instant::now();
        let drip = Box::pin(stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_secs(4)).await;
            Some((Ok::<_, ()>(Bytes::new()), ()))
        }));
        let fault = read_some(drip, &mut clock()).await;
        assert_eq!(fault, Err(Fault::TotalTimeout));
        assert_eq!(start.elapsed().as_secs(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn a_drip_below_the_least_pace_ends_with_its_window() {
        let mut settings = crate::settings::Settings::default().exchange;
        settings.min_bytes_per_second = Some(2);
        settings.min_rate_window = Duration::from_secs(10);
        // Two bytes a second for half a minute, then one.
        let start = Instant::now();
        let notes = Rc::new(Notes::default());
        let counting = Rc::clone(&notes);
        let drip = Box::pin(stream::unfold((), move |()| {
            let notes = Rc::clone(&counting);
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let count = if start.elapsed().as_secs() <= 30 {
                    2
                } else {
                    1
                };
                notes.count_body(count);
                Some((Ok::<_, ()>(Bytes::new()), ()))
            }
        }));
        let mut clock = clock();
        clock.watch(Pace::new(&settings, start), &notes);
        let fault = read_some(drip, &mut clock).await;
        assert_eq!(fault, Err(Fault::TooSlow));
        assert_eq!(start.elapsed().as_secs(), 40);
    }
}
