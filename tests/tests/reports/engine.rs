//! Cases on the CPU engine and the trained tiny pair.

use forkcast::decode::{Ignore, Method, Request, decode, resume};
use forkcast::sample::Sampling;
use forkcast_engines::backend::Backend;
use forkcast_engines::ort::OrtBackend;
use forkcast_tests::bundles::{Bundle, prefill};
use forkcast_tests::paths;
use forkcast_tests::tensors::Golden;

fn request(method: Method, budget: usize, max_tokens: usize) -> Request {
    Request {
        method,
        budget,
        mode: 0,
        max_tokens,
        sampling: Sampling {
            temperature: 0.0,
            ..Sampling::default()
        },
        seed: 1,
        stop_ids: Vec::new(),
        logprobs: None,
    }
}

fn prompt() -> Vec<u32> {
    Golden::read(&paths::repository().join("tests/golden/tiny-qwen3.5.safetensors")).ids("a.ids")
}

fn text(engine: &mut OrtBackend, prompt: &[u32], request: &Request) -> Vec<u32> {
    decode(engine, prompt, request, &mut Ignore)
        .expect("decodes")
        .token_ids
}

/// A prompt that repeats itself, as a list to copy does: 200 tokens, every method, hybrid target.
#[test]
fn vllm_39273_repetitive_prompts_give_plain_decodings_text() {
    let mut engine = Bundle::trained("tiny-qwen3.5", "tiny-qwen3.5-mfd").open();
    let prompt = prompt().repeat(6);
    let plain = text(&mut engine, &prompt, &request(Method::Plain, 0, 200));
    for (method, budget) in [(Method::Chain, 15), (Method::Ddtree, 60), (Method::Mfd, 60)] {
        assert_eq!(
            text(&mut engine, &prompt, &request(method, budget, 200)),
            plain,
            "{method}"
        );
    }
}

/// A kept state of length 1 to 6, shorter and longer than the convolution's width, continues like a cold run.
#[test]
fn sglang_34043_states_kept_at_any_short_length_continue_like_a_cold_run() {
    let mut engine = Bundle::trained("tiny-qwen3.5", "tiny-qwen3.5-dflash").open();
    let prompt = prompt();
    let wanted = request(Method::Ddtree, 24, 24);
    let cold = text(&mut engine, &prompt, &wanted);
    for shared in 1..=6 {
        engine.reset().expect("reset");
        engine.set_drafting(true);
        prefill(&mut engine, &prompt[..shared], 256);
        let kept = engine.snapshot().expect("a snapshot");
        // Another conversation goes on from there, then this one does.
        let tail: Vec<u32> = prompt[shared..].iter().rev().copied().collect();
        prefill(&mut engine, &tail, 256);
        engine.rewind(&kept).expect("rewinds");
        let report = resume(&mut engine, &prompt, &wanted, &mut Ignore).expect("decodes");
        assert_eq!((report.token_ids, report.cached_tokens), (cold.clone(), shared));
    }
}

/// Snapshots at every length modulo 4, taken and used again around a block of 16 rows.
#[test]
fn sglang_37817_states_kept_beside_a_block_are_those_of_their_length() {
    let bundle = Bundle::trained("tiny-qwen3.5", "tiny-qwen3.5-dflash");
    let (mut engine, mut oracle) = (bundle.open(), bundle.open());
    let prompt = prompt();
    for length in 1..=17.min(prompt.len() - 1) {
        engine.reset().expect("reset");
        engine.set_drafting(true);
        let report = decode(
            &mut engine,
            &prompt[..length],
            &request(Method::Chain, 15, 20),
            &mut Ignore,
        );
        let report = report.expect("decodes");
        let kept = engine.snapshot().expect("a snapshot");
        let all: Vec<u32> = prompt[..length]
            .iter()
            .chain(&report.token_ids)
            .copied()
            .collect();
        oracle.reset().expect("reset");
        prefill(&mut oracle, &all[..kept.committed], 1);
        let expected = oracle.snapshot().expect("a snapshot");
        assert_eq!(kept.committed, expected.committed);
        for (a, b) in kept.states.iter().flatten().zip(expected.states.iter().flatten()) {
            assert!(
                (a - b).abs() <= 1e-3 * b.abs().max(1.0),
                "length {length}: {a} and {b}"
            );
        }
    }
}
