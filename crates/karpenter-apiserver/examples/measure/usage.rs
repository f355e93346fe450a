//! What processes use: memory and processor time, as Linux counts them.

use std::time::Duration;

/// Clock ticks per second in `/proc`; Linux has told programs 100 on every architecture for decades.
const TICKS_PER_SECOND: u64 = 100;

/// Returns the resident memory of some processes in bytes.
pub(crate) fn resident(processes: &[u32]) -> u64 {
    let of_one = |process: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
    };
    processes.iter().map(of_one).sum()
}

/// Returns the processor time that some processes have used so far.
pub(crate) fn processor_time(processes: &[u32]) -> Duration {
    let of_one = |process: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // The command may contain spaces; fields are counted from behind it, where the state is the third.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        ticks(11) + ticks(12)
    };
    let ticks: u64 = processes.iter().map(of_one).sum();
    Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
}
