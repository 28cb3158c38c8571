//! The published shapes, from sparse checkpoints: every plan of a set, its size, and the memory that building takes.

use crate::run::{export, ok};
use crate::sparse;

/// Bounds of a set: memory in kB, and bytes of all plans.
const PEAK_KB: u64 = 4 << 20;
const PLANS: u64 = 100_000_000;

fn set(target: &str, drafter: &str, recipe: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    sparse::write(&at("target"), target);
    sparse::write(&at("drafter"), drafter);
    export(&at("target"), &at("drafter"), &at("bundle"));
    let (bundle, engine) = (at("bundle"), at("engine"));
    let (bundle, engine) = (bundle.to_str().expect("UTF-8"), engine.to_str().expect("UTF-8"));
    let ran = ok(&["build", bundle, "--recipe", recipe, "--out", engine]);
    let found: serde_json::Value =
        serde_json::from_str(&ok(&["inspect", engine, "--json"]).stdout).expect("one JSON object");
    let plans = found["engine"]["plans"].as_object().expect("plans");
    let bytes: u64 = plans.values().filter_map(|p| p["bytes"].as_u64()).sum();
    println!(
        "{target} + {drafter} for {recipe}: {:.0} s, peak {} MB, {} plans of {:.1} MB",
        ran.seconds,
        ran.peak_kb / 1024,
        plans.len(),
        bytes as f64 / 1e6
    );
    assert!(ran.peak_kb < PEAK_KB, "{} kB", ran.peak_kb);
    assert!(bytes < PLANS, "{bytes} bytes");
    assert_eq!(found["engine"]["contexts"], serde_json::json!([4096, 16384]));
    assert_eq!(
        found["engine"]["recipe"]["rows"],
        serde_json::json!([1, 16, 32, 64, 128, 257])
    );
    ok(&["verify", engine, "--gpu", recipe]);
}

#[test]
fn qwen35_4b_with_mfd_for_sm120() {
    set("qwen3.5-4b", "qwen3.5-4b-mfd", "rtx-pro-6000-blackwell");
}

#[test]
fn qwen35_4b_with_mfd_for_sm89() {
    set("qwen3.5-4b", "qwen3.5-4b-mfd", "l40s");
}

#[test]
fn qwen3_4b_with_mdraft_for_sm120() {
    set("qwen3-4b", "qwen3-4b-mdraft", "rtx-5090");
}

#[test]
fn qwen3_4b_with_mdraft_for_sm89() {
    set("qwen3-4b", "qwen3-4b-mdraft", "rtx-4090");
}
