//! SIGINT and SIGTERM: the first asks for a clean stop, the second ends at once.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::failure::Failure;

/// The two signals, listened to from now on.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(super) fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::internal(format!("signals cannot be listened to: {error}"))
            })
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// The number of the next signal: 2 or 15.
    pub(super) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
        }
    }
}
