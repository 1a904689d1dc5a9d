//! What the connection knows and the exchange has to learn.
//!
//! awc hands a connector nothing but the URI, and hands back its own reading of the answer. The exchange
//! whose future is being polled is the one that the connection works for: it lies in the [`Slot`] meanwhile.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use tokio::time::Instant;

use super::error::Fault;
use super::head::Head;

/// The notes of one exchange, written by dialler and wire.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Whether a TCP connection was begun for this exchange.
    pub(super) dialled: Cell<bool>,
    /// The proxy that is being asked for a tunnel.
    pub(super) tunnelling: RefCell<Option<Arc<str>>>,
    /// Whether the connection had served an answer before.
    pub(super) reused: Cell<bool>,
    /// When the first byte was handed to the socket.
    pub(super) sent: Cell<Option<Instant>>,
    /// When the first byte of an answer, an interim one or the final one, was read.
    pub(super) first_byte: Cell<Option<Instant>>,
    /// Bytes of the body that were read, transfer coding taken off.
    pub(super) body_bytes: Cell<u64>,
    /// Whether bytes followed the end of the answer.
    pub(super) surplus: Cell<bool>,
    /// The final head as the server sent it, and when its last byte was read.
    pub(super) head: RefCell<Option<(Head, Instant)>>,
    /// What went wrong below awc; more exact than what awc makes of it.
    pub(super) fault: RefCell<Option<Fault>>,
}

/// Where the exchange that is being polled lies.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot(Rc<RefCell<Option<Rc<Notes>>>>);

impl Notes {
    /// More of the body was read.
    pub(super) fn count_body(&self, bytes: u64) {
        self.body_bytes.set(self.body_bytes.get() + bytes);
    }
}

impl Slot {
    /// Runs `poll` with `notes` in the slot.
    pub(super) fn during<T>(&self, notes: &Rc<Notes>, poll: impl FnOnce() -> T) -> T {
        self.0.replace(Some(Rc::clone(notes)));
        let result = poll();
        self.0.take();
        result
    }

    /// The notes of the exchange that is being polled.
    pub(super) fn current(&self) -> Rc<Notes> {
        // Fresh notes where nobody listens: the bytes must flow all the same.
        self.0.borrow().clone().unwrap_or_default()
    }
}
