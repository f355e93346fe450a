//! Processor time and memory of a running controller, as Linux tells them.

use anyhow::Context as _;

use crate::controller::Controller;

/// What a process has used so far.
pub(super) struct Usage {
    /// Seconds of all its threads.
    pub(super) cpu: f64,
    /// Megabytes held now.
    pub(super) memory: f64,
    /// The most that it ever held.
    pub(super) peak: f64,
}

impl Usage {
    pub(super) fn of(controller: &Controller) -> anyhow::Result<Self> {
        let id = controller.id().context("the controller has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let megabytes = |name: &str| -> anyhow::Result<f64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).context("Linux tells this")?;
            Ok(line.trim().trim_end_matches("kB").trim().parse::<f64>()? * 1024.0 / 1e6)
        };
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        // The 14th and 15th field of the line, in hundredths of a second.
        let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
        Ok(Self { cpu: ticks / 100.0, memory: megabytes("VmRSS:")?, peak: megabytes("VmHWM:")? })
    }
}
