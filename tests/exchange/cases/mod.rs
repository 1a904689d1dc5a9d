//! What servers send, what awc alone makes of it, and what the exchange makes of it: one row each.
//!
//! The cells are the texts of the table in `docs/exchange.md`; a test compares the two.

mod chunks;
mod ends;
mod fields;
mod heads;
mod interim;
mod lengths;

use crate::support::Then;

/// One answer, and what is made of it.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// What the server does, in words.
    pub(crate) name: &'static str,
    /// What it sends.
    pub(crate) bytes: Vec<u8>,
    /// What it does afterwards.
    pub(crate) then: Then,
    /// The body it means, where there is one to mean.
    pub(crate) meant: Vec<u8>,
    /// What awc alone makes of it.
    pub(crate) awc: &'static str,
    /// What the exchange makes of it.
    pub(crate) ours: &'static str,
    /// Whether bytes follow the answer: they are seen where they come with it.
    pub(crate) trailing: bool,
    /// Where curl gives something else: what, and why the exchange does not.
    pub(crate) curl: Option<&'static str>,
}

impl Case {
    /// Bytes follow the answer.
    fn trailing(mut self) -> Self {
        self.trailing = true;
        self
    }

    /// Where curl differs.
    fn curl(mut self, differs: &'static str) -> Self {
        self.curl = Some(differs);
        self
    }
}

/// A case. Cells say what arrived (`whole`, `part`, `empty`, `wrong` bytes; a status that is not 200 first) or the
/// error, and what became of the connection: `kept`, `closed`, or that the next answer was not the next one's.
fn case(
    name: &'static str,
    bytes: impl AsRef<[u8]>,
    then: Then,
    meant: impl AsRef<[u8]>,
    awc: &'static str,
    ours: &'static str,
) -> Case {
    Case {
        name,
        bytes: bytes.as_ref().to_vec(),
        then,
        meant: meant.as_ref().to_vec(),
        awc,
        ours,
        trailing: false,
        curl: None,
    }
}

/// All rows, in the order of the table.
pub(crate) fn all() -> Vec<Case> {
    [
        lengths::cases(),
        ends::cases(),
        chunks::cases(),
        interim::cases(),
        heads::cases(),
        fields::cases(),
    ]
    .concat()
}
