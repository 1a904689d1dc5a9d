//! The quota store on a thread of its own: a sync to disk never holds up the governor.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use actix::{Message, Recipient};

use super::messages::PermitId;
use super::quota_store::{LearnedLane, PastUse, QuotaStore, QuotaStoreError, Recorded, Use};
use crate::model::UnixMillis;

/// What the store is asked.
#[derive(Debug)]
pub(crate) enum Job {
    Load,
    LoadLearned,
    KeepLearned(Vec<LearnedLane>),
    Record(PermitId, Vec<Use>),
}

impl Job {
    /// The answer to it when the store cannot be asked.
    pub(crate) fn failure(&self) -> Box<dyn FnOnce(QuotaStoreError) -> StoreAnswer> {
        match self {
            Self::Load => Box::new(|error| StoreAnswer::Loaded(Err(error))),
            Self::LoadLearned => Box::new(|error| StoreAnswer::Learned(Err(error))),
            Self::KeepLearned(_) => Box::new(|error| StoreAnswer::Kept(Err(error), 1)),
            Self::Record(permit, _) => {
                let permit = *permit;
                Box::new(move |error| StoreAnswer::Recorded(permit, Err(error)))
            }
        }
    }
}

/// What it answers.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) enum StoreAnswer {
    Learned(Result<Vec<LearnedLane>, QuotaStoreError>),
    /// With the number of jobs that it answers.
    Kept(Result<(), QuotaStoreError>, usize),
    Loaded(Result<Vec<PastUse>, QuotaStoreError>),
    Recorded(PermitId, Result<Recorded, QuotaStoreError>),
}

/// The way to the store.
pub(crate) enum StoreLink {
    /// Not asked yet: a governor that has nothing to store starts no thread.
    Idle(Box<dyn QuotaStore>),
    /// Never blocks, so it is asked where we are.
    Inline(Box<dyn QuotaStore>),
    /// Asked through a thread, which ends when the sender is dropped.
    Thread(Sender<Job>),
    /// The system gave no thread.
    Failed(QuotaStoreError),
}

impl StoreLink {
    /// Asks the store. The answer comes at once, or later to `answers`.
    ///
    /// # Errors
    /// When there is no thread to ask.
    pub(crate) fn ask(
        &mut self,
        job: Job,
        answers: impl FnOnce() -> Recipient<StoreAnswer>,
    ) -> Result<Option<StoreAnswer>, QuotaStoreError> {
        if let Self::Idle(_) = self {
            let gone = QuotaStoreError("the quota store is being started".to_owned());
            if let Self::Idle(store) = std::mem::replace(self, Self::Failed(gone)) {
                *self = match store.blocks() {
                    false => Self::Inline(store),
                    true => start(store, answers()).map_or_else(
                        |error| Self::Failed(QuotaStoreError(format!("quota store: {error}"))),
                        Self::Thread,
                    ),
                };
            }
        }
        match self {
            Self::Idle(store) | Self::Inline(store) => Ok(Some(answer(store.as_mut(), job))),
            Self::Thread(sender) => match sender.send(job) {
                Ok(()) => Ok(None),
                Err(_) => Err(QuotaStoreError(
                    "the thread of the quota store has ended".to_owned(),
                )),
            },
            Self::Failed(error) => Err(error.clone()),
        }
    }
}

fn answer(store: &mut dyn QuotaStore, job: Job) -> StoreAnswer {
    let now = UnixMillis::now();
    match job {
        Job::Load => StoreAnswer::Loaded(store.load(now)),
        Job::LoadLearned => StoreAnswer::Learned(store.learned()),
        Job::KeepLearned(lanes) => StoreAnswer::Kept(store.keep_learned(&lanes), 1),
        Job::Record(permit, uses) => {
            let recorded = store.record(now, &[uses]);
            let first = recorded.and_then(|answers| {
                let none = || QuotaStoreError("the quota store gave no answer".to_owned());
                answers.into_iter().next().ok_or_else(none)
            });
            StoreAnswer::Recorded(permit, first)
        }
    }
}

fn start(store: Box<dyn QuotaStore>, answers: Recipient<StoreAnswer>) -> io::Result<Sender<Job>> {
    let (sender, jobs) = mpsc::channel();
    thread::Builder::new()
        .name("quota-store".to_owned())
        .spawn(move || run(store, &jobs, &answers))?;
    Ok(sender)
}

fn run(mut store: Box<dyn QuotaStore>, jobs: &Receiver<Job>, answers: &Recipient<StoreAnswer>) {
    while let Ok(first) = jobs.recv() {
        // All that waits shares one commit.
        let mut permits = Vec::new();
        let mut uses = Vec::new();
        let (mut learned, mut keeps) = (Vec::new(), 0);
        for job in std::iter::once(first).chain(jobs.try_iter()) {
            match job {
                job @ (Job::Load | Job::LoadLearned) => {
                    answers.do_send(answer(store.as_mut(), job));
                }
                Job::KeepLearned(lanes) => {
                    // Later words on a lane come later, and replace what was said before.
                    learned.extend(lanes);
                    keeps += 1;
                }
                Job::Record(permit, used) => {
                    permits.push(permit);
                    uses.push(used);
                }
            }
        }
        if keeps > 0 {
            answers.do_send(StoreAnswer::Kept(store.keep_learned(&learned), keeps));
        }
        if permits.is_empty() {
            continue;
        }
        match store.record(UnixMillis::now(), &uses) {
            Ok(recorded) => {
                for (permit, recorded) in permits.into_iter().zip(recorded) {
                    answers.do_send(StoreAnswer::Recorded(permit, Ok(recorded)));
                }
            }
            Err(error) => {
                for permit in permits {
                    answers.do_send(StoreAnswer::Recorded(permit, Err(error.clone())));
                }
            }
        }
    }
}
