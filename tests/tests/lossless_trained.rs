//! Invariants 1 and 2 of DESIGN on the trained pairs.

use forkcast::decode::{Ignore, Method, Report, Request, decode};
use forkcast::sample::Sampling;
use forkcast_engines::backend::Backend;
use forkcast_tests::bundles::{Bundle, prefill};
use forkcast_tests::paths;
use forkcast_tests::tensors::{Golden, max_difference};

const BUDGETS: [usize; 6] = [0, 1, 2, 15, 64, 256];

fn request(method: Method, budget: usize, temperature: f32) -> Request {
    Request {
        method,
        budget,
        mode: 0,
        max_tokens: 64,
        sampling: Sampling {
            temperature,
            ..Sampling::default()
        },
        seed: 5,
        stop_ids: Vec::new(),
        logprobs: None,
    }
}

fn methods(engine: &dyn Backend) -> Vec<Method> {
    let modes = engine.shape().modes;
    Method::ALL
        .into_iter()
        .filter(|m| *m != Method::Mfd || modes > 1)
        .collect()
}

fn run(engine: &mut dyn Backend, prompt: &[u32], request: &Request) -> Report {
    decode(engine, prompt, request, &mut Ignore).expect("decodes")
}

/// Prompts and the 64 greedy tokens that `transformers` continues them with.
fn goldens(target: &str) -> Vec<(Vec<u32>, Vec<u32>, Vec<f32>)> {
    let golden = Golden::read(&paths::repository().join(format!("tests/golden/{target}.safetensors")));
    let get = |p: &str| {
        let key = |part: &str| format!("{p}.{part}");
        (
            golden.ids(&key("ids")),
            golden.ids(&key("greedy")),
            golden.f32(&key("greedy_gap")),
        )
    };
    ["a", "c", "e"].map(get).to_vec()
}

#[test]
fn greedy_text_equals_transformers_for_every_method_and_budget() {
    for (target, drafter) in [
        ("tiny-qwen3.5", "tiny-qwen3.5-dflash"),
        ("tiny-qwen3.5", "tiny-qwen3.5-mfd"),
        ("tiny-qwen3", "tiny-qwen3-dflash"),
    ] {
        let mut engine = Bundle::trained(target, drafter).open();
        for (prompt, expected, gaps) in goldens(target) {
            let narrowest = gaps.iter().copied().fold(f32::INFINITY, f32::min);
            assert!(narrowest > 1e-4, "{target}: a golden is a near tie ({narrowest})");
            for method in methods(&engine) {
                for budget in BUDGETS {
                    let report = run(&mut engine, &prompt, &request(method, budget, 0.0));
                    assert_eq!(report.token_ids, expected, "{target} {drafter} {method} {budget}");
                }
            }
        }
    }
}

#[test]
fn sampled_text_is_the_same_for_every_method_and_budget() {
    let mut engine = Bundle::trained("tiny-qwen3.5", "tiny-qwen3.5-mfd").open();
    for (prompt, _, _) in goldens("tiny-qwen3.5") {
        for (temperature, top_k, top_p) in [(1.0, 0, 1.0), (0.6, 20, 0.95)] {
            let shaped = |method, budget| {
                let mut r = request(method, budget, temperature);
                (r.sampling.top_k, r.sampling.top_p) = (top_k, top_p);
                r
            };
            let plain = run(&mut engine, &prompt, &shaped(Method::Plain, 0));
            for method in methods(&engine) {
                for budget in BUDGETS {
                    let report = run(&mut engine, &prompt, &shaped(method, budget));
                    assert_eq!(
                        report.token_ids, plain.token_ids,
                        "{method} {budget} T={temperature}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_state_after_an_answer_equals_the_sequential_state() {
    for (target, drafter) in [
        ("tiny-qwen3.5", "tiny-qwen3.5-mfd"),
        ("tiny-qwen3", "tiny-qwen3-dflash"),
    ] {
        let bundle = Bundle::trained(target, drafter);
        let (mut engine, mut sequential) = (bundle.open(), bundle.open());
        let (prompt, _, _) = goldens(target).remove(0);
        for method in methods(&engine) {
            let report = run(&mut engine, &prompt, &request(method, 64, 0.0));
            sequential.reset().expect("reset");
            prefill(&mut sequential, &prompt, 64);
            prefill(
                &mut sequential,
                &report.token_ids[..report.token_ids.len() - 1],
                1,
            );
            let (a, b) = (
                engine.snapshot().expect("snapshot"),
                sequential.snapshot().expect("snapshot"),
            );
            assert_eq!(a.committed, b.committed, "{method}");
            for (x, y) in a.states.iter().zip(&b.states) {
                let difference = max_difference(x, y);
                assert!(
                    difference < 1e-4,
                    "{target} {method}: states differ by {difference}"
                );
            }
        }
    }
}

/// A copy of a drafter whose weights are replaced: by noise (bf16 between 1/16 and 1/8, either sign), or by
/// zeros, so that its drafts are the same ids at every position.
fn replaced(folder: &std::path::Path, noise: bool) {
    let source = paths::model("tiny-qwen3.5-dflash");
    std::fs::copy(source.join("config.json"), folder.join("config.json")).expect("config");
    let mut bytes = std::fs::read(source.join("model.safetensors")).expect("weights");
    let header = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) as usize;
    let mut state = 1u32;
    for pair in bytes[8 + header..].chunks_exact_mut(2) {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let number = 0x3d80 | ((state >> 16) & 0x807f) as u16;
        pair.copy_from_slice(&if noise { number } else { 0 }.to_le_bytes());
    }
    std::fs::write(folder.join("model.safetensors"), bytes).expect("written");
}

#[test]
fn a_random_and_an_always_wrong_drafter_give_the_same_text() {
    let (prompt, expected, _) = goldens("tiny-qwen3.5").remove(0);
    let trained = Bundle::trained("tiny-qwen3.5", "tiny-qwen3.5-dflash");
    let mut taus = Vec::new();
    for noise in [None, Some(true), Some(false)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let bundle = noise.map(|noise| {
            replaced(folder.path(), noise);
            Bundle::export(&paths::model("tiny-qwen3.5"), Some(folder.path()), None)
        });
        let mut engine = bundle.as_ref().unwrap_or(&trained).open();
        for (method, budget) in [(Method::Chain, 15), (Method::Ddtree, 15), (Method::Ddtree, 64)] {
            let report = run(&mut engine, &prompt, &request(method, budget, 0.0));
            assert_eq!(report.token_ids, expected, "{noise:?} {method} {budget}");
            taus.push(report.tau());
        }
    }
    assert!(
        taus[0] > 2.0 && taus[3] < 1.5 && taus[6] < 1.5,
        "only the trained drafter is accepted: {taus:?}"
    );
}
