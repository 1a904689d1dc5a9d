//! Which kinds of message met lanes in which states.

/// Kinds of message, and of what else can happen.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Acquire,
    Release,
    Report,
    Repeat,
    Cancel,
    Retune,
    Pause,
    Resume,
    Drain,
    Tick,
    Snapshot,
    Stored,
    Behind,
    Failed,
    Restart,
    Kill,
    Drop,
}

const KINDS: [Kind; 17] = [
    Kind::Acquire,
    Kind::Release,
    Kind::Report,
    Kind::Repeat,
    Kind::Cancel,
    Kind::Retune,
    Kind::Pause,
    Kind::Resume,
    Kind::Drain,
    Kind::Tick,
    Kind::Snapshot,
    Kind::Stored,
    Kind::Behind,
    Kind::Failed,
    Kind::Restart,
    Kind::Kill,
    Kind::Drop,
];

/// States of a lane, as a snapshot names them.
const STATES: [&str; 4] = ["open", "pause", "half_open", "paused"];

/// How often each kind of message met a lane in each state.
#[derive(Clone, Debug, Default)]
pub(super) struct Coverage {
    met: [[u64; STATES.len()]; KINDS.len()],
}

impl Coverage {
    pub(super) fn meet(&mut self, kind: Kind, state: &'static str) {
        // What a lane that learns does while it is open has names of its own.
        let place = STATES.iter().position(|name| *name == state).unwrap_or(0);
        self.met[kind as usize][place] += 1;
    }

    pub(super) fn add(&mut self, other: &Self) {
        let counts = self.met.iter_mut().flatten();
        for (count, more) in counts.zip(other.met.iter().flatten()) {
            *count += more;
        }
    }

    /// Every kind of message came, whatever the lane was doing: a lane that learns is seldom half open.
    pub(super) fn assert_every_kind(&self) {
        for kind in KINDS {
            let count: u64 = self.met[kind as usize].iter().sum();
            assert!(count > 0, "no {kind:?}");
        }
    }

    pub(super) fn assert_complete(&self) {
        for kind in KINDS {
            for (state, count) in STATES.iter().zip(self.met[kind as usize]) {
                assert!(count > 0, "no {kind:?} met a lane in state {state}");
            }
        }
    }
}
