//! `forkcast verify --deep`.

use crate::bundles::{dense, dflash, mfd, repository, text};
use crate::run::{forkcast, stdout};
use serde_json::Value;

#[test]
fn proves_the_tiny_models() {
    let suite = text(&repository().join("tests/models/prompts/prompts_c.jsonl"));
    for (bundle, cells) in [(mfd(), 7), (dflash(), 5), (dense(), 1)] {
        let mut args = vec![
            "verify",
            &bundle,
            "--deep",
            "--json",
            "--max-tokens",
            "24",
            "--budgets",
            "8,40",
        ];
        args.extend(["--suite", &suite, "--samples", "1", "--seeds", "5"]);
        let report: Value = serde_json::from_str(&stdout(&args)).expect("JSON");
        assert_eq!(report["ok"], true);
        assert_eq!(report["checks"][0]["outcome"], "ok");
        let proof = &report["proof"];
        let list = |name: &str| proof[name].as_array().unwrap_or_else(|| panic!("{name}"));
        assert_eq!(list("cells").len(), cells);
        assert_eq!(list("tokens").len(), 2);
        for equality in list("tokens") {
            assert_eq!(equality["answers"], cells);
            assert_eq!(equality["divergences"], serde_json::json!([]));
        }
        for state in list("states") {
            assert!(state["rounds"].as_u64() > Some(1), "{state}");
            assert_eq!(state["first"], Value::Null);
        }
        for operator in list("operators") {
            assert_eq!(operator["holds"], true, "{operator}");
        }
    }
}

#[test]
fn works_without_a_suite_and_prints_a_table() {
    let ran = forkcast(&[
        "verify",
        &dflash(),
        "--deep",
        "--samples",
        "1",
        "--max-tokens",
        "8",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for part in [
        "bytes",
        "tokens of plain, T = 0",
        "state after rounds, ddtree 64",
        "TreeDeltaRule",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    assert!(!ran.stdout.contains("NO"), "{}", ran.stdout);
}

#[test]
fn refusals() {
    let bundle = dflash();
    for (args, message) in [
        (&["--temperature", "0"][..], "--temperature 0"),
        (&["--near-tie", "x"], "a gap of logits"),
        (&["--suite", "/nowhere.jsonl"], "/nowhere.jsonl"),
        (&["--budgets", "5000"], "a budget is a number"),
    ] {
        let ran = forkcast(&[&["verify", &bundle, "--deep"], args].concat());
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(message), "{args:?}: {}", ran.stderr);
    }
}
