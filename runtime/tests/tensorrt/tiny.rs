//! The tiny pairs: built for two GPUs, inspected, verified; weights inside and outside.

use crate::run::{forkcast, ok, tiny};
use serde_json::Value;

fn inspect(engine: &str) -> Value {
    serde_json::from_str(&ok(&["inspect", engine, "--json"]).stdout).expect("one JSON object")
}

fn build_and_check(target: &str, drafter: &str, stages: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let bundle = tiny(folder.path(), target, drafter);
    for (recipe, sm, other) in [
        ("rtx-pro-6000-blackwell", 120, "rtx-4090"),
        ("l40s", 89, "rtx-5090"),
    ] {
        let engine = folder.path().join(recipe);
        let engine = engine.to_str().expect("UTF-8");
        let ran = ok(&["build", &bundle, "--recipe", recipe, "--out", engine]);
        println!(
            "{target} {recipe}: {:.1} s, {} MB",
            ran.seconds,
            ran.peak_kb / 1024
        );
        let found = inspect(engine);
        assert_eq!(found["engine"]["requires"]["sm"], sm);
        assert_eq!(found["engine"]["requires"]["tensorrt"], "1.7.1");
        let plans = found["engine"]["plans"].as_object().expect("plans");
        assert_eq!(plans.keys().map(String::as_str).collect::<Vec<_>>(), stages);
        for (stage, plan) in plans {
            let bytes = plan["bytes"].as_u64().expect("bytes");
            assert!(bytes > 1000, "{stage}: {bytes}");
        }
        assert_eq!(plans["target"]["profiles"].as_array().expect("profiles").len(), 6);
        ok(&["verify", engine, "--gpu", recipe]);
        let ran = forkcast(&["verify", engine, "--gpu", other]);
        assert_eq!(ran.code, Some(3), "{}", ran.stdout);
        assert!(
            ran.stderr.contains("SM") && ran.stderr.contains("hint:"),
            "{}",
            ran.stderr
        );
        let text = ok(&["inspect", engine]).stdout;
        assert!(
            text.contains("TensorRT-RTX 1.7.1") && text.contains("target.plan"),
            "{text}"
        );
    }
}

#[test]
fn hybrid_pair() {
    build_and_check(
        "tiny-qwen3.5",
        "tiny-qwen3.5-mfd",
        &[
            "commit",
            "context",
            "draft",
            "head",
            "head_greedy",
            "head_top",
            "prefill",
            "target",
        ],
    );
}

#[test]
fn dense_pair() {
    build_and_check(
        "tiny-qwen3",
        "tiny-qwen3-dflash",
        &[
            "context",
            "draft",
            "head",
            "head_greedy",
            "head_top",
            "prefill",
            "target",
        ],
    );
}

#[test]
fn weights_inside_the_plans() {
    let folder = tempfile::tempdir().expect("a folder");
    let bundle = tiny(folder.path(), "tiny-qwen3", "tiny-qwen3-dflash");
    let engine = folder.path().join("engine");
    let engine = engine.to_str().expect("UTF-8");
    ok(&[
        "build",
        &bundle,
        "--recipe",
        "rtx-4090",
        "--weights",
        "embedded",
        "--out",
        engine,
    ]);
    let found = inspect(engine);
    assert_eq!(found["engine"]["weights"], "embedded");
    for (stage, plan) in found["engine"]["plans"].as_object().expect("plans") {
        assert_eq!(plan["weights"].as_array().expect("list").len(), 0, "{stage}");
    }
    ok(&["verify", engine, "--gpu", "rtx-4090"]);
    // Another checkpoint of the same shape cannot run on it.
    let models = crate::run::repository().join("tests/models");
    let other = folder.path().join("other");
    crate::run::export(
        &models.join("tiny-qwen3"),
        &models.join("tiny-qwen3-mdraft"),
        &other,
    );
    let ran = forkcast(&[
        "verify",
        engine,
        "--gpu",
        "rtx-4090",
        "--bundle",
        other.to_str().expect("UTF-8"),
    ]);
    assert_eq!(ran.code, Some(3), "{}", ran.stdout);
    assert!(ran.stderr.contains("inside the plans"), "{}", ran.stderr);
}

/// MDraft was published in float32, DFlash in bf16: their bundles lay the same projections out differently.
#[test]
fn a_retrained_drafter_needs_no_new_engine() {
    let folder = tempfile::tempdir().expect("a folder");
    let bundle = tiny(folder.path(), "tiny-qwen3", "tiny-qwen3-dflash");
    let models = crate::run::repository().join("tests/models");
    let other = folder.path().join("other");
    crate::run::export(
        &models.join("tiny-qwen3"),
        &models.join("tiny-qwen3-mdraft"),
        &other,
    );
    let engine = folder.path().join("engine");
    let engine = engine.to_str().expect("UTF-8");
    ok(&["build", &bundle, "--recipe", "rtx-4090", "--out", engine]);
    ok(&[
        "verify",
        engine,
        "--gpu",
        "rtx-4090",
        "--bundle",
        other.to_str().expect("UTF-8"),
    ]);
}
