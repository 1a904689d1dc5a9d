//! A run of the binary that may take its time, but not for ever.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How a run ended.
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) took: Duration,
    pub(super) stderr: String,
}

/// Runs it to its end; past the deadline it is killed, and has no exit code then.
pub(super) fn finish(command: &mut Command, dir: &Path, deadline: Duration) -> Ended {
    let file = dir.join("stderr");
    let mut child = command
        .stdout(Stdio::null())
        .stderr(File::create(&file).expect("a file"))
        .spawn()
        .expect("the binary starts");
    let started = Instant::now();
    let id = Pid::from_raw(i32::try_from(child.id()).expect("an id of the system"));
    let (ended, end) = mpsc::channel();
    let waiter = std::thread::spawn(move || {
        let status = child.wait().expect("it ends");
        // Nobody listens any more when the deadline has passed.
        let _ = ended.send(());
        status
    });
    if end.recv_timeout(deadline).is_err() {
        // It may have ended by itself meanwhile.
        let _ = kill(id, Signal::SIGKILL);
    }
    let status = waiter.join().expect("the waiting thread");
    Ended {
        code: status.code(),
        took: started.elapsed(),
        stderr: fs::read_to_string(file).expect("text"),
    }
}
