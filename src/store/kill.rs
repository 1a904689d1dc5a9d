//! Named moments at which a test may end the process: before and after every step that touches the disk.

use std::fmt;

/// What a commit holds, by the weightiest of its commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CommitKind {
    /// A new job was created.
    Create,
    /// A job was opened: void leases returned, the run resumed.
    Open,
    /// Tasks were added.
    Push,
    /// Leases were ended or taken.
    Exchange,
    /// A redirect's target was claimed.
    Claim,
    /// An owner's leases were returned.
    Release,
    /// The run was closed.
    Close,
}

/// Before the step, or after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Moment {
    /// Before.
    Before,
    /// After.
    After,
}

/// One moment of the store's work on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KillPoint {
    /// A transaction is committed.
    Commit(CommitKind, Moment),
    /// Bytes are appended to an output file.
    Append(Moment),
    /// Half of the bytes are appended.
    TornAppend,
    /// An output file is synced.
    Sync(Moment),
    /// An output file is cut back to its committed length.
    Truncate(Moment),
    /// The write-ahead log is folded back.
    Checkpoint(Moment),
}

impl KillPoint {
    /// Every point there is.
    pub const ALL: [Self; 23] = {
        use CommitKind::{Claim, Close, Create, Exchange, Open, Push, Release};
        use Moment::{After, Before};
        [
            Self::Commit(Create, Before),
            Self::Commit(Create, After),
            Self::Commit(Open, Before),
            Self::Commit(Open, After),
            Self::Commit(Push, Before),
            Self::Commit(Push, After),
            Self::Commit(Exchange, Before),
            Self::Commit(Exchange, After),
            Self::Commit(Claim, Before),
            Self::Commit(Claim, After),
            Self::Commit(Release, Before),
            Self::Commit(Release, After),
            Self::Commit(Close, Before),
            Self::Commit(Close, After),
            Self::Append(Before),
            Self::TornAppend,
            Self::Append(After),
            Self::Sync(Before),
            Self::Sync(After),
            Self::Truncate(Before),
            Self::Truncate(After),
            Self::Checkpoint(Before),
            Self::Checkpoint(After),
        ]
    };

    /// Its name, such as `before-commit-exchange`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        use CommitKind::{Claim, Close, Create, Exchange, Open, Push, Release};
        use Moment::{After, Before};
        match self {
            Self::Commit(Create, Before) => "before-commit-create",
            Self::Commit(Create, After) => "after-commit-create",
            Self::Commit(Open, Before) => "before-commit-open",
            Self::Commit(Open, After) => "after-commit-open",
            Self::Commit(Push, Before) => "before-commit-push",
            Self::Commit(Push, After) => "after-commit-push",
            Self::Commit(Exchange, Before) => "before-commit-exchange",
            Self::Commit(Exchange, After) => "after-commit-exchange",
            Self::Commit(Claim, Before) => "before-commit-claim",
            Self::Commit(Claim, After) => "after-commit-claim",
            Self::Commit(Release, Before) => "before-commit-release",
            Self::Commit(Release, After) => "after-commit-release",
            Self::Commit(Close, Before) => "before-commit-close",
            Self::Commit(Close, After) => "after-commit-close",
            Self::Append(Before) => "before-append",
            Self::TornAppend => "torn-append",
            Self::Append(After) => "after-append",
            Self::Sync(Before) => "before-sync",
            Self::Sync(After) => "after-sync",
            Self::Truncate(Before) => "before-truncate",
            Self::Truncate(After) => "after-truncate",
            Self::Checkpoint(Before) => "before-checkpoint",
            Self::Checkpoint(After) => "after-checkpoint",
        }
    }
}

/// What a test does at a moment; it may end the process.
pub type KillHook = Box<dyn FnMut(KillPoint) + Send>;

/// The hook of a store, if it has one.
#[derive(Default)]
pub(crate) struct Hook(Option<KillHook>);

impl Hook {
    /// Around `hook`.
    pub(crate) fn new(hook: Option<KillHook>) -> Self {
        Self(hook)
    }

    /// Whether anything listens.
    pub(crate) fn is_set(&self) -> bool {
        self.0.is_some()
    }

    /// The moment has come.
    pub(crate) fn at(&mut self, point: KillPoint) {
        if let Some(hook) = &mut self.0 {
            hook(point);
        }
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hook").field(&self.is_set()).finish()
    }
}
