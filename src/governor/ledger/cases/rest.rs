//! What is dropped, what is not, and what comes back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::{Case, adaptive, config, limits};
use crate::governor::ledger::rest::Rules;
use crate::governor::ledger::{Carried, Group, Known, Lane, Learned, Ledger, LedgerConfig, Msg};
use crate::governor::messages::{Hints, LaneKey, PermitId, Refused, Target, Ticket};
use crate::model::{Outcome, Timestamp};
use crate::settings::LimitSettings;

fn host(number: usize) -> Arc<LaneKey> {
    Arc::new(LaneKey {
        site: "s".into(),
        host: Some(format!("host-{number}.test:443").into()),
        endpoint: "page".into(),
    })
}

/// One that drops what rests for ten minutes, however few groups there are.
fn forgetful(limits: LimitSettings) -> Case {
    let mut case = Case::of(config(100, limits));
    case.ledger.rules = Rules {
        room: 0,
        ..Rules::new(1.0)
    };
    case
}

impl Case {
    /// One request in the lane of a key, answered.
    fn visit(
        &mut self,
        key: &Arc<LaneKey>,
        outcome: Outcome,
        retry_after: Option<u64>,
    ) -> PermitId {
        let lane = self.ledger.lane(key);
        let ticket = self.ask_in(lane, 0, Duration::MAX);
        let permit = self.of_ticket(ticket).expect("granted at once");
        self.end(permit, outcome, retry_after);
        permit
    }

    fn sweep_after(&mut self, seconds: f64) -> usize {
        self.wait(seconds);
        self.ledger.sweep_all();
        self.ledger.sweep_all();
        self.ledger.lanes_in_memory()
    }
}

#[test]
fn what_rests_for_ten_minutes_is_dropped() {
    let mut case = forgetful(adaptive());
    case.visit(&host(1), Outcome::Ok, None);
    assert_eq!(case.sweep_after(599.0), 2);
    let id = case.lane;
    assert_eq!(case.sweep_after(1.0), 0);
    assert!(!case.ledger.is_there(id));
    // Whoever kept its number is told so, and gets no permit of another lane.
    case.visit(&host(2), Outcome::Ok, None);
    let ticket = case.ask_in(id, 0, Duration::MAX);
    assert_eq!(case.refused, [(ticket, Refused::Cancelled)]);
}

#[test]
fn a_few_groups_stay_however_long_they_rest() {
    let mut case = Case::of(config(100, adaptive()));
    for number in 0..200 {
        case.visit(&host(number), Outcome::Ok, None);
    }
    assert_eq!(case.sweep_after(86_400.0), 201);
}

#[test]
fn who_is_at_work_is_not_dropped() {
    let mut case = forgetful(limits(Some(1), None, 1, &[]));
    let permit = case.permit();
    let waiting = case.ask();
    assert_eq!(
        case.sweep_after(60.0),
        1,
        "a permit is out, another awaited"
    );
    case.release(permit);
    let permit = case.of_ticket(waiting).expect("its turn");
    case.ledger.config.report_timeout = Duration::from_secs(3600);
    case.release(permit);
    assert_eq!(case.sweep_after(700.0), 1, "a report is awaited");
}

#[test]
fn a_bound_in_the_future_is_not_dropped() {
    let day = Duration::from_secs(86_400);
    let cases = [
        (adaptive(), Some(7200), "a named time"),
        (limits(None, Some("1/h"), 2, &[]), None, "a pace"),
        (limits(None, None, 1, &["5/d"]), None, "a quota"),
    ];
    for (limits, retry_after, what) in cases {
        let mut case = forgetful(limits);
        let outcome = match retry_after {
            Some(_) => Outcome::Limited,
            None => Outcome::Ok,
        };
        let permit = case.permit();
        case.end(permit, outcome, retry_after);
        assert_eq!(case.sweep_after(3500.0), 1, "{what}");
        assert_eq!(case.sweep_after(day.as_secs_f64()), 0, "{what} is over");
    }
}

#[test]
fn a_pause_by_a_person_holds_for_a_lane_that_comes_back() {
    let mut case = forgetful(adaptive());
    case.visit(&host(1), Outcome::Ok, None);
    case.say(Msg::Pause {
        target: Target::Site("s".into()),
        length: None,
    });
    assert_eq!(case.sweep_after(700.0), 0);
    let lane = case.ledger.lane(&host(1));
    let ticket = case.ask_in(lane, 0, Duration::ZERO);
    assert_eq!(case.refused, [(ticket, Refused::Paused)]);
}

#[test]
fn what_a_lane_has_learned_comes_back_with_it() {
    let mut case = forgetful(adaptive());
    for _ in 0..40 {
        case.visit(&host(1), Outcome::Ok, None);
        case.wait(1.0);
    }
    case.visit(&host(1), Outcome::Limited, None);
    case.wait(5.0);
    case.visit(&host(1), Outcome::Ok, None);
    let learned = |case: &mut Case| {
        let lane = case.ledger.lane(&host(1));
        let learner = case.ledger.learner(lane.place);
        learner.learned().expect("adaptive")
    };
    let before = learned(&mut case);
    assert!(before.met);
    assert_eq!(case.sweep_after(700.0), 0);
    assert_eq!(learned(&mut case), before);
}

#[test]
fn counts_of_dropped_lanes_stay_in_the_snapshot_and_across_a_restart() {
    let mut case = forgetful(adaptive());
    case.ledger.track();
    let mut carried = Carried::default();
    for number in 0..10 {
        case.visit(&host(number), Outcome::Ok, None);
        case.wait(1.0);
        case.visit(&host((number + 5) % 10), Outcome::Gone, None);
        case.wait(1.0);
    }
    case.sweep_after(700.0);
    case.visit(&host(3), Outcome::Ok, None);
    case.ledger.save(&mut carried);
    let again = Ledger::restore(LedgerConfig::default(), 1, case.now, &carried);
    for ledger in [&case.ledger, &again] {
        let snapshot = ledger.snapshot(case.now);
        assert_eq!((snapshot.granted, snapshot.lanes.len()), (21, 1));
        assert_eq!(snapshot.lanes[0].granted, 1);
        let [_, dropped] = &snapshot.dropped[..] else {
            panic!("{:?}", snapshot.dropped);
        };
        assert_eq!((dropped.granted, dropped.lanes), (20, 10), "{dropped:?}");
        assert_eq!(dropped.outcomes[&Outcome::Ok], 10);
        assert_eq!(dropped.outcomes[&Outcome::Gone], 10);
    }
}

/// What is stored for the next run is what changed, not all there is.
#[test]
fn news_are_of_the_lanes_that_changed() {
    let mut case = Case::of(LedgerConfig {
        store_uses: true,
        ..config(100, adaptive())
    });
    case.say(Msg::LearnedLoaded(Vec::new()));
    for number in 0..50 {
        case.visit(&host(number), Outcome::Limited, Some(60));
        let named = case.ledger.take_news(true);
        assert_eq!(named.len(), 1, "{named:?}");
        assert_eq!(named[0].0, host(number).to_string());
        assert!(named[0].1.wait >= Some(Duration::from_secs(60)));
    }
    assert_eq!(case.ledger.take_news(true), []);
    assert_eq!(case.ledger.take_news(false).len(), 50);
    assert_eq!(case.ledger.take_news(false), []);
    case.ledger.renew_news();
    assert_eq!(case.ledger.take_news(false).len(), 50);
}

#[test]
fn a_lane_that_is_dropped_tells_its_news_before() {
    let mut case = Case::of(LedgerConfig {
        store_uses: true,
        ..config(100, adaptive())
    });
    case.ledger.rules.room = 0;
    case.say(Msg::LearnedLoaded(Vec::new()));
    case.visit(&host(1), Outcome::Limited, None);
    assert_eq!(case.sweep_after(700.0), 0);
    let news = case.ledger.take_news(false);
    assert_eq!(news.len(), 1);
    assert!(news[0].1.learned.is_some_and(|learned| learned.met));
}

/// The time counts from when it was read, not from when the lane is met.
#[test]
fn a_named_time_of_an_earlier_run_ends_when_it_was_to_end() {
    let mut case = Case::of(LedgerConfig {
        store_uses: true,
        ..config(100, adaptive())
    });
    let learned = Learned {
        rate: 3.0,
        cap: None,
        latency: 0.1,
        horizon: 0.0,
        met: true,
    };
    let known = |wait| Known {
        learned: Some(learned),
        wait,
    };
    let mut all: Vec<_> = (0..20_000)
        .map(|number| (host(number).to_string(), known(None)))
        .collect();
    let minute = Duration::from_secs(60);
    all.extend((20_000..20_010).map(|number| (host(number).to_string(), known(Some(minute)))));
    case.say(Msg::LearnedLoaded(all));
    let kept = case.ledger.known.len();
    assert!(
        kept <= 16_384 + 10,
        "{kept} lanes of earlier runs in memory"
    );
    case.wait(50.0);
    let lane = case.ledger.lane(&host(20_005));
    let ticket = case.ask_in(lane, 0, Duration::MAX);
    case.wait(9.0);
    assert_eq!(case.of_ticket(ticket), None);
    case.wait(1.0);
    assert!(case.of_ticket(ticket).is_some());
    let lane = case.ledger.lane(&host(7));
    let learned = case.ledger.learner(lane.place).learned();
    assert!(learned.is_some_and(|learned| learned.rate > 2.9 && learned.met));
}

/// A million hosts, one page each, and some that are asked all the time.
#[test]
fn t16_a_million_keys_leave_the_memory_of_those_at_work() {
    const KEYS: usize = 1_000_000;
    const HOT: usize = 16;
    let now = Timestamp::from_nanos(10_u64.pow(18));
    let mut ledger = Ledger::new(config(1000, adaptive()), 1, now);
    ledger.track();
    let mut carried = Carried::default();
    let mut actions = Vec::new();
    let (mut now, mut ticket) = (now, 0);
    let mut most = 0;
    let hot: Vec<_> = (0..HOT).map(|number| host(KEYS + number)).collect();
    for number in 0..KEYS {
        now = now + Duration::from_millis(1);
        let key = match number % 50 {
            0 => hot[number / 50 % HOT].clone(),
            _ => host(number),
        };
        ticket += 1;
        let lane = ledger.lane(&key);
        let acquire = Msg::Acquire {
            ticket: Ticket(ticket),
            lane,
            priority: 0,
            patience: Duration::MAX,
        };
        ledger.handle(now, acquire, &mut actions);
        let permit = PermitId(ticket);
        ledger.handle(now, Msg::Release { permit, used: true }, &mut actions);
        let report = Msg::Report {
            permit,
            outcome: Outcome::Ok,
            hints: Hints::default(),
        };
        ledger.handle(now, report, &mut actions);
        ledger.sweep();
        ledger.save(&mut carried);
        actions.clear();
        most = most.max(ledger.lanes_in_memory());
    }
    // A lane and its group, in the ledger and in what is carried, with the law's state and the names.
    let bytes = most * 2 * (size_of::<Lane>() + size_of::<Group>() + 1200);
    assert!(bytes < 40_000_000, "about {bytes} bytes for {most} lanes");
    assert_eq!(ledger.snapshot(now).granted, KEYS as u64);
    // Those asked within the last second wait for their pace; 4096 may rest.
    assert!(most < 4096 + 4096, "{most} lanes in memory");
    assert_eq!(carried.lanes.len(), ledger.lanes_in_memory());
    // One that is asked every 0.8 s is never dropped, though a thousand new ones come in a second.
    for key in &hot {
        let lane = ledger.lane(key);
        let granted = ledger.lanes[lane.place as usize].granted;
        assert!(granted >= (KEYS / 50 / HOT) as u64, "{granted}");
    }
    // Nobody asks any more.
    ledger.handle(now + Duration::from_secs(600), Msg::Tick, &mut actions);
    ledger.sweep_all();
    ledger.sweep_all();
    ledger.save(&mut carried);
    assert!(ledger.lanes_in_memory() <= 256);
    assert!(carried.lanes.len() <= 256 && carried.groups.len() <= 256);
    assert!(ledger.lanes.end() <= 8192 && ledger.lane_ids.capacity() <= 8192);
    let snapshot = ledger.snapshot(now);
    let dropped: u64 = snapshot.dropped.iter().map(|lanes| lanes.granted).sum();
    let there: u64 = snapshot.lanes.iter().map(|lane| lane.granted).sum();
    assert_eq!(dropped + there, KEYS as u64);
}

/// As many that a bound holds back stay as there are, and are gone when it has passed.
#[test]
fn hosts_that_named_a_time_stay_until_it_has_passed() {
    let mut case = Case::of(config(100, adaptive()));
    for number in 0..6000 {
        case.visit(&host(number), Outcome::Limited, Some(3600));
        case.granted.clear();
        case.ledger.sweep();
        case.now = case.now + Duration::from_millis(1);
    }
    assert_eq!(
        case.sweep_after(3500.0),
        6001 - 1,
        "all but the one that nobody asked"
    );
    let hosts: BTreeSet<_> = case
        .ledger
        .lanes
        .iter()
        .map(|(_, lane)| lane.key.clone())
        .collect();
    assert_eq!(hosts.len(), 6000);
    assert!(case.sweep_after(800.0) <= 256);
}
