//! The Store actor: one writer on a thread of its own, with group commit.
//!
//! Handlers only put a command aside with the place where its answer goes. actix drains the mailbox before it polls
//! the context's futures, so the one `Flush` that the first command asked for runs when no further command
//! is there: everything that arrived while the last commit was being synced shares the next.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use actix::dev::{MessageResponse, OneshotSender};
use actix::{
    Actor, ActorContext, Addr, ArbiterHandle, AsyncContext, Context, Handler, Message, Recipient,
};

use super::StoreError;
use super::messages::{
    Claim, Close, Exchange, Hold, Leased, Push, Pushed, ReleaseOwner, Stats, StoreStats,
};
use super::sqlite::JobStore;
use super::traits::{Frontier, Runs};
use crate::model::{StoredRecord, UnixMillis};

/// Most commands in one commit: a bound on memory and on how long the first of them waits.
const MOST_COMMANDS: usize = 512;

/// The records of one commit: new and updated ones, in the order in which they were stored.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct RecordsCommitted {
    /// The records.
    pub records: Arc<[StoredRecord]>,
}

/// The Store's actor panicked. What was answered is on disk; open the job again to go on.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct StoreGone;

/// The single writer of a job.
///
/// After a failed commit every command is answered with [`StoreError::Failed`], after [`Close`] with
/// [`StoreError::Closed`].
pub struct Store {
    /// `None` after the run was closed.
    job: Option<JobStore>,
    waiting: VecDeque<Waiting>,
    flush_asked: bool,
    subscribers: Vec<Recipient<RecordsCommitted>>,
    _guard: Guard,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("job", &self.job)
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}

/// Tells that the actor died in a panic.
struct Guard(Option<Recipient<StoreGone>>);

impl Drop for Guard {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(recipient) = &self.0
        {
            recipient.do_send(StoreGone);
        }
    }
}

/// Where an answer goes: the handler makes the place, actix puts the sender there right after.
type Place<T> = Rc<RefCell<Option<OneshotSender<T>>>>;

/// The response of a handler whose answer comes with the commit.
#[doc(hidden)]
pub struct Later<T>(Place<T>);

impl<A, M> MessageResponse<A, M> for Later<M::Result>
where
    A: Actor,
    M: Message,
    M::Result: Send,
{
    fn handle(self, _: &mut A::Context, sender: Option<OneshotSender<M::Result>>) {
        *self.0.borrow_mut() = sender;
    }
}

/// Send an answer; nobody may wait for it.
fn answer<T>(place: &Place<T>, value: T) {
    if let Some(sender) = place.borrow_mut().take() {
        let _ = sender.send(value);
    }
}

type Reply<T> = Place<Result<T, StoreError>>;

/// A command and where its answer goes.
enum Waiting {
    Push(Push, Reply<Pushed>),
    Exchange(Exchange, Reply<Leased>),
    Claim(Claim, Reply<bool>),
    Release(ReleaseOwner, Reply<u64>),
    Stats(Reply<StoreStats>),
    Hold(Hold),
    Close(Close, Reply<()>),
}

/// Tells one sender how the commit went that holds its command.
type Settle = Box<dyn FnOnce(Result<(), StoreError>)>;

/// The one flush that is under way.
#[derive(Message)]
#[rtype(result = "()")]
struct Flush;

impl Store {
    /// Start the actor for `job` on an arbiter, where nothing else should run: it blocks.
    ///
    /// `subscribers` get the records of each commit after it; `gone` is told when the actor panics.
    pub fn start_in(
        arbiter: &ArbiterHandle,
        mut job: JobStore,
        subscribers: Vec<Recipient<RecordsCommitted>>,
        gone: Option<Recipient<StoreGone>>,
    ) -> Addr<Self> {
        job.keep_committed(!subscribers.is_empty());
        Self::start_in_arbiter(arbiter, move |_| Self {
            job: Some(job),
            waiting: VecDeque::new(),
            flush_asked: false,
            subscribers,
            _guard: Guard(gone),
        })
    }

    fn put(&mut self, ctx: &mut Context<Self>, waiting: Waiting) {
        // Those before this one have their senders in place; this one not yet.
        if self.waiting.len() >= MOST_COMMANDS {
            self.flush(ctx);
        }
        self.waiting.push_back(waiting);
        if !self.flush_asked {
            self.flush_asked = true;
            ctx.notify(Flush);
        }
    }

    /// Do all that waits, commit, answer.
    fn flush(&mut self, ctx: &mut Context<Self>) {
        let now = UnixMillis::now();
        let mut settles: Vec<Settle> = Vec::with_capacity(self.waiting.len());
        while let Some(waiting) = self.waiting.pop_front() {
            let Some(job) = &mut self.job else {
                refuse(waiting, &StoreError::Closed);
                continue;
            };
            match waiting {
                Waiting::Push(push, reply) => settle(&mut settles, job.push(now, push), reply),
                Waiting::Exchange(exchange, reply) => {
                    settle(&mut settles, job.exchange(now, exchange), reply);
                }
                Waiting::Claim(claim, reply) => settle(&mut settles, job.claim(now, claim), reply),
                Waiting::Release(release, reply) => {
                    settle(&mut settles, job.release_owner(now, release), reply);
                }
                Waiting::Hold(hold) => job.hold(&hold),
                // A count that cannot be read spoils nothing that is written.
                Waiting::Stats(reply) => match job.stats() {
                    Ok(stats) => settle(&mut settles, Ok(stats), reply),
                    Err(error) => answer(&reply, Err(error)),
                },
                Waiting::Close(close, reply) => {
                    self.commit(now, settles.split_off(0));
                    let result = self.close(now, &close);
                    answer(&reply, result);
                    ctx.stop();
                }
            }
        }
        self.commit(now, settles);
    }

    /// Commit, then tell those who wait and those who listen.
    fn commit(&mut self, now: UnixMillis, settles: Vec<Settle>) {
        let Some(job) = &mut self.job else { return };
        let result = job.commit(now);
        let records = job.take_committed();
        for settle in settles {
            settle(result.clone());
        }
        if result.is_ok() && !records.is_empty() {
            let records: Arc<[StoredRecord]> = records.into();
            for subscriber in &self.subscribers {
                subscriber.do_send(RecordsCommitted {
                    records: records.clone(),
                });
            }
        }
    }

    /// Close the run, and let file and lock go before that is answered.
    fn close(&mut self, now: UnixMillis, close: &Close) -> Result<(), StoreError> {
        let mut job = self.job.take().ok_or(StoreError::Closed)?;
        job.close(now, &close.outcome, close.report.as_deref())
    }
}

/// Keep a result until the commit; an error has undone what came before it in the batch.
fn settle<T: 'static>(settles: &mut Vec<Settle>, result: Result<T, StoreError>, reply: Reply<T>) {
    match result {
        Ok(value) => settles.push(Box::new(move |commit| {
            answer(&reply, commit.map(|()| value))
        })),
        Err(error) => {
            for settle in settles.drain(..) {
                settle(Err(error.clone()));
            }
            answer(&reply, Err(error));
        }
    }
}

/// Answer a command with an error.
fn refuse(waiting: Waiting, error: &StoreError) {
    let error = error.clone();
    match waiting {
        Waiting::Push(_, reply) => answer(&reply, Err(error)),
        Waiting::Exchange(_, reply) => answer(&reply, Err(error)),
        Waiting::Claim(_, reply) => answer(&reply, Err(error)),
        Waiting::Release(_, reply) => answer(&reply, Err(error)),
        Waiting::Stats(reply) => answer(&reply, Err(error)),
        Waiting::Close(_, reply) => answer(&reply, Err(error)),
        Waiting::Hold(_) => {}
    }
}

impl Actor for Store {
    type Context = Context<Self>;
}

impl Handler<Flush> for Store {
    type Result = ();

    fn handle(&mut self, _: Flush, ctx: &mut Self::Context) {
        self.flush_asked = false;
        self.flush(ctx);
    }
}

impl Handler<Hold> for Store {
    type Result = ();

    /// Takes its turn: a lane may be known only by a push that waits before it.
    fn handle(&mut self, hold: Hold, ctx: &mut Self::Context) {
        self.put(ctx, Waiting::Hold(hold));
    }
}

macro_rules! commands {
    ($($message:ident => $waiting:expr),+ $(,)?) => {
        $(impl Handler<$message> for Store {
            type Result = Later<<$message as Message>::Result>;

            fn handle(&mut self, message: $message, ctx: &mut Self::Context) -> Self::Result {
                let place = Place::default();
                let waiting: fn($message, Place<<$message as Message>::Result>) -> Waiting = $waiting;
                self.put(ctx, waiting(message, place.clone()));
                Later(place)
            }
        })+
    };
}

commands! {
    Push => Waiting::Push,
    Exchange => Waiting::Exchange,
    Claim => Waiting::Claim,
    ReleaseOwner => Waiting::Release,
    Stats => |_, place| Waiting::Stats(place),
    Close => Waiting::Close,
}

#[cfg(test)]
mod tests;
