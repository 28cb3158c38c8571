//! `forkcast bench` with the real engine.

use crate::bundles::{dflash, repository, text};
use crate::run::{forkcast, stdout};
use serde_json::Value;

fn prompts(domain: char) -> String {
    text(&repository().join(format!("tests/models/prompts/prompts_{domain}.jsonl")))
}

fn read(path: &std::path::Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("a record")).expect("JSON")
}

#[test]
fn a_bench_writes_tables_record_and_plots_and_compares_with_itself() {
    let bundle = dflash();
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("results");
    let (a, e) = (prompts('a'), prompts('e'));
    let args = [
        "bench",
        &bundle,
        "--suite",
        &a,
        "--suite",
        &e,
        "--samples",
        "1",
        "--budgets",
        "8,20",
        "--temperatures",
        "0,1",
        "--repeat",
        "2",
        "--max-tokens",
        "24",
        "--out",
        &text(&out),
    ];
    let tables = stdout(&args);
    let record = read(&out.join("bench.json"));
    let cells = record["cells"].as_array().expect("cells");
    // Three answers: one prompt of one turn, one of two.
    assert_eq!(
        record["responses"].as_array().expect("responses").len(),
        3 * cells.len()
    );
    for response in record["responses"].as_array().expect("responses") {
        assert_eq!(response["differs_at"], Value::Null, "{response}");
        assert_eq!(response["samples"].as_array().expect("samples").len(), 2);
    }
    assert!(
        tables.contains("prompts_a") && tables.contains("T = 1"),
        "{tables}"
    );
    for name in ["bench.md", "speedup-t0.svg", "acceptance-t1.svg", "stages-t1.svg"] {
        assert!(out.join(name).is_file(), "{name} is missing");
    }
    let json = text(&out.join("bench.json"));
    let said = stdout(&["bench", "compare", &json, &json, "--gate"]);
    assert!(said.contains("same") && !said.contains("WORSE"), "{said}");
    // The same place again: a bench may be replaced, other things may not.
    stdout(&args);
    std::fs::write(out.join("notes.txt"), "mine").expect("written");
    let refused = forkcast(&args);
    assert!(
        refused.code == 2 && refused.stderr.contains("notes.txt"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_worse_record_fails_the_gate() {
    let bundle = dflash();
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("results");
    let args = [
        "bench",
        &bundle,
        "--samples",
        "1",
        "--budgets",
        "8",
        "--max-tokens",
        "16",
        "--out",
        &text(&out),
    ];
    stdout(&args);
    let mut record = read(&out.join("bench.json"));
    for response in record["responses"].as_array_mut().expect("responses") {
        if response["cell"] != 0 {
            for sample in response["samples"].as_array_mut().expect("samples") {
                sample["decode"] = (sample["decode"].as_f64().expect("seconds") * 10.0).into();
            }
        }
    }
    let slow = folder.path().join("slow.json");
    std::fs::write(&slow, record.to_string()).expect("written");
    let (fast, slow) = (text(&out.join("bench.json")), text(&slow));
    let said = forkcast(&["bench", "compare", &fast, &slow, "--gate"]);
    assert!(said.code == 1 && said.stdout.contains("WORSE"), "{}", said.stdout);
    assert_eq!(forkcast(&["bench", "compare", &fast, &slow]).code, 0);
    assert_eq!(forkcast(&["bench", "compare", &slow, &fast, "--gate"]).code, 0);
}

#[test]
fn drafting_over_frequent_tokens_leaves_the_text_alone() {
    let bundle = dflash();
    let text = prompts('a');
    let args = [
        "generate",
        &bundle,
        "--prompt",
        "Maya has 3 apples",
        "--max-tokens",
        "40",
        "--json",
    ];
    let ids = |more: &[&str]| -> Value {
        let all: Vec<&str> = args.iter().chain(more).copied().collect();
        serde_json::from_str::<Value>(&stdout(&all)).expect("JSON")["token_ids"].clone()
    };
    let whole = ids(&[]);
    assert!(whole.is_array(), "{whole}");
    assert_eq!(whole, ids(&["--draft-vocab", "200", "--draft-vocab-text", &text]));
    let refused = forkcast(&[&args[..], &["--draft-vocab", "200"]].concat());
    assert!(
        refused.code == 2 && refused.stderr.contains("--draft-vocab-text"),
        "{}",
        refused.stderr
    );
    let tables = stdout(&[
        "bench",
        &bundle,
        "--suite",
        &text,
        "--samples",
        "1",
        "--budgets",
        "8",
        "--max-tokens",
        "16",
        "--repeat",
        "1",
        "--draft-vocab",
        "100",
    ]);
    assert!(tables.contains("drafts over 100 tokens"), "{tables}");
}

#[test]
fn bad_input_is_named() {
    let bundle = dflash();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("set.jsonl");
    std::fs::write(&file, "{\"ids\": [1]}\n{\"ids\": [99999999]}\n").expect("written");
    let file = text(&file);
    for (args, part) in [
        (vec!["bench"], "MODEL"),
        (vec!["bench", "no-such-folder"], "no-such-folder"),
        (vec!["bench", &bundle, "--suite", "none.jsonl"], "none.jsonl"),
        (
            vec!["bench", &bundle, "--suite", &file, "--max-tokens", "4"],
            "99999999",
        ),
        (vec!["bench", &bundle, "--budgets", "2000"], "--budgets"),
        (vec!["bench", &bundle, "--repeat", "0"], "--repeat"),
        (
            vec!["bench", &bundle, "--synthetic-acceptance", "0.5"],
            "--synthetic-acceptance",
        ),
        (
            vec!["bench", &bundle, "--prompt-tokens", "99999999"],
            "--prompt-tokens",
        ),
        (vec!["bench", "compare", &file, &file], "set.jsonl"),
        (vec!["bench", "compare", &file], "AFTER"),
    ] {
        let ran = forkcast(&args);
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(part) && ran.stderr.contains("hint"),
            "{args:?}: {}",
            ran.stderr
        );
    }
}
