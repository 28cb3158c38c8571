//! Writing to stdout and stderr without ever panicking.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Writes data to stdout at once.
pub(super) fn data(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes one JSON document and a newline to stdout.
pub(super) fn json(value: &impl serde::Serialize) -> io::Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
    data(&(text + "\n"))
}

/// Writes text for people to stderr; if nobody reads it, that is fine.
pub(super) fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// One line for people.
pub(super) fn note(text: &str) {
    say(&format!("note: {text}\n"));
}

/// Whether stdout is a terminal.
pub(super) fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Libraries' log lines on stderr, as `RUST_LOG` says; errors only without it.
pub(super) fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("error"));
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(colour)
        .try_init();
}

/// A line of progress on stderr; nothing when stderr is no terminal.
pub(super) fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// A size for people.
pub(super) fn size(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {}", units[unit])
    }
}
