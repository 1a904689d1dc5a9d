//! Which of its egresses an exchange goes through. Pure.

use std::sync::Arc;

use super::book::Standing;
use crate::model::Timestamp;

/// What is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// This one, now.
    Go(usize),
    /// None has room; the earliest may when a time has come, or (`None`) when an exchange has ended.
    Wait(Option<Timestamp>),
    /// None works; the earliest is probed then, or (`None`) never.
    Down(Option<Timestamp>),
}

/// Chooses among `standings`. An account keeps to the first that works in its own order, so that a site sees it come
/// from one address; without an account they take turns.
pub(super) fn choose(
    names: &[Arc<str>],
    standings: &[Standing],
    pin: Option<&str>,
    turn: usize,
) -> Choice {
    let mut order: Vec<usize> = (0..standings.len()).collect();
    match pin {
        Some(pin) => {
            order.sort_by_cached_key(|index| std::cmp::Reverse(weight(pin, &names[*index])))
        }
        None => order.rotate_left(turn % standings.len().max(1)),
    }
    let mut wait: Option<Option<Timestamp>> = None;
    let mut down: Option<Timestamp> = None;
    for index in order {
        match standings[index] {
            Standing::Ready => return Choice::Go(index),
            // Its own is busy: that is no reason to be seen from another address.
            Standing::Busy(until) if pin.is_some() => return Choice::Wait(until),
            Standing::Busy(until) => {
                wait = Some(match (wait, until) {
                    (None, until) => until,
                    // An ended exchange wakes whoever waits for a time, too.
                    (Some(known), until) => [known, until].into_iter().flatten().min(),
                });
            }
            Standing::Down(until) => down = Some(down.map_or(until, |known| known.min(until))),
            Standing::Expired => {}
        }
    }
    match wait {
        Some(until) => Choice::Wait(until),
        None => Choice::Down(down),
    }
}

/// Rendezvous hashing: when an egress goes, only its own accounts move, each to its next.
fn weight(pin: &str, name: &str) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher
        .update(pin.as_bytes())
        .update(&[0])
        .update(name.as_bytes());
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const READY: Standing = Standing::Ready;
    const BUSY: Standing = Standing::Busy(None);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_secs(seconds)
    }

    fn names(count: usize) -> Vec<Arc<str>> {
        (0..count).map(|n| format!("e{n}").into()).collect()
    }

    fn pinned(standings: &[Standing], pin: &str) -> Choice {
        choose(&names(standings.len()), standings, Some(pin), 7)
    }

    #[test]
    fn without_an_account_they_take_turns() {
        let all = names(3);
        let went: Vec<_> = (0..4)
            .map(|turn| choose(&all, &[READY; 3], None, turn))
            .collect();
        assert_eq!(went, [0, 1, 2, 0].map(Choice::Go));
        let standings = [BUSY, Standing::Expired, READY];
        assert_eq!(choose(&all, &standings, None, 0), Choice::Go(2));
    }

    #[test]
    fn an_account_keeps_its_egress_and_moves_only_when_it_fails() {
        let down = Standing::Down(at(9));
        for account in (0..50).map(|n| format!("site\0{n}")) {
            let Choice::Go(own) = pinned(&[READY; 4], &account) else {
                panic!();
            };
            let mut standings = [READY; 4];
            standings[(own + 1) % 4] = down;
            assert_eq!(pinned(&standings, &account), Choice::Go(own));
            standings = [READY; 4];
            standings[own] = BUSY;
            assert_eq!(pinned(&standings, &account), Choice::Wait(None));
            standings[own] = down;
            assert!(matches!(pinned(&standings, &account), Choice::Go(other) if other != own));
        }
    }

    #[test]
    fn accounts_are_spread() {
        let mut users = [0; 4];
        for account in 0..400 {
            if let Choice::Go(index) = pinned(&[READY; 4], &format!("site\0{account}")) {
                users[index] += 1;
            }
        }
        assert!(users.iter().all(|count| *count > 50), "{users:?}");
    }

    #[test]
    fn when_none_works_the_earliest_probe_is_told() {
        let all = names(3);
        let standings = [
            Standing::Down(at(9)),
            Standing::Down(at(4)),
            Standing::Expired,
        ];
        assert_eq!(choose(&all, &standings, None, 0), Choice::Down(Some(at(4))));
        assert_eq!(
            choose(&all, &[Standing::Expired; 3], None, 0),
            Choice::Down(None)
        );
        let standings = [Standing::Busy(Some(at(5))), BUSY, Standing::Down(at(1))];
        assert_eq!(choose(&all, &standings, None, 0), Choice::Wait(Some(at(5))));
    }
}
