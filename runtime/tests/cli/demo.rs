//! `forkcast demo`: the table, and bundles that are kept.

use crate::bundles::{repository, text};
use crate::run::forkcast;
use std::path::Path;

#[test]
fn the_table_says_yes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (models, out) = (text(&repository().join("tests/models")), text(folder.path()));
    let run = || forkcast(&["demo", "--models", &models, "--out", &out, "--max-tokens", "24"]);
    let first = run();
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert_eq!(
        first.stderr.matches(": exported, ").count(),
        2,
        "{}",
        first.stderr
    );
    let cells = |line: &str| line.split('|').map(|c| c.trim().to_owned()).collect::<Vec<_>>();
    let answers: Vec<_> = first
        .stdout
        .lines()
        .map(cells)
        .filter(|c| c.len() == 11 && c[2] != "method")
        .collect();
    let verdicts: Vec<&str> = answers
        .iter()
        .map(|c| c[9].as_str())
        .filter(|v| !v.starts_with('-'))
        .collect();
    assert_eq!(
        verdicts, ["yes"; 20],
        "four methods on five prompts: {}",
        first.stdout
    );
    // The target's weights exist once.
    let shared = |name: &str| Path::new(&out).join(format!("tiny-qwen3.5-{name}/target.weights"));
    assert!(same_file(&shared("dflash"), &shared("mfd")));
    let second = run();
    assert_eq!(second.code, 0, "{}", second.stderr);
    assert!(!second.stderr.contains("exported"), "{}", second.stderr);
}

#[cfg(unix)]
fn same_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let inode = |path: &Path| std::fs::metadata(path).map(|m| m.ino()).expect("it exists");
    inode(a) == inode(b)
}

#[cfg(not(unix))]
fn same_file(a: &Path, b: &Path) -> bool {
    std::fs::read(a).expect("it exists") == std::fs::read(b).expect("it exists")
}

#[test]
fn missing_models_are_named() {
    let ran = forkcast(&["demo", "--models", "/nonexistent"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert!(
        ran.stderr.contains("/nonexistent") && ran.stderr.contains("hint: "),
        "{}",
        ran.stderr
    );
}
