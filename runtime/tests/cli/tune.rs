//! `forkcast tune`, and what generate makes of it.

use crate::bundles::{dense, model, repository, text};
use crate::run::{Ran, forkcast, json, stdout};
use serde_json::Value;
use tempfile::TempDir;

/// A bundle of its own, as a tuning is written into it.
fn bundle() -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let out = text(&folder.path().join("bundle"));
    export(&out);
    (folder, out)
}

fn export(out: &str) {
    let (target, drafter) = (model("tiny-qwen3.5"), model("tiny-qwen3.5-dflash"));
    stdout(&["export", "--target", &target, "--drafter", &drafter, "--out", out]);
}

fn quick(bundle: &str, more: &[&str]) -> Ran {
    let suite = text(&repository().join("tests/models/prompts/prompts_c.jsonl"));
    let mut args = vec![
        "tune",
        bundle,
        "--suite",
        &suite,
        "--samples",
        "1",
        "--max-tokens",
        "24",
    ];
    args.extend([
        "--contexts",
        "64,128,1000000",
        "--max-budget",
        "20",
        "--repeat",
        "1",
    ]);
    args.extend(more);
    forkcast(&args)
}

#[test]
fn measures_chooses_and_is_used() {
    let (_folder, bundle) = bundle();
    let ran = quick(&bundle, &["--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let tune: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let file = std::fs::read(format!("{bundle}/tune.json")).expect("written");
    assert_eq!(tune, serde_json::from_slice::<Value>(&file).expect("JSON"));
    let costs = &tune["costs"]["model"];
    assert_eq!(costs["contexts"], serde_json::json!([64, 128]));
    assert_eq!(tune["costs"]["left_out"], serde_json::json!([1_000_000]));
    assert_eq!(costs["rows"], serde_json::json!([1, 2, 4, 8, 16, 21]));
    let methods: Vec<&str> = tune["acceptance"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|a| a["method"].as_str())
        .collect();
    assert_eq!(methods, ["chain", "ddtree"]);
    for acceptance in tune["acceptance"].as_array().expect("a list") {
        let tau: Vec<f64> = serde_json::from_value(acceptance["tau"].clone()).expect("numbers");
        assert!(
            tau.len() == 21 && tau[0] == 1.0 && tau.is_sorted() && tau[20] > 2.0,
            "{tau:?}"
        );
    }
    let (method, budget) = (&tune["best"][0]["method"], &tune["best"][0]["budget"]);
    assert_eq!(tune["best"].as_array().map(Vec::len), Some(3));
    assert_eq!(tune["random_prompts"], false);

    // What was chosen is the default, and flags win.
    let prompt = ["--ids", "5,6,7", "--max-tokens", "40"];
    let with = |more: &[&str]| json(&[&[bundle.as_str()], &prompt[..], more].concat());
    let tuned = with(&[]);
    assert_eq!((&tuned["method"], &tuned["budget"]), (method, budget));
    let asked = with(&["--method", "ddtree", "--budget", "5"]);
    assert_eq!(
        (&asked["method"], &asked["budget"]),
        (&"ddtree".into(), &5.into())
    );
    let plain = with(&["--method", "plain"]);
    assert_eq!(plain["token_ids"], tuned["token_ids"]);
    let adaptive = with(&["--adaptive"]);
    assert_eq!(adaptive["token_ids"], plain["token_ids"]);
    let used = &adaptive["adaptive"];
    let rounds = used["drafted_rounds"].as_u64().zip(used["plain_rounds"].as_u64());
    assert_eq!(rounds.map(|(a, b)| a + b), adaptive["rounds"].as_u64());
    let ran = forkcast(&["generate", &bundle, "--ids", "5,6,7", "--adaptive"]);
    assert!(
        ran.stderr.contains("adaptive: ") && ran.stderr.contains("tune.json"),
        "{}",
        ran.stderr
    );

    // A tuned bundle is as exported, and is exported over.
    assert_eq!(forkcast(&["verify", &bundle]).code, 0);
    export(&bundle);
    assert!(!std::path::Path::new(&format!("{bundle}/tune.json")).exists());
}

#[test]
fn tables_for_people_and_a_model_without_a_drafter() {
    let (_folder, bundle) = bundle();
    let ran = quick(&bundle, &[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for part in [
        "GFLOP/s",
        "| verify ",
        "| draft ddtree ",
        "| prefill, a token ",
        "best budget",
        "chosen after ",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    let copy = tempfile::tempdir().expect("a folder");
    let out = text(&copy.path().join("dense"));
    stdout(&["export", "--target", &model("tiny-qwen3"), "--out", &out]);
    let args = [
        "tune",
        &out,
        "--samples",
        "1",
        "--max-tokens",
        "8",
        "--contexts",
        "32",
        "--max-budget",
        "3",
    ];
    let ran = forkcast(&[&args[..], &["--repeat", "1"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("random prompts"), "{}", ran.stderr);
    assert!(ran.stdout.contains("plain budget 0"), "{}", ran.stdout);
}

#[test]
fn refusals_and_files_that_do_not_fit() {
    let ran = forkcast(&["generate", &dense(), "--ids", "1", "--adaptive"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("no tune.json") && ran.stderr.contains("forkcast tune"),
        "{}",
        ran.stderr
    );
    let (_folder, bundle) = bundle();
    let ran = forkcast(&[
        "tune",
        &bundle,
        "--samples",
        "1",
        "--max-tokens",
        "4",
        "--contexts",
        "900000",
    ]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    std::fs::write(format!("{bundle}/tune.json"), "{}").expect("written");
    let ran = forkcast(&["generate", &bundle, "--ids", "1,2", "--max-tokens", "4"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("note: tune.json is not used"),
        "{}",
        ran.stderr
    );
}
