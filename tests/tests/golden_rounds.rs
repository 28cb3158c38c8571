//! Rounds against the slow Python reference: the same text and the same accepted length in every
//! round, for every method on the trained pairs.

use forkcast::decode::{Ignore, Method, Request, decode};
use forkcast::sample::Sampling;
use forkcast_engines::ort::OrtBackend;
use forkcast_tests::bundles::Bundle;
use forkcast_tests::paths;
use serde_json::Value;
use std::collections::BTreeMap;

fn ids(value: &Value) -> Vec<u32> {
    let list = value.as_array().expect("a list");
    list.iter()
        .map(|v| u32::try_from(v.as_u64().expect("an id")).expect("small"))
        .collect()
}

fn reference() -> Value {
    let path = paths::repository().join("tests/golden/rounds.json");
    serde_json::from_slice(&std::fs::read(path).expect("rounds.json")).expect("valid JSON")
}

/// Rounds are compared up to the end of the shorter list's common text; the reference stops at its own
/// limit of tokens.
#[test]
fn accepted_lengths_equal_the_reference_round_by_round() {
    let mut compared = 0;
    let mut engines: BTreeMap<String, OrtBackend> = BTreeMap::new();
    for (target, cases) in reference().as_object().expect("an object") {
        for case in cases.as_array().expect("a list") {
            let (prompt, expected) = (ids(&case["prompt_ids"]), ids(&case["token_ids"]));
            for round in case["rounds"].as_array().expect("a list") {
                let drafter = round["drafter"].as_str().expect("a name");
                let method: Method = round["method"]
                    .as_str()
                    .expect("a name")
                    .parse()
                    .expect("a method");
                let budget = round["budget"].as_u64().expect("a number") as usize;
                let engine = engines
                    .entry(drafter.to_owned())
                    .or_insert_with(|| Bundle::trained(target, drafter).open());
                let request = Request {
                    method,
                    budget,
                    mode: 0,
                    max_tokens: expected.len(),
                    sampling: Sampling {
                        temperature: 0.0,
                        ..Sampling::default()
                    },
                    seed: 0,
                    stop_ids: vec![2042, 2044],
                    logprobs: None,
                };
                let report = decode(engine, &prompt, &request, &mut Ignore).expect("decodes");
                let what = format!("{target} {drafter} {method} {budget} domain {}", case["domain"]);
                assert_eq!(report.token_ids, expected, "{what}");
                let lengths: Vec<u32> = report.accepted_lengths.iter().map(|n| *n as u32).collect();
                assert_eq!(lengths, ids(&round["accepted_lengths"]), "{what}");
                compared += lengths.len();
            }
        }
    }
    assert!(compared > 500, "only {compared} rounds were compared");
}
