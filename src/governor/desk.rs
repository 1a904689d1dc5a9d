//! A desk before the governor: what the askers of one thread hand in, and who waits for an answer.
//!
//! It lies outside the actor. All that is handed in while the governor is busy is its next batch: one
//! message, one look at the clock and one note in the registry serve them all, and a lone asker is served
//! at once. It outlives the governor: what is handed in while there is none waits for the next one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

use super::messages::{Hints, LaneKey, PermitId, Refused, Ticket};
use super::slab::{KEYS, Slab};
use crate::model::Outcome;

/// Set in the tickets that desks give out, and in no others.
const OF_DESK: u64 = 1 << 63;
/// Below it stands the number of the desk, then the key of the slot.
const NUMBER_SHIFT: u32 = KEYS.trailing_zeros();
/// Desks of one registry.
pub(crate) const DESKS: usize = 1 << (63 - NUMBER_SHIFT);

impl Ticket {
    /// The number of the desk that gave it out; `None` where none did.
    pub(crate) fn desk(self) -> Option<usize> {
        (self.0 & OF_DESK != 0).then_some(((self.0 & !OF_DESK) >> NUMBER_SHIFT) as usize)
    }

    fn of_slot(desk: u16, key: u64) -> Self {
        Self(OF_DESK | u64::from(desk) << NUMBER_SHIFT | key)
    }

    fn slot(self) -> u64 {
        self.0 & (KEYS - 1)
    }
}

/// What is handed in.
#[derive(Debug)]
pub(crate) enum Entry {
    /// A request; the desk knows what it asks for.
    Acquire(Ticket),
    Cancel(Ticket),
    Release {
        permit: PermitId,
        used: bool,
    },
    Report(Told),
}

/// What an answer was.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) permit: PermitId,
    pub(crate) outcome: Outcome,
    /// `None` where there are none: most answers say nothing of limits.
    pub(crate) hints: Option<Box<Hints>>,
}

/// What somebody asks for.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) lane: Arc<LaneKey>,
    pub(crate) priority: u8,
    pub(crate) patience: Duration,
}

/// The answer to it.
pub(crate) type Verdict = Result<(PermitId, Instant), Refused>;

#[derive(Debug)]
struct Slot {
    ask: Ask,
    /// Counts the requests, so that those who waited at a dead governor keep their order.
    arrival: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Waiting(Waker),
    Answered(Verdict),
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Desk {
    number: u16,
    slots: Slab<Slot>,
    arrivals: u64,
    /// What was handed in since the governor looked last.
    open: Vec<Entry>,
    /// Closed batches, in front of `open`: a message that must not be overtaken follows each of them.
    sealed: VecDeque<Vec<Entry>>,
    /// The governor has been called for `open`.
    called: bool,
    /// Answers that the postman has not brought yet.
    mail: Vec<(Ticket, Verdict)>,
    postman: Postman,
    /// Which governor sits here, if one does.
    tenure: Option<u64>,
    /// There will be no governor any more.
    closed: bool,
}

/// A task on the thread of those who ask. To wake many tasks from another thread costs much more than to
/// wake this one, which wakes them.
#[derive(Debug, Default)]
enum Postman {
    /// Not there yet, or there is none on this thread.
    #[default]
    Missing,
    Sleeping(Waker),
    /// Woken: it will look by itself.
    OnTheWay,
}

impl Desk {
    /// The desk of that number.
    pub(crate) fn new(number: u16) -> Self {
        Self {
            number,
            ..Self::default()
        }
    }

    /// Somebody asks for a permit. Then [`Desk::poll`] until there is an answer, or [`Desk::withdraw`].
    pub(crate) fn ask(&mut self, ask: Ask, waker: Waker) -> Result<Ticket, Refused> {
        if self.closed {
            return Err(Refused::Gone);
        }
        self.arrivals += 1;
        let arrival = self.arrivals;
        let state = State::Waiting(waker);
        let slot = self.slots.insert(Slot {
            ask,
            arrival,
            state,
        });
        let ticket = Ticket::of_slot(self.number, slot.ok_or(Refused::QueueFull)?);
        // The next governor asks the slots itself.
        if self.tenure.is_some() {
            self.open.push(Entry::Acquire(ticket));
        }
        Ok(ticket)
    }

    /// The answer to a request, taken out; without one `waker` is woken when it comes.
    pub(crate) fn poll(&mut self, ticket: Ticket, by: &Waker) -> Poll<(Arc<LaneKey>, Verdict)> {
        let key = ticket.slot();
        if let Some(slot) = self.slots.get_mut(key)
            && let State::Waiting(waker) = &mut slot.state
        {
            waker.clone_from(by);
            return Poll::Pending;
        }
        match self.slots.remove(key) {
            Some(Slot {
                ask,
                state: State::Answered(verdict),
                ..
            }) => Poll::Ready((ask.lane, verdict)),
            // Asked once more after the answer, which no caller does.
            _ => Poll::Pending,
        }
    }

    /// Nobody waits for the answer any more.
    pub(crate) fn withdraw(&mut self, ticket: Ticket) {
        let slot = self.slots.remove(ticket.slot());
        match slot.map(|slot| slot.state) {
            Some(State::Waiting(_)) if self.tenure.is_some() => {
                self.open.push(Entry::Cancel(ticket));
            }
            Some(State::Answered(Ok((permit, _)))) => self.unseen(permit),
            _ => {}
        }
    }

    /// A permit that nobody saw goes back as a dropped one does.
    fn unseen(&mut self, permit: PermitId) {
        self.open.push(Entry::Release { permit, used: true });
        self.open.push(Entry::Report(Told {
            permit,
            outcome: Outcome::Cancelled,
            hints: None,
        }));
    }

    pub(crate) fn hand_in(&mut self, entry: Entry) {
        self.open.push(entry);
    }

    /// Whether the governor is to be called now. Asked after something was handed in.
    pub(crate) fn calls(&mut self) -> bool {
        self.tenure.is_some() && !self.open.is_empty() && !std::mem::replace(&mut self.called, true)
    }

    /// What is handed in from here on does not overtake the message that is sent next.
    pub(crate) fn seal(&mut self) {
        if std::mem::take(&mut self.called) {
            self.sealed.push_back(std::mem::take(&mut self.open));
        }
    }

    /// The next batch, in the order it was handed in; empty for a governor that sits here no more. `batch` is
    /// an empty one to go on with. Each request that still waits is shown to `asks`.
    pub(crate) fn take_up(
        &mut self,
        tenure: u64,
        batch: Vec<Entry>,
        mut asks: impl FnMut(Option<&Ask>),
    ) -> Vec<Entry> {
        if self.tenure != Some(tenure) {
            return batch;
        }
        let taken = match self.sealed.pop_front() {
            Some(sealed) => sealed,
            None => {
                self.called = false;
                std::mem::replace(&mut self.open, batch)
            }
        };
        for entry in &taken {
            if let Entry::Acquire(ticket) = entry {
                // None: withdrawn meanwhile.
                let slot = self.slots.get(ticket.slot());
                asks(slot.map(|slot| &slot.ask));
            }
        }
        taken
    }

    /// A governor died with a batch in hand. What permits came back and what was reported is not lost; that
    /// it may have been counted already does no harm, for each counts once.
    pub(crate) fn put_back(&mut self, batch: Vec<Entry>) {
        self.sealed.push_front(batch);
    }

    /// The governor of `tenure` sits down. All who wait are asked for anew, in the order they came. Adds to
    /// `wakers` who has to be told.
    pub(crate) fn sit_down(&mut self, tenure: u64, wakers: &mut Vec<Waker>) {
        self.stand_up();
        self.deliver(wakers);
        let mut waiting: Vec<_> = self
            .slots
            .iter_mut()
            .filter(|(_, slot)| matches!(slot.state, State::Waiting(_)))
            .map(|(key, slot)| (slot.arrival, key))
            .collect();
        waiting.sort_unstable();
        let number = self.number;
        let asking = waiting
            .into_iter()
            .map(|(_, key)| Entry::Acquire(Ticket::of_slot(number, key)));
        self.open.extend(asking);
        self.tenure = Some(tenure);
    }

    /// The governor of `tenure` is gone.
    pub(crate) fn leave(&mut self, tenure: u64) {
        if self.tenure == Some(tenure) {
            self.stand_up();
        }
    }

    /// Keeps what permits are owed to the next governor, which asks the slots for the rest.
    fn stand_up(&mut self) {
        self.tenure = None;
        self.called = false;
        let mut all: Vec<_> = self.sealed.drain(..).flatten().collect();
        all.append(&mut self.open);
        all.retain(|entry| !matches!(entry, Entry::Acquire(_) | Entry::Cancel(_)));
        self.open = all;
    }

    /// Whether a postman brings the answers.
    pub(crate) fn has_postman(&self) -> bool {
        !matches!(self.postman, Postman::Missing)
    }

    /// Answers for the postman to bring.
    pub(crate) fn post(&mut self, verdicts: &mut Vec<(Ticket, Verdict)>, wakers: &mut Vec<Waker>) {
        self.mail.append(verdicts);
        self.wake_postman(wakers);
    }

    /// The postman is here, and sleeps when it has brought the mail.
    pub(crate) fn postman(&mut self, waker: Waker, wakers: &mut Vec<Waker>) {
        self.postman = Postman::Sleeping(waker);
        self.deliver(wakers);
    }

    /// The postman is to look.
    pub(crate) fn wake_postman(&mut self, wakers: &mut Vec<Waker>) {
        if let Postman::Sleeping(_) = self.postman
            && let Postman::Sleeping(waker) =
                std::mem::replace(&mut self.postman, Postman::OnTheWay)
        {
            wakers.push(waker);
        }
    }

    /// The postman comes no more.
    pub(crate) fn dismiss(&mut self, wakers: &mut Vec<Waker>) {
        self.postman = Postman::Missing;
        self.deliver(wakers);
    }

    fn deliver(&mut self, wakers: &mut Vec<Waker>) {
        let mut mail = std::mem::take(&mut self.mail);
        self.answer(mail.drain(..), wakers);
        self.mail = mail;
    }

    /// Gives answers to those who asked, and adds to `wakers` who has to be told. A permit that nobody waits
    /// for goes back.
    pub(crate) fn answer(
        &mut self,
        verdicts: impl Iterator<Item = (Ticket, Verdict)>,
        wakers: &mut Vec<Waker>,
    ) {
        for (ticket, verdict) in verdicts {
            match self.slots.get_mut(ticket.slot()) {
                Some(Slot { state, .. }) if matches!(state, State::Waiting(_)) => {
                    wakers.extend(state.answer(verdict));
                }
                _ => {
                    if let Ok((permit, _)) = verdict {
                        self.unseen(permit);
                    }
                }
            }
        }
    }

    /// There will be no governor any more. Returns who has to be told.
    pub(crate) fn close(&mut self, wakers: &mut Vec<Waker>) {
        self.closed = true;
        self.deliver(wakers);
        for (key, slot) in self.slots.iter_mut() {
            if matches!(slot.state, State::Waiting(_)) {
                wakers.extend(slot.state.answer(Err(Refused::Gone)));
                if self.tenure.is_some() {
                    let ticket = Ticket::of_slot(self.number, key);
                    self.open.push(Entry::Cancel(ticket));
                }
            }
        }
    }

    /// There is, or will be, a governor.
    pub(crate) fn reopen(&mut self) {
        self.closed = false;
    }

    /// Whether nobody waits and nothing lies here.
    pub(crate) fn is_empty(&self) -> bool {
        let batches = self.sealed.is_empty() && self.open.is_empty();
        batches && self.mail.is_empty() && self.slots.is_empty()
    }

    /// The permits that were given back and that the governor has not taken up.
    pub(crate) fn returned(&self) -> impl Iterator<Item = PermitId> + '_ {
        let entries = self.sealed.iter().flatten().chain(&self.open);
        entries.filter_map(|entry| match entry {
            Entry::Release { permit, .. } => Some(*permit),
            _ => None,
        })
    }
}

impl State {
    /// Who has to be told.
    fn answer(&mut self, verdict: Verdict) -> Option<Waker> {
        match std::mem::replace(self, Self::Answered(verdict)) {
            Self::Waiting(waker) => Some(waker),
            Self::Answered(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
