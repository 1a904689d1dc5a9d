//! Ways for a ledger to be wrong, to show that the properties would see it.

/// One way to be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    CapOffByOne,
    ReleaseForgotten,
    ReleaseTwice,
    FreshBurst,
    QuotaForgotten,
    TwoProbes,
    CutPerAnswer,
    CancelLosesSlot,
    NotBeforeIgnored,
    LastComeFirstServed,
    RestartForgetsPermits,
}

/// The fault of a ledger; outside tests a type of no size that is never on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    #[cfg(test)]
    pub(crate) fault: Option<Fault>,
}

impl Faults {
    #[cfg(test)]
    pub(crate) fn on(self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    #[cfg(not(test))]
    #[inline]
    pub(crate) fn on(self, _: Fault) -> bool {
        false
    }
}
