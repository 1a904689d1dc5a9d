//! What this process uses of the machine.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::calibrate::Usage;

/// Processor time of all threads so far, and resident memory now.
pub(super) fn of_process() -> Usage {
    Usage {
        cpu_seconds: getrusage(UsageWho::RUSAGE_SELF)
            .ok()
            .map(|used| (used.user_time() + used.system_time()).num_microseconds() as f64 / 1e6),
        memory_bytes: std::fs::read_to_string("/proc/self/status")
            .ok()
            .and_then(|text| resident(&text)),
    }
}

/// `used` so far, as what was used since `before`.
pub(super) fn since(before: Usage, used: Usage) -> Usage {
    Usage {
        cpu_seconds: used
            .cpu_seconds
            .zip(before.cpu_seconds)
            .map(|(now, then)| (now - then).max(0.0)),
        memory_bytes: used.memory_bytes,
    }
}

/// `VmRSS` of Linux's `/proc/self/status`, in bytes.
fn resident(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_read_where_there_is_one() {
        let status = "Name:\tx\nVmHWM:\t  2000 kB\nVmRSS:\t  1500 kB\nThreads:\t1\n";
        assert_eq!(resident(status), Some(1_536_000));
        assert_eq!(resident("Name:\tx\n"), None);
        assert_eq!(resident("VmRSS:\tmany kB\n"), None);
    }

    #[test]
    fn a_process_uses_time_and_memory() {
        let before = of_process();
        assert!(before.cpu_seconds.is_some());
        let used = since(before, of_process());
        assert!(used.cpu_seconds.is_some_and(|seconds| seconds >= 0.0));
        if cfg!(target_os = "linux") {
            assert!(used.memory_bytes.is_some_and(|bytes| bytes > 100_000));
        }
    }
}
