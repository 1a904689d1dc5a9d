use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Wake;

use proptest::prelude::*;

use super::*;

#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn ask(priority: u8) -> Ask {
    Ask {
        lane: Arc::new(LaneKey {
            site: "s".into(),
            host: None,
            endpoint: "e".into(),
        }),
        priority,
        patience: Duration::ZERO,
    }
}

fn wait(desk: &mut Desk, priority: u8) -> Ticket {
    let ticket = desk.ask(ask(priority), Waker::noop().clone());
    ticket.expect("open")
}

fn sit_down(desk: &mut Desk, tenure: u64) -> u64 {
    desk.sit_down(tenure, &mut Vec::new());
    tenure
}

/// The next batch, and the priorities of the requests in it.
fn batch(desk: &mut Desk, tenure: u64) -> (Vec<Entry>, Vec<Option<u8>>) {
    let mut asks = Vec::new();
    let batch = desk.take_up(tenure, Vec::new(), |ask| {
        asks.push(ask.map(|ask| ask.priority));
    });
    (batch, asks)
}

fn granted(permit: u64) -> Verdict {
    Ok((PermitId(permit), Instant::now()))
}

fn releases(batch: &[Entry]) -> Vec<u64> {
    let releases = batch.iter().filter_map(|entry| match entry {
        Entry::Release { permit, .. } => Some(permit.0),
        _ => None,
    });
    releases.collect()
}

#[test]
fn one_call_for_all_that_is_handed_in_before_it_is_answered() {
    let mut desk = Desk::default();
    let tenure = sit_down(&mut desk, 1);
    assert!(!desk.calls(), "nothing lies there");
    wait(&mut desk, 1);
    assert!(desk.calls());
    wait(&mut desk, 2);
    assert!(!desk.calls());
    assert_eq!(batch(&mut desk, tenure).1, [Some(1), Some(2)]);
    wait(&mut desk, 3);
    assert!(desk.calls());
}

#[test]
fn what_is_handed_in_later_does_not_overtake_a_message() {
    let mut desk = Desk::default();
    let tenure = sit_down(&mut desk, 1);
    desk.seal();
    wait(&mut desk, 1);
    assert!(desk.calls());
    desk.seal();
    wait(&mut desk, 2);
    assert!(desk.calls(), "once more, behind the message");
    assert_eq!(batch(&mut desk, tenure).1, [Some(1)]);
    assert_eq!(batch(&mut desk, tenure).1, [Some(2)]);
}

#[test]
fn a_request_taken_back_before_it_was_seen_asks_for_nothing() {
    let mut desk = Desk::default();
    let tenure = sit_down(&mut desk, 1);
    let ticket = wait(&mut desk, 1);
    desk.withdraw(ticket);
    let other = wait(&mut desk, 2);
    assert_ne!(ticket, other, "the place is used again, the name is not");
    assert_eq!(batch(&mut desk, tenure).1, [None, Some(2)]);
}

#[test]
fn without_a_governor_requests_come_and_go_and_leave_nothing() {
    let mut desk = Desk::default();
    for _ in 0..1000 {
        let ticket = wait(&mut desk, 0);
        desk.withdraw(ticket);
    }
    assert!(!desk.calls());
    assert!(desk.open.is_empty());
}

#[test]
fn the_next_governor_finds_all_who_wait_in_order_and_all_that_came_back() {
    let mut desk = Desk::default();
    let first = sit_down(&mut desk, 1);
    let tickets: Vec<_> = (0..5).map(|priority| wait(&mut desk, priority)).collect();
    desk.withdraw(tickets[1]);
    wait(&mut desk, 5);
    let (in_hand, _) = batch(&mut desk, first);
    let mut wakers = Vec::new();
    desk.answer([(tickets[3], granted(7))].into_iter(), &mut wakers);
    assert_eq!(wakers.len(), 1);
    let permit = PermitId(1);
    desk.hand_in(Entry::Release { permit, used: true });
    let (taken, _) = batch(&mut desk, first);
    desk.put_back(taken);
    drop(in_hand);
    desk.leave(first);
    assert!(!desk.calls(), "nobody is there");
    let permit = PermitId(2);
    desk.hand_in(Entry::Release { permit, used: true });
    assert_eq!(desk.returned().collect::<Vec<_>>(), [PermitId(1), permit]);

    let second = sit_down(&mut desk, 2);
    assert!(batch(&mut desk, first).0.is_empty(), "the first has left");
    desk.leave(first);
    let (all, asks) = batch(&mut desk, second);
    assert_eq!(releases(&all), [1, 2]);
    assert_eq!(asks, [Some(0), Some(2), Some(4), Some(5)]);
}

#[test]
fn an_answer_wakes_the_one_who_polled_last() {
    let mut desk = Desk::default();
    sit_down(&mut desk, 1);
    let (early, late) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
    let ticket = desk.ask(ask(0), early.clone().into()).expect("open");
    let last = Waker::from(late.clone());
    assert!(desk.poll(ticket, &last).is_pending());
    let mut wakers = Vec::new();
    desk.answer([(ticket, granted(1))].into_iter(), &mut wakers);
    wakers.drain(..).for_each(Waker::wake);
    assert_eq!(early.0.load(Ordering::Relaxed), 0);
    assert_eq!(late.0.load(Ordering::Relaxed), 1);
    assert!(matches!(desk.poll(ticket, &last), Poll::Ready((_, Ok(_)))));
}

#[test]
fn a_closed_desk_sends_all_away() {
    let mut desk = Desk::default();
    let tenure = sit_down(&mut desk, 1);
    let ticket = wait(&mut desk, 0);
    let mut wakers = Vec::new();
    desk.close(&mut wakers);
    assert_eq!(wakers.len(), 1);
    let polled = desk.poll(ticket, Waker::noop());
    assert!(matches!(polled, Poll::Ready((_, Err(Refused::Gone)))));
    let refused = desk.ask(ask(0), Waker::noop().clone());
    assert_eq!(refused, Err(Refused::Gone));
    // The governor may have seen the request already.
    let (all, _) = batch(&mut desk, tenure);
    assert!(matches!(all[..], [Entry::Acquire(_), Entry::Cancel(_)]));
    desk.reopen();
    assert!(desk.ask(ask(0), Waker::noop().clone()).is_ok());
}

/// One thing that can happen.
#[derive(Clone, Copy, Debug)]
enum Event {
    Ask,
    Poll(usize),
    Withdraw(usize),
    Return(usize),
    Message,
    Serve,
    DieWithBatch,
    Die,
    Start,
    Postman,
    Dismiss,
}

impl Event {
    /// Chosen by a number.
    fn of(number: u32) -> Self {
        let which = (number / 32) as usize;
        match number % 32 {
            0..6 => Self::Ask,
            6..11 => Self::Poll(which),
            11 | 12 => Self::Withdraw(which),
            13..18 => Self::Return(which),
            18 => Self::Message,
            19..24 => Self::Serve,
            24 => Self::DieWithBatch,
            25 => Self::Die,
            26 | 27 => Self::Start,
            28..31 => Self::Postman,
            _ => Self::Dismiss,
        }
    }
}

/// A desk with those around it. The governor grants two permits at once, first come first served, and
/// loses all it knows but the permits out when it dies.
#[derive(Default)]
struct Office {
    desk: Desk,
    tenure: Option<u64>,
    lives: u64,
    queue: VecDeque<Ticket>,
    out: BTreeSet<u64>,
    permits: u64,
    asking: Vec<Ticket>,
    held: Vec<u64>,
    /// How often each permit came back.
    back: BTreeMap<u64, u32>,
}

impl Office {
    fn serve(&mut self) {
        let Some(tenure) = self.tenure else {
            return;
        };
        let mut withdrawn = Vec::new();
        let all = self
            .desk
            .take_up(tenure, Vec::new(), |ask| withdrawn.push(ask.is_none()));
        let mut withdrawn = withdrawn.into_iter();
        for entry in all {
            match entry {
                Entry::Acquire(ticket) => {
                    if withdrawn.next() == Some(false) {
                        self.queue.push_back(ticket);
                    }
                }
                Entry::Cancel(ticket) => self.queue.retain(|other| *other != ticket),
                Entry::Release { permit, .. } => {
                    if self.out.remove(&permit.0) {
                        *self.back.entry(permit.0).or_default() += 1;
                    }
                }
                Entry::Report(_) => {}
            }
        }
        let mut verdicts = Vec::new();
        while self.out.len() < 2
            && let Some(ticket) = self.queue.pop_front()
        {
            self.permits += 1;
            self.out.insert(self.permits);
            verdicts.push((ticket, granted(self.permits)));
        }
        match self.desk.has_postman() {
            true => self.desk.post(&mut verdicts, &mut Vec::new()),
            false => self.desk.answer(verdicts.into_iter(), &mut Vec::new()),
        }
    }

    fn poll(&mut self, place: usize) {
        let ticket = self.asking[place];
        if let Poll::Ready((_, verdict)) = self.desk.poll(ticket, Waker::noop()) {
            self.asking.swap_remove(place);
            self.held.push(verdict.expect("only grants").0.0);
        }
    }

    fn give_back(&mut self, place: usize) {
        let permit = PermitId(self.held.swap_remove(place));
        self.desk.hand_in(Entry::Release { permit, used: true });
    }

    fn die(&mut self) {
        if let Some(tenure) = self.tenure.take() {
            self.desk.leave(tenure);
            self.queue.clear();
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Ask => {
                let ticket = wait(&mut self.desk, 0);
                assert!(!self.asking.contains(&ticket));
                self.asking.push(ticket);
            }
            Event::Poll(n) if !self.asking.is_empty() => self.poll(n % self.asking.len()),
            Event::Withdraw(n) if !self.asking.is_empty() => {
                let ticket = self.asking.swap_remove(n % self.asking.len());
                self.desk.withdraw(ticket);
            }
            Event::Return(n) if !self.held.is_empty() => self.give_back(n % self.held.len()),
            Event::Message => self.desk.seal(),
            Event::Serve => self.serve(),
            Event::DieWithBatch => {
                if let Some(tenure) = self.tenure {
                    let batch = self.desk.take_up(tenure, Vec::new(), |_| {});
                    self.desk.put_back(batch);
                    self.die();
                }
            }
            Event::Die => self.die(),
            Event::Start if self.tenure.is_none() => {
                self.lives += 1;
                self.tenure = Some(sit_down(&mut self.desk, self.lives));
            }
            Event::Postman => {
                let waker = Waker::noop().clone();
                self.desk.postman(waker, &mut Vec::new());
            }
            Event::Dismiss => self.desk.dismiss(&mut Vec::new()),
            _ => {}
        }
        self.desk.calls();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// Whatever happens, in the end all requests are answered, all permits came back once, and nothing is left.
    #[test]
    fn nothing_is_lost_at_the_desk(events in prop::collection::vec(any::<u32>(), 0..80)) {
        let mut office = Office::default();
        for event in events {
            office.happens(Event::of(event));
            prop_assert!(office.held.len() <= 2, "over the cap: {:?}", office.held);
        }
        office.happens(Event::Start);
        // Two are served at a time, and what comes back is counted the time after.
        for _ in 0..60 {
            office.happens(Event::Serve);
            office.happens(Event::Postman);
            for place in (0..office.asking.len()).rev() {
                office.poll(place);
            }
            while !office.held.is_empty() {
                office.give_back(0);
            }
        }
        prop_assert_eq!(&office.asking, &[]);
        prop_assert_eq!(&office.out, &BTreeSet::new());
        prop_assert_eq!(office.back.len() as u64, office.permits);
        prop_assert!(office.back.values().all(|times| *times == 1));
        prop_assert!(office.desk.is_empty());
    }
}
