//! What the solve costs: CPU time, wall time and memory of this process.

use std::fs;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// The cost of one piece of work.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Cost {
    /// Processor time of all threads.
    pub(crate) solve_cpu_seconds: f64,
    /// Time on the clock.
    pub(crate) solve_wall_seconds: f64,
    /// The most memory the process ever held, if the system tells.
    pub(crate) peak_memory_bytes: Option<u64>,
}

/// Does the work and says what it cost.
pub(crate) fn measured<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    let (wall, cpu) = (Instant::now(), cpu_time());
    let result = work();
    let cost = Cost {
        solve_cpu_seconds: cpu_time().saturating_sub(cpu).as_secs_f64(),
        solve_wall_seconds: wall.elapsed().as_secs_f64(),
        peak_memory_bytes: peak_memory_bytes(),
    };
    (result, cost)
}

pub(crate) fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// Linux keeps the high-water mark of resident memory; elsewhere it is unknown.
fn peak_memory_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
