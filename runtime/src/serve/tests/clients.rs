//! The official OpenAI clients, where they are installed.

use super::*;
use std::process::Command;

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/serve")
        .join(name)
}

/// The interpreter to use: `FORKCAST_<NAME>` or the one on the path.
fn program(name: &str) -> String {
    let variable = format!("FORKCAST_{}", name.to_uppercase());
    std::env::var(variable).unwrap_or_else(|_| name.to_owned())
}

fn works(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .output()
        .is_ok_and(|o| o.status.success())
}

fn run(program: &str, name: &str) {
    let server = Server::start(Options {
        template: Some(TOOL_TEMPLATE),
        max_queue: 4,
        max_body: 4 << 20,
        ..Options::default()
    });
    let url = format!("http://{}", server.address);
    let output = Command::new(program)
        .arg(script(name))
        .args([&url, "--scripted"])
        .output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {text}");
}

#[test]
#[ignore = "needs the PyPI package openai; FORKCAST_PYTHON3 names a Python that has it"]
fn python_client() {
    let python = program("python3");
    assert!(
        works(&python, &["-c", "import openai"]),
        "the package openai is not installed for {python}"
    );
    run(&python, "openai_client.py");
}

#[test]
#[ignore = "needs the npm package openai; NODE_PATH says where packages are"]
fn javascript_client() {
    let node = program("node");
    assert!(
        works(&node, &["-e", "require('openai')"]),
        "the package openai is not installed for {node}"
    );
    run(&node, "openai_client.mjs");
}
