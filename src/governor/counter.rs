//! A desk with its lock, and the way from it to the governor and back.
//!
//! Each arbiter that asks has one of its own: between threads only whole batches go to and fro.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread::ThreadId;

use actix::{Addr, WeakAddr};

use super::actor::{RateGovernor, Work};
use super::desk::{Ask, Desk, Entry, Verdict};
use super::messages::Ticket;

/// See the [module](self).
pub(crate) struct Counter {
    number: u16,
    /// Whose it is; `None`: of all threads without an arbiter.
    thread: Option<ThreadId>,
    behind: Mutex<Behind>,
}

struct Behind {
    desk: Desk,
    governor: Option<WeakAddr<RateGovernor>>,
    /// There will be nothing to do any more.
    over: bool,
    /// Its arbiter has ended.
    left: bool,
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.number;
        f.debug_struct("Counter")
            .field("number", &number)
            .finish_non_exhaustive()
    }
}

impl Counter {
    pub(crate) fn new(number: u16, thread: Option<ThreadId>) -> Self {
        Self {
            number,
            thread,
            behind: Mutex::new(Behind {
                desk: Desk::new(number),
                governor: None,
                over: false,
                left: false,
            }),
        }
    }

    pub(crate) fn number(&self) -> usize {
        usize::from(self.number)
    }

    pub(crate) fn thread(&self) -> Option<ThreadId> {
        self.thread
    }

    /// Whether its arbiter has ended, nobody will come any more, and nothing lies there.
    pub(crate) fn is_left(self: &Arc<Self>) -> bool {
        let behind = self.behind();
        behind.left && behind.desk.is_empty() && Arc::strong_count(self) == 1
    }

    /// Says something at the desk, and calls the governor where it has to be.
    pub(crate) fn at_desk<T>(self: &Arc<Self>, say: impl FnOnce(&mut Desk) -> T) -> T {
        let mut behind = self.behind();
        let said = say(&mut behind.desk);
        let governor = match behind.desk.calls() {
            true => behind.governor.as_ref().and_then(WeakAddr::upgrade),
            false => None,
        };
        drop(behind);
        // A dying governor takes no calls; its successor looks at the desk by itself.
        if let Some(governor) = governor {
            governor.do_send(Work(self.clone()));
        }
        said
    }

    /// The same, and wakes those who have to be told.
    pub(crate) fn tell_at_desk(self: &Arc<Self>, say: impl FnOnce(&mut Desk, &mut Vec<Waker>)) {
        let mut wakers = Vec::new();
        self.at_desk(|desk| say(desk, &mut wakers));
        // Not under the lock: who is woken comes to the desk.
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The governor of `tenure`, at `governor`, is the one to be called.
    pub(crate) fn sit_down(self: &Arc<Self>, tenure: u64, governor: &Addr<RateGovernor>) {
        self.behind().governor = Some(governor.downgrade());
        self.tell_at_desk(|desk, wakers| desk.sit_down(tenure, wakers));
    }

    /// The next batch for the governor of `tenure`; see [`Desk::take_up`].
    pub(crate) fn take_up(
        self: &Arc<Self>,
        tenure: u64,
        spare: Vec<Entry>,
        asks: impl FnMut(Option<&Ask>),
    ) -> Hand {
        Hand {
            batch: self.behind().desk.take_up(tenure, spare, asks),
            counter: self.clone(),
        }
    }

    /// Gives the governor's answers to those who wait for them; `here` is its thread.
    pub(crate) fn answer(
        self: &Arc<Self>,
        here: ThreadId,
        verdicts: &mut Vec<(Ticket, Verdict)>,
        wakers: &mut Vec<Waker>,
    ) {
        // A lone one, and those of this thread, are told without a detour.
        let post = verdicts.len() > 1 && self.thread.is_some_and(|thread| thread != here);
        self.at_desk(|desk| match post && desk.has_postman() {
            true => desk.post(verdicts, wakers),
            false => desk.answer(verdicts.drain(..), wakers),
        });
        wakers.drain(..).for_each(Waker::wake);
    }

    /// Brings the mail to the tasks of this thread, until there will be none any more.
    pub(crate) async fn postman(self: Arc<Self>) {
        let round = Round(self);
        let mut wakers = Vec::new();
        poll_fn(|context| {
            let over = round.0.behind().over;
            if over {
                return Poll::Ready(());
            }
            round
                .0
                .at_desk(|desk| desk.postman(context.waker().clone(), &mut wakers));
            wakers.drain(..).for_each(Waker::wake);
            Poll::Pending
        })
        .await;
    }

    /// There will be nothing to do any more: the postman goes home.
    pub(crate) fn end(self: &Arc<Self>) {
        self.behind().over = true;
        self.tell_at_desk(Desk::wake_postman);
    }

    fn behind(&self) -> MutexGuard<'_, Behind> {
        // A holder that panicked left it whole: nothing in it is changed by halves.
        self.behind.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The postman; when it is dropped, with its arbiter, the rest is told directly.
struct Round(Arc<Counter>);

impl Drop for Round {
    fn drop(&mut self) {
        self.0.behind().left = true;
        self.0.tell_at_desk(Desk::dismiss);
    }
}

/// The batch that a governor has in hand. If it dies before the batch is [settled](Hand::settled), the
/// batch lies on the desk again.
pub(crate) struct Hand {
    counter: Arc<Counter>,
    pub(crate) batch: Vec<Entry>,
}

impl Hand {
    /// What came of the batch is in the memory. Returns the empty batch, to be used again.
    pub(crate) fn settled(mut self) -> Vec<Entry> {
        let mut batch = std::mem::take(&mut self.batch);
        batch.clear();
        batch
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        if !self.batch.is_empty() {
            let batch = std::mem::take(&mut self.batch);
            self.counter.behind().desk.put_back(batch);
        }
    }
}
