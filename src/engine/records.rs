//! The stream of committed records for an embedding application, and the credit that bounds it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context as TaskContext, Poll};

use actix::prelude::*;
use futures_util::Stream;
use tokio::sync::mpsc;

use crate::model::StoredRecord;
use crate::platform::Credit;
use crate::store::RecordsCommitted;

/// Records a reader may be behind before no new work is taken.
const MOST_UNREAD: usize = 10_000;

/// Committed records, in the order of their commits. Ends when the jobs that feed it have ended.
#[derive(Debug)]
pub struct RecordStream {
    records: mpsc::UnboundedReceiver<StoredRecord>,
    unread: Arc<AtomicUsize>,
}

impl Stream for RecordStream {
    type Item = StoredRecord;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<StoredRecord>> {
        let polled = self.records.poll_recv(cx);
        if let Poll::Ready(Some(_)) = polled {
            self.unread.fetch_sub(1, Ordering::Relaxed);
        }
        polled
    }
}

impl Drop for RecordStream {
    fn drop(&mut self) {
        // A reader that is gone holds nobody back.
        self.records.close();
        self.unread.store(0, Ordering::Relaxed);
    }
}

/// The writing end of a [`RecordStream`].
#[derive(Clone, Debug)]
pub(super) struct Subscriber {
    records: mpsc::UnboundedSender<StoredRecord>,
    unread: Arc<AtomicUsize>,
}

pub(super) fn channel() -> (Subscriber, RecordStream) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let unread = Arc::new(AtomicUsize::new(0));
    (
        Subscriber {
            records: sender,
            unread: unread.clone(),
        },
        RecordStream {
            records: receiver,
            unread,
        },
    )
}

/// New work may always be taken.
pub(super) fn unbounded() -> Credit {
    Arc::new(|| true)
}

/// New work may be taken while no reader is too far behind.
pub(super) fn credit(subscribers: &[Subscriber]) -> Credit {
    let unread: Vec<(Arc<AtomicUsize>, mpsc::WeakUnboundedSender<StoredRecord>)> = subscribers
        .iter()
        .map(|subscriber| (subscriber.unread.clone(), subscriber.records.downgrade()))
        .collect();
    Arc::new(move || {
        unread.iter().all(|(unread, sender)| {
            unread.load(Ordering::Relaxed) < MOST_UNREAD
                || sender.upgrade().is_none_or(|sender| sender.is_closed())
        })
    })
}

/// Hands each committed record to every stream. One per job: it ends, and the streams with it, when the
/// job's store is gone.
pub(super) struct Fan {
    subscribers: Vec<Subscriber>,
}

impl Fan {
    pub(super) fn start_in(arbiter: &ArbiterHandle, subscribers: Vec<Subscriber>) -> Addr<Self> {
        Self::start_in_arbiter(arbiter, move |_| Self { subscribers })
    }
}

impl Actor for Fan {
    type Context = Context<Self>;
}

impl Handler<RecordsCommitted> for Fan {
    type Result = ();

    fn handle(&mut self, committed: RecordsCommitted, _: &mut Self::Context) {
        for subscriber in &self.subscribers {
            for record in committed.records.iter() {
                subscriber.unread.fetch_add(1, Ordering::Relaxed);
                if subscriber.records.send(record.clone()).is_err() {
                    break;
                }
            }
        }
    }
}
