//! What this process takes of its machine, under the names every Prometheus client gives it.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::measure::cpu_time;

/// A process that began when this was made.
pub(super) struct Process {
    began: Duration,
}

impl Process {
    pub(super) fn new() -> Self {
        Self { began: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() }
    }

    /// The metrics as text. What the system does not tell is left out.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let cpu = Some(cpu_time().as_secs_f64());
        // A counter's family has the name without its ending.
        metric(&mut text, ("process_cpu_seconds", "counter", "_total"), "Processor time used", cpu);
        let gauges = [
            ("process_resident_memory_bytes", "Memory held", memory_bytes("VmRSS:")),
            // Alerts and upstream's performance suite ask for memory in use under the name that Go's runtime gives it. Our
            // allocator gives back what is free, so that what the process holds for itself is what is in use.
            ("go_gc_heap_live_bytes", "Memory in use", memory_bytes("RssAnon:")),
            ("process_virtual_memory_bytes", "Memory mapped", memory_bytes("VmSize:")),
            ("process_start_time_seconds", "When the process began", Some(self.began.as_secs_f64())),
            ("process_open_fds", "Files and connections open", open_files()),
            ("process_max_fds", "Files and connections that may be open", most_files()),
        ];
        for (name, help, value) in gauges {
            metric(&mut text, (name, "gauge", ""), help, value);
        }
        text
    }
}

fn metric(text: &mut String, (name, kind, ending): (&str, &str, &str), help: &str, value: Option<f64>) {
    if let Some(value) = value {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}\n{name}{ending} {value}");
    }
}

/// A line of Linux' description of this process, in bytes.
fn memory_bytes(name: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

fn open_files() -> Option<f64> {
    Some(fs::read_dir("/proc/self/fd").ok()?.count() as f64)
}

fn most_files() -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
