//! Running the binary.

use crate::bundles::repository;
use assert_cmd::Command;

/// What a run gave.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Exit code.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

/// The binary, with the library of `make` and without any of the user's settings.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forkcast"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("FORKCAST_") || text.starts_with("HF_") || text == "RUST_LOG" {
            command.env_remove(&name);
        }
    }
    if std::env::var_os("ORT_DYLIB_PATH").is_none() {
        command.env("ORT_DYLIB_PATH", repository().join("lib/libonnxruntime.so"));
    }
    command
}

/// Runs `command` to its end.
pub(crate) fn finish(command: &mut Command) -> Ran {
    let output = command.output().expect("the binary runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
    Ran {
        code: output.status.code().expect("no signal"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Runs the binary with `args`.
pub(crate) fn forkcast(args: &[&str]) -> Ran {
    finish(command().args(args))
}

/// Runs the binary, which must succeed, and returns its standard output.
pub(crate) fn stdout(args: &[&str]) -> String {
    let ran = forkcast(args);
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
    ran.stdout
}

/// Runs `generate ... --json`, which must succeed.
pub(crate) fn json(args: &[&str]) -> serde_json::Value {
    let mut all = vec!["generate"];
    all.extend(args);
    all.push("--json");
    serde_json::from_str(&stdout(&all)).expect("one JSON object")
}
