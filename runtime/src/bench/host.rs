//! Where something was measured.

use serde::{Deserialize, Serialize};
use std::fs::read_to_string;
use std::process::Command;

/// The machine, as far as it decides about times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Model name of the processor.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory in bytes; 0 where it is not known.
    pub memory: u64,
    /// Operating system and architecture.
    pub system: String,
    /// Load of the last minute when the run began; other work adds to every time.
    pub load: Option<f64>,
}

/// This machine.
#[must_use]
pub fn host() -> Host {
    let field = |file: &str, name: &str| {
        let text = read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|l| l.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let memory = field("/proc/meminfo", "MemTotal").and_then(|v| v.split(' ').next()?.parse::<u64>().ok());
    let load = read_to_string("/proc/loadavg").ok();
    Host {
        cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned()),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory: memory.unwrap_or(0) * 1024,
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        load: load.and_then(|l| l.split(' ').next()?.parse().ok()),
    }
}

/// Commit that the program was built from: as the build said (`FORKCAST_COMMIT`), else that of the work tree in which
/// the program lies, with `-dirty` where tracked files differ; `unknown` elsewhere.
#[must_use]
pub fn commit() -> String {
    option_env!("FORKCAST_COMMIT")
        .map(str::to_owned)
        .or_else(work_tree)
        .unwrap_or_else(|| "unknown".to_owned())
}

fn work_tree() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let output = Command::new("git")
        .arg("-C")
        .arg(program.parent()?)
        .args(["describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}
