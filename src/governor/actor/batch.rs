//! One batch from the desk, and the answers to it.

use std::sync::{Arc, Weak};
use std::task::Waker;
use std::thread::ThreadId;
use std::time::Duration;

use actix::{Context, Handler};

use super::{RateGovernor, Work, log_release};
use crate::governor::counter::Counter;
use crate::governor::desk::{Entry, Verdict};
use crate::governor::ledger::{LaneId, Ledger, Msg};
use crate::governor::messages::{LaneKey, Ticket};

/// Room for one batch; kept, so that a batch allocates nothing.
pub(super) struct Batch {
    /// Where the governor runs.
    thread: ThreadId,
    entries: Vec<Entry>,
    /// What the requests of the batch ask for, in order; `None` for those taken back meanwhile.
    asks: Vec<Option<(LaneId, u8, Duration)>>,
    lanes: Memo,
    /// The counters by number, with the answers for those who wait at them.
    counters: Vec<Option<Outbox>>,
    wakers: Vec<Waker>,
}

struct Outbox {
    /// Not held: a counter that nobody comes to any more may be replaced by another of its number.
    counter: Weak<Counter>,
    verdicts: Vec<(Ticket, Verdict)>,
}

impl Batch {
    /// Room on the governor's own thread.
    pub(super) fn new() -> Self {
        Self {
            thread: std::thread::current().id(),
            entries: Vec::new(),
            asks: Vec::new(),
            lanes: Memo::default(),
            counters: Vec::new(),
            wakers: Vec::new(),
        }
    }

    /// From here on requests of the counter may be answered.
    fn know(&mut self, counter: &Arc<Counter>) {
        let number = counter.number();
        if self.counters.len() <= number {
            self.counters.resize_with(number + 1, || None);
        }
        let known = self.counters[number]
            .as_ref()
            .map(|known| known.counter.as_ptr());
        if known != Some(Arc::as_ptr(counter)) {
            self.counters[number] = Some(Outbox {
                counter: Arc::downgrade(counter),
                verdicts: Vec::new(),
            });
        }
    }

    /// A request at the counter of that number has an answer.
    pub(super) fn decide(&mut self, number: usize, ticket: Ticket, verdict: Verdict) {
        // Each request came from a counter that is known since.
        if let Some(Some(outbox)) = self.counters.get_mut(number) {
            outbox.verdicts.push((ticket, verdict));
        }
    }

    /// Gives the answers to those who wait for them.
    pub(super) fn deliver(&mut self) {
        for outbox in self.counters.iter_mut().flatten() {
            if !outbox.verdicts.is_empty()
                && let Some(counter) = outbox.counter.upgrade()
            {
                counter.answer(self.thread, &mut outbox.verdicts, &mut self.wakers);
            }
        }
    }
}

/// Keys met lately and their lanes, found by address: who asks often has its key at hand.
type Known = (Arc<LaneKey>, LaneId);

struct Memo {
    places: Box<[Option<Known>]>,
}

impl Default for Memo {
    fn default() -> Self {
        Self {
            places: vec![None; Self::PLACES].into(),
        }
    }
}

impl Memo {
    /// More keys than this are looked up by their text more often.
    const PLACES: usize = 1024;

    fn find(&mut self, key: &Arc<LaneKey>, ledger: &mut Ledger) -> LaneId {
        // A key is larger than 32 bytes: the bits below do not tell them apart.
        let place = &mut self.places[(Arc::as_ptr(key).addr() / 32) % Self::PLACES];
        match place {
            // The key is held, so that its address is not another's.
            Some((known, lane)) if Arc::ptr_eq(known, key) && ledger.is_there(*lane) => *lane,
            _ => {
                let lane = ledger.lane(key);
                *place = Some((key.clone(), lane));
                lane
            }
        }
    }
}

impl RateGovernor {
    /// Takes up what lies on the desk: all of it at one instant, with one note in the memory.
    pub(super) fn work(&mut self, counter: &Arc<Counter>, ctx: &mut Context<Self>) {
        self.batch.know(counter);
        let spare = std::mem::take(&mut self.batch.entries);
        let (ledger, asks) = (&mut self.ledger, &mut self.batch.asks);
        let lanes = &mut self.batch.lanes;
        asks.clear();
        let hand = counter.take_up(self.tenure, spare, |ask| {
            asks.push(ask.map(|ask| {
                let lane = lanes.find(&ask.lane, ledger);
                (lane, ask.priority, ask.patience)
            }));
        });
        if hand.batch.is_empty() {
            return;
        }
        let now = self.registry.now();
        let mut asks = asks.drain(..);
        for entry in &hand.batch {
            let msg = match entry {
                Entry::Acquire(ticket) => {
                    let Some((lane, priority, patience)) = asks.next().flatten() else {
                        continue;
                    };
                    Msg::Acquire {
                        ticket: *ticket,
                        lane,
                        priority,
                        patience,
                    }
                }
                Entry::Cancel(ticket) => Msg::Cancel { ticket: *ticket },
                Entry::Release { permit, used } => {
                    log_release(&self.registry, ledger, *permit, now);
                    Msg::Release {
                        permit: *permit,
                        used: *used,
                    }
                }
                Entry::Report(report) => Msg::Report {
                    permit: report.permit,
                    outcome: report.outcome,
                    hints: report.hints.as_deref().copied().unwrap_or_default(),
                },
            };
            ledger.handle(now, msg, &mut self.actions);
        }
        drop(asks);
        ledger.sweep();
        // Remembered before it is handed out: a permit is never out and unknown.
        ledger.save(&mut self.registry.carried());
        self.batch.entries = hand.settled();
        self.act(now, ctx);
    }
}

impl Handler<Work> for RateGovernor {
    type Result = ();

    fn handle(&mut self, Work(counter): Work, ctx: &mut Self::Context) {
        self.work(&counter, ctx);
    }
}
