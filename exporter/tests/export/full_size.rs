//! Exports of the published shapes, from sparse checkpoints: time and peak memory of a child process.

use crate::support::options;
use crate::{checkpoints, sparse};
use forkcast_engines::manifest::Dtype;
use forkcast_exporter::export;
use std::path::Path;
use std::process::Command;

/// Most memory that an export may take at its peak.
const LIMIT_KB: u64 = 300 * 1024;
const PAIR: &str = "FORKCAST_TEST_PAIR";
const ROOT: &str = "FORKCAST_TEST_ROOT";

#[test]
fn published_shapes_have_the_published_sizes() {
    let total = |specs: &[checkpoints::Spec]| specs.iter().map(|s| s.bytes() as u64).sum::<u64>();
    let target = sparse::specs("qwen3.5-4b");
    assert_eq!((target.len(), total(&target)), (738, 9_319_737_856));
    let target = sparse::specs("qwen3-4b");
    assert_eq!((target.len(), total(&target)), (398, 8_044_936_192));
    let elements = |name| {
        let specs = sparse::specs(name);
        (
            specs.len(),
            specs.iter().map(|s| s.elements() as u64).sum::<u64>(),
        )
    };
    assert_eq!(elements("qwen3-4b-mdraft"), (58, 537_427_200));
    assert_eq!(elements("qwen3.5-4b-dflash"), (69, 634_425_856));
}

#[test]
fn published_shapes_export_in_little_memory() {
    let root = tempfile::tempdir().expect("temporary folder");
    for (target, drafter) in [
        ("qwen3.5-4b", "qwen3.5-4b-mfd"),
        ("qwen3.5-4b", "qwen3.5-4b-dflash-first"),
        ("qwen3-4b", "qwen3-4b-mdraft"),
    ] {
        sparse::write(&root.path().join(target), target);
        sparse::write(&root.path().join(drafter), drafter);
        let exe = std::env::current_exe().expect("the test binary");
        let output = Command::new(exe)
            .args(["full_size::child", "--exact", "--ignored", "--nocapture"])
            .env(PAIR, format!("{target} {drafter}"))
            .env(ROOT, root.path())
            .output()
            .expect("runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let peak = text
            .lines()
            .find_map(|l| l.strip_prefix("peak_kb "))
            .and_then(|n| n.parse::<u64>().ok())
            .expect("the child reports its peak");
        let seconds = text
            .lines()
            .find_map(|l| l.strip_prefix("seconds "))
            .unwrap_or("?");
        println!("{target} + {drafter}: {seconds} s, peak {} MB", peak / 1024);
        assert!(peak < LIMIT_KB, "{target} + {drafter}: peak of {peak} kB");
    }
}

#[test]
#[ignore = "run by published_shapes_export_in_little_memory in a process of its own"]
fn child() {
    let (Ok(pair), Ok(root)) = (std::env::var(PAIR), std::env::var(ROOT)) else {
        return;
    };
    let (target, drafter) = pair.split_once(' ').expect("a pair");
    let root = Path::new(&root);
    let out = root.join(format!("{target}+{drafter}"));
    let mut options = options(&root.join(target), Some(&root.join(drafter)), &out);
    options.dtype = Dtype::Bf16;
    let start = std::time::Instant::now();
    export(&options, &mut |_| {}).expect("exports");
    println!("seconds {:.2}", start.elapsed().as_secs_f64());
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let peak = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .and_then(|l| l.split_whitespace().next())
        .expect("peak");
    println!("peak_kb {peak}");
}
