//! Running the binary.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a run gave.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Peak memory in kB.
    pub(crate) peak_kb: u64,
    pub(crate) seconds: f64,
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The binary, with the libraries that `make tensorrt` fetched and without any of the user's settings.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forkcast"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("FORKCAST_") {
            command.env_remove(&name);
        }
    }
    let library = |name: &str| {
        repository()
            .join("lib")
            .join(name)
            .canonicalize()
            .expect("make tensorrt")
    };
    command
        .env("FORKCAST_TENSORRT_RTX", library("libtensorrt_rtx.so.1"))
        .env(
            "FORKCAST_TENSORRT_RTX_PARSER",
            library("libtensorrt_onnxparser_rtx.so.1"),
        )
        .stdin(Stdio::null());
    command
}

/// Runs `args` to the end, looking at the memory all the while.
pub(crate) fn forkcast(args: &[&str]) -> Ran {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| std::fs::File::create(folder.path().join(name)).expect("a file");
    let start = std::time::Instant::now();
    let mut child = command()
        .args(args)
        .stdout(file("out"))
        .stderr(file("err"))
        .spawn()
        .expect("starts");
    let (mut peak_kb, status) = (0, format!("/proc/{}/status", child.id()));
    let code = loop {
        peak_kb = peak_kb.max(peak(&status).unwrap_or(0));
        if let Some(ended) = child.try_wait().expect("waits") {
            break ended.code();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("UTF-8");
    Ran {
        code,
        stdout: text("out"),
        stderr: text("err"),
        peak_kb,
        seconds: start.elapsed().as_secs_f64(),
    }
}

fn peak(status: &str) -> Option<u64> {
    let text = std::fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Runs `args`, which must succeed.
pub(crate) fn ok(args: &[&str]) -> Ran {
    let ran = forkcast(args);
    assert_eq!(ran.code, Some(0), "{args:?}: {}{}", ran.stdout, ran.stderr);
    ran
}

/// Exports a bf16 bundle of a pair of checkpoints.
pub(crate) fn export(target: &Path, drafter: &Path, out: &Path) {
    let text = |p: &Path| p.to_str().expect("UTF-8").to_owned();
    let (target, drafter, out) = (text(target), text(drafter), text(out));
    ok(&[
        "export",
        "--target",
        &target,
        "--drafter",
        &drafter,
        "--dtype",
        "bf16",
        "--out",
        &out,
    ]);
}

/// A pair of `tests/models` as a bf16 bundle in `folder`.
pub(crate) fn tiny(folder: &Path, target: &str, drafter: &str) -> String {
    let models = repository().join("tests/models");
    let out = folder.join("bundle");
    export(&models.join(target), &models.join(drafter), &out);
    out.to_str().expect("UTF-8").to_owned()
}
