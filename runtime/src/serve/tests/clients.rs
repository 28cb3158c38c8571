//! The official OpenAI clients. `make test` installs them: .venv has the Python one, build/node the JavaScript one.

use super::*;
use std::ffi::OsString;
use std::process::Command;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The value of an environment variable, or a place in the repository.
fn place(variable: &str, name: &str) -> OsString {
    std::env::var_os(variable).unwrap_or_else(|| repository().join(name).into())
}

/// Runs a script of `tests/serve` against a scripted server. A client that is not there is a failure.
fn run(program: &OsString, name: &str) {
    let server = Server::start(Options {
        template: Some(TOOL_TEMPLATE),
        max_queue: 4,
        max_body: 4 << 20,
        ..Options::default()
    });
    let url = format!("http://{}", server.address);
    let output = Command::new(program)
        .arg(repository().join("tests/serve").join(name))
        .args([&url, "--scripted"])
        .env("NODE_PATH", place("NODE_PATH", "build/node/node_modules"))
        .output();
    let hint = "hint: `make test` installs the clients (scripts/test-venv.sh, scripts/test-node.sh)";
    let output = output.unwrap_or_else(|e| panic!("{}: {e}\n{hint}", program.display()));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {text}\n{hint}");
}

#[test]
fn python_client() {
    run(&place("FORKCAST_PYTHON", ".venv/bin/python"), "openai_client.py");
}

#[test]
fn javascript_client() {
    let node = std::env::var_os("FORKCAST_NODE").unwrap_or_else(|| "node".into());
    run(&node, "openai_client.mjs");
}
