//! `forkcast generate` on the trained tiny models.

use crate::bundles::{dense, dflash, mfd, without_text};
use crate::run::{command, finish, forkcast, json, stdout};
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;

const PROMPT: &str = "<|im_start|>user\nWhat is 2 + 3?<|im_end|>\n<|im_start|>assistant\n<think>\n";

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect()
}

fn length(value: &Value) -> usize {
    value.as_array().expect("a list").len()
}

#[test]
fn the_json_object() {
    let answer = json(&[&dflash(), "--prompt", PROMPT, "--max-tokens", "24", "--seed", "7"]);
    let names = "text token_ids prompt_tokens completion_tokens finish_reason method budget seed rounds \
        accepted_lengths tau tokens_per_second seconds";
    assert_eq!(keys(&answer), names.split_whitespace().collect::<Vec<_>>());
    assert_eq!(
        keys(&answer["seconds"]),
        ["prefill", "draft", "tree", "verify", "walk", "commit"]
    );
    assert_eq!(answer["method"], "ddtree");
    assert_eq!(answer["seed"], 7);
    assert_eq!(answer["finish_reason"], "length");
    assert_eq!(answer["completion_tokens"], 24);
    assert_eq!(length(&answer["token_ids"]), 24);
    assert_eq!(answer["rounds"], length(&answer["accepted_lengths"]));
    let lengths = answer["accepted_lengths"].as_array().expect("a list");
    let sum: u64 = lengths.iter().filter_map(Value::as_u64).sum();
    assert!(sum >= 23, "the last round is not cut at max-tokens");
    let tau = answer["tau"].as_f64().expect("a number");
    assert!((tau - sum as f64 / lengths.len() as f64).abs() < 1e-9);
    assert!(answer["tokens_per_second"].as_f64().expect("a number") > 0.0);
}

#[test]
fn all_methods_give_the_same_text() {
    let (dflash, mfd) = (dflash(), mfd());
    for temperature in ["0", "0.8"] {
        let run = |bundle: &str, method: &str| {
            let args = [
                bundle,
                "--prompt",
                PROMPT,
                "--max-tokens",
                "48",
                "--method",
                method,
            ];
            json(&[&args[..], &["--temperature", temperature, "--seed", "5"]].concat())
        };
        let plain = run(&dflash, "plain");
        assert_eq!(
            (&plain["budget"], &plain["tau"]),
            (&Value::from(0), &Value::from(1.0))
        );
        for (bundle, method) in [
            (&dflash, "chain"),
            (&dflash, "ddtree"),
            (&mfd, "ddtree"),
            (&mfd, "mfd"),
        ] {
            let other = run(bundle, method);
            assert_eq!(
                other["token_ids"], plain["token_ids"],
                "{method} at {temperature}"
            );
            assert_eq!(other["text"], plain["text"]);
            assert_eq!(other["finish_reason"], plain["finish_reason"]);
        }
    }
}

#[test]
fn the_best_method_is_the_default() {
    for (bundle, method) in [(dense(), "plain"), (dflash(), "ddtree"), (mfd(), "mfd")] {
        assert_eq!(
            json(&[&bundle, "--ids", "1,2,3", "--max-tokens", "2"])["method"],
            method
        );
    }
}

#[test]
fn text_streams_to_stdout() {
    let bundle = dflash();
    let args = ["--prompt", PROMPT, "--max-tokens", "40"];
    let ran = forkcast(&[&["generate", &bundle][..], &args].concat());
    assert_eq!(ran.code, 0);
    let text = json(&[&[bundle.as_str()][..], &args].concat())["text"].clone();
    assert_eq!(Value::from(ran.stdout), text);
    assert!(
        ran.stderr.contains("tokens/s") && ran.stderr.contains("tau"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("note:"), "{}", ran.stderr);
}

#[test]
fn a_stop_string_cuts_the_text() {
    let bundle = dflash();
    let whole = json(&[
        &bundle,
        "--prompt",
        PROMPT,
        "--max-tokens",
        "40",
        "--method",
        "plain",
    ]);
    let text = whole["text"].as_str().expect("text");
    // Any piece from the middle that does not occur before.
    let stop = &text[text.len() / 2..text.len() / 2 + 6];
    let before = text.split(stop).next().expect("a part");
    for method in ["plain", "chain", "ddtree"] {
        let args = [
            &bundle,
            "--prompt",
            PROMPT,
            "--max-tokens",
            "40",
            "--stop",
            "never",
            "--stop",
            stop,
        ];
        let cut = json(&[&args[..], &["--method", method]].concat());
        assert_eq!(cut["text"], before, "{method}");
        assert_eq!(cut["finish_reason"], "stop");
        let ids = cut["token_ids"].as_array().expect("ids");
        assert_eq!(ids[..], whole["token_ids"].as_array().expect("ids")[..ids.len()]);
        let rounds: u64 = cut["accepted_lengths"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(Value::as_u64)
            .sum();
        assert_eq!(rounds as usize + 1, ids.len(), "a round ends at the stop");
    }
}

#[test]
fn a_stop_token_ends_the_text() {
    let answer = json(&[&dflash(), "--prompt", PROMPT, "--max-tokens", "400"]);
    assert_eq!(answer["finish_reason"], "stop");
    let last = answer["token_ids"]
        .as_array()
        .and_then(|ids| ids.last())
        .expect("ids");
    assert!(*last == 2044 || *last == 2042, "the stop token is in token_ids");
    assert!(!answer["text"].as_str().expect("text").contains("<|im_end|>"));
}

#[test]
fn conversations_and_thinking() {
    let bundle = dflash();
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(br#"{"messages": [{"role": "user", "content": "What is 2 + 3?"}]}"#)
        .expect("written");
    let path = file.path().to_str().expect("a plain path");
    let tokens = |thinking: &[&str]| {
        let args = [&bundle, "--chat", path, "--max-tokens", "8"];
        json(&[&args[..], thinking].concat())
    };
    let on = tokens(&[]);
    assert_eq!(on["token_ids"], tokens(&["--thinking", "on"])["token_ids"]);
    assert_eq!(
        on["token_ids"],
        json(&[&bundle, "--prompt", PROMPT, "--max-tokens", "8"])["token_ids"]
    );
    let off = tokens(&["--thinking", "off"])["prompt_tokens"].as_u64();
    assert_eq!(
        off,
        on["prompt_tokens"].as_u64().map(|n| n + 2),
        "an empty think block is longer"
    );
    let piped = finish(
        command()
            .args(["generate", &bundle, "--max-tokens", "1", "--json", "--chat", "-"])
            .write_stdin("{}"),
    );
    assert_eq!(piped.code, 2);
    assert!(piped.stderr.contains("`messages` is missing"));
}

#[test]
fn a_model_without_text() {
    let bundle = without_text();
    let answer = json(&[&bundle, "--ids", "1,2,3", "--max-tokens", "3"]);
    assert_eq!(answer["text"], Value::Null);
    let ids = answer["token_ids"]
        .as_array()
        .expect("ids")
        .iter()
        .map(Value::to_string)
        .collect::<Vec<_>>();
    assert_eq!(
        stdout(&["generate", &bundle, "--ids", "1,2,3", "--max-tokens", "3"]),
        ids.join(",")
    );
}

#[test]
fn notes_on_values_that_differ() {
    let (dflash, mfd) = (dflash(), mfd());
    let note = |bundle: &str, args: &[&str]| {
        let ran = forkcast(
            &[
                &["generate", bundle, "--ids", "1,2", "--max-tokens", "2"][..],
                args,
            ]
            .concat(),
        );
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.stderr
    };
    let chain = note(&dflash, &["--method", "chain", "--budget", "64"]);
    assert!(
        chain.contains("note: method chain uses budget 15 here, not 64"),
        "{chain}"
    );
    let plain = note(&dflash, &["--method", "plain", "--budget", "1"]);
    assert!(
        plain.contains("note: method plain uses budget 0 here, not 1"),
        "{plain}"
    );
    assert!(note(&mfd, &["--mode", "3"]).contains("note: --mode does not act on method mfd"));
    assert!(note(&dflash, &["--thinking", "off"]).contains("note: --thinking acts on --chat only"));
    let used = json(&[
        &dflash,
        "--ids",
        "1,2",
        "--max-tokens",
        "2",
        "--method",
        "chain",
        "--budget",
        "64",
    ]);
    assert_eq!(used["budget"], 15);
}

#[test]
fn flags_win_over_the_environment() {
    let bundle = dense();
    let run = |flags: &[&str]| {
        let mut command = command();
        command
            .env("FORKCAST_MAX_TOKENS", "3")
            .env("FORKCAST_PROMPT", "x")
            .env("FORKCAST_JSON", "1");
        let ran = finish(command.args(["generate", &bundle]).args(flags));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        serde_json::from_str::<Value>(&ran.stdout).expect("JSON")
    };
    assert_eq!(run(&[])["completion_tokens"], 3);
    let flagged = run(&["--max-tokens", "2", "--ids", "1,2,3,4"]);
    assert_eq!(
        (&flagged["completion_tokens"], &flagged["prompt_tokens"]),
        (&Value::from(2), &Value::from(4))
    );
}

#[test]
fn the_context_ends_an_answer() {
    let answer = json(&[
        &dflash(),
        "--ids",
        "1,2,3,4",
        "--max-context",
        "12",
        "--budget",
        "64",
    ]);
    assert_eq!(
        (&answer["completion_tokens"], &answer["finish_reason"]),
        (&Value::from(8), &Value::from("length"))
    );
    let none = json(&[&dense(), "--ids", "1", "--max-tokens", "0"]);
    assert_eq!(
        (&none["completion_tokens"], &none["text"]),
        (&Value::from(0), &Value::from(""))
    );
}

#[test]
fn a_broken_pipe_is_no_error() {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_forkcast"))
        .args(["generate", &dense(), "--prompt", PROMPT, "--max-tokens", "300"])
        .env(
            "ORT_DYLIB_PATH",
            crate::bundles::repository().join("lib/libonnxruntime.so"),
        )
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
