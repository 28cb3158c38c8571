//! Drafting over some of the vocabulary: candidates are among them and normalised, the text is the same.

use forkcast::decode::{Ignore, Method, Request, decode};
use forkcast::sample::Sampling;
use forkcast_engines::backend::{Backend, Candidates};
use forkcast_engines::ort::OrtBackend;
use forkcast_tests::bundles::Bundle;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::index::sample;

const PROMPT: [u32; 12] = [2043, 11, 50, 300, 7, 9, 1200, 45, 3, 800, 2044, 5];

fn request(method: Method, temperature: f32) -> Request {
    Request {
        method,
        budget: 24,
        mode: 0,
        max_tokens: 60,
        sampling: Sampling {
            temperature,
            ..Sampling::default()
        },
        seed: 5,
        stop_ids: Vec::new(),
        logprobs: None,
    }
}

/// Candidates of all modes after the prompt.
fn candidates(engine: &mut OrtBackend, k: usize) -> Candidates {
    decode(
        engine,
        &PROMPT,
        &Request {
            max_tokens: 1,
            ..request(Method::Mfd, 0.0)
        },
        &mut Ignore,
    )
    .expect("decodes");
    engine.draft(9).expect("drafts");
    let mut found = Candidates::default();
    engine.candidates(0..8, k, &mut found).expect("candidates");
    found
}

#[test]
fn candidates_are_the_best_of_the_list_and_normalised_over_it() {
    let bundle = Bundle::trained("tiny-qwen3.5", "tiny-qwen3.5-mfd");
    let mut engine = bundle.open();
    let all = candidates(&mut engine, 2048);
    let mut dice = StdRng::seed_from_u64(3);
    let list: Vec<u32> = sample(&mut dice, 2048, 300)
        .into_iter()
        .map(|i| i as u32)
        .collect();
    engine.shorten_draft(&list).expect("a list");
    let found = candidates(&mut engine, 2048);
    assert_eq!((found.modes, found.positions, found.k), (8, all.positions, 300));
    for row in 0..8 * all.positions {
        let (from, to) = (row * 2048, row * 300);
        // The slow way: everything, then only what is in the list, normalised again.
        let kept: Vec<usize> = (from..from + 2048)
            .filter(|i| list.contains(&all.ids[*i]))
            .collect();
        let total: f64 = kept.iter().map(|i| f64::from(all.logp[*i]).exp()).sum();
        for (place, i) in kept.iter().enumerate() {
            let expected = f64::from(all.logp[*i]) - total.ln();
            let at = found.ids[to..to + 300]
                .iter()
                .position(|id| *id == all.ids[*i])
                .expect("in the list");
            assert!(
                (f64::from(found.logp[to + at]) - expected).abs() < 1e-3,
                "row {row}"
            );
            // Equal up to rounding of nearly equal ones.
            assert!(
                (f64::from(found.logp[to + place]) - expected).abs() < 1e-3,
                "row {row} rank {place}"
            );
        }
    }
}

#[test]
fn positions_that_no_tree_reaches_are_left_out() {
    let bundle = Bundle::trained("tiny-qwen3.5", "tiny-qwen3.5-mfd");
    let mut engine = bundle.open();
    let all = candidates(&mut engine, 8);
    let row = all.positions * all.k;
    let mut found = Candidates::default();
    // Growing, shrinking, and past the block; in between all modes, which are always whole.
    for (depth, mode) in [(4, 2), (9, 2), (1, 2), (3, 5), (100, 5)] {
        engine.limit_depth(depth);
        engine.draft(9).expect("drafts");
        engine
            .candidates(mode..mode + 1, 8, &mut found)
            .expect("candidates");
        let positions = depth.min(all.positions);
        assert_eq!((found.modes, found.positions, found.k), (1, positions, 8));
        let expected = mode * row..mode * row + positions * 8;
        for (a, b) in found.logp.iter().zip(&all.logp[expected.clone()]) {
            assert!((a - b).abs() < 1e-3, "{depth}: {a} {b}");
        }
        // The best of each position is far enough from the second for rounding not to matter.
        for (a, b) in found.ids.iter().zip(&all.ids[expected]).step_by(8) {
            assert_eq!(a, b, "{depth}");
        }
        engine.candidates(0..8, 8, &mut found).expect("candidates");
        assert_eq!((found.modes, found.positions), (8, all.positions));
    }
}

#[test]
fn the_text_is_the_same_whatever_the_list() {
    let bundle = Bundle::trained("tiny-qwen3.5", "tiny-qwen3.5-mfd");
    let mut engine = bundle.open();
    let mut dice = StdRng::seed_from_u64(4);
    for temperature in [0.0, 1.0] {
        let plain = decode(
            &mut engine,
            &PROMPT,
            &request(Method::Plain, temperature),
            &mut Ignore,
        )
        .expect("decodes");
        for size in [1, 50, 1000, 2048] {
            let list: Vec<u32> = sample(&mut dice, 2048, size)
                .into_iter()
                .map(|i| i as u32)
                .collect();
            engine.shorten_draft(&list).expect("a list");
            for method in [Method::Chain, Method::Ddtree, Method::Mfd] {
                let found = decode(&mut engine, &PROMPT, &request(method, temperature), &mut Ignore)
                    .expect("decodes");
                assert_eq!(
                    found.token_ids, plain.token_ids,
                    "{method}, {size} tokens, T {temperature}"
                );
            }
        }
    }
}

#[test]
fn lists_that_make_no_sense_are_refused() {
    let bundle = Bundle::trained("tiny-qwen3.5", "tiny-qwen3.5-mfd");
    let mut engine = bundle.open();
    for (list, part) in [
        (vec![], "no token"),
        (vec![1, 2, 1], "id 1 is in it twice"),
        (vec![2048], "id 2048 is outside the vocabulary of 2048"),
    ] {
        let said = engine.shorten_draft(&list).expect_err("refused").to_string();
        assert!(said.contains(part), "{said}");
    }
}
