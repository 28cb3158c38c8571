//! Ctrl-C in the middle of a long build leaves nothing.

use crate::run::{command, export};
use crate::sparse;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn a_signal_cancels_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    sparse::write(&at("target"), "qwen3.5-4b");
    sparse::write(&at("drafter"), "qwen3.5-4b-mfd");
    export(&at("target"), &at("drafter"), &at("bundle"));
    let mut child = command()
        .arg("build")
        .arg(at("bundle"))
        .args(["--recipe", "rtx-4090", "--out"])
        .arg(at("engine"))
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    // The library is at work: well inside the first graph, which takes a minute and more.
    std::thread::sleep(Duration::from_secs(8));
    assert!(child.try_wait().expect("waits").is_none(), "it is still building");
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .expect("kill");
    assert!(sent.success());
    let start = Instant::now();
    let output = child.wait_with_output().expect("ends");
    println!("ended {:.1} s after the signal", start.elapsed().as_secs_f64());
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("cancelled"), "{text}");
    let entries = std::fs::read_dir(folder.path()).expect("listed").flatten();
    let mut names: Vec<String> = entries
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["bundle", "drafter", "target"]);
}

/// The same for an export that copies gigabytes.
#[test]
fn a_signal_during_an_export_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    sparse::write(&at("target"), "qwen3-4b");
    let mut child = command()
        .args(["export", "--copy-weights", "--dtype", "bf16", "--target"])
        .arg(at("target"))
        .arg("--out")
        .arg(at("deep/bundle"))
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let start = Instant::now();
    // It is writing: the folder beside the final place exists.
    while !at("deep").is_dir() && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(200));
    assert!(child.try_wait().expect("waits").is_none(), "it is still writing");
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .expect("kill");
    assert!(sent.success());
    let output = child.wait_with_output().expect("ends");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{text}");
    let left = std::fs::read_dir(at("deep")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "files in the parent folder");
}
