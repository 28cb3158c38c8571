//! Emitted text has the target's distribution, whatever tree was walked: three tokens of a target given by tables on
//! a vocabulary of 8, drafted by distributions that have nothing to do with it.

use super::super::walk;
use crate::sample::reference::distribution;
use crate::sample::{History, Sampler, Sampling, SamplingError};
use crate::tree::{Tree, TreeBuilder};
use forkcast_engines::backend::Candidates;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

const VOCAB: usize = 8;
const LENGTH: usize = 3;
const MODES: usize = 3;
const SAMPLES: u64 = 200_000;

#[derive(Clone, Copy, Debug)]
enum Method {
    Chain,
    Ddtree,
    Mfd,
}

/// Number of a text of at most three tokens: texts of length n follow all shorter ones.
fn number(text: &[u32]) -> usize {
    text.iter().fold(0, |n, token| n * VOCAB + *token as usize + 1)
}

/// Rows of logits after every text of at most two tokens, with spread `spread`.
fn tables(seed: u64, spread: f32) -> Vec<[f32; VOCAB]> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..=number(&[7, 7]))
        .map(|_| std::array::from_fn(|_| spread * (random.next_u32() as f32 / 4.294_967_3e9 - 0.5)))
        .collect()
}

/// The tree that a method makes after each text, from drafters given by tables of their own.
fn trees(method: Method, budget: usize) -> Vec<Tree> {
    let drafters: Vec<_> = (0..MODES * LENGTH).map(|i| tables(100 + i as u64, 5.0)).collect();
    let mut builder = TreeBuilder::new();
    (0..=number(&[7, 7]))
        .map(|text| {
            let mut c = Candidates {
                modes: MODES,
                positions: LENGTH,
                k: VOCAB,
                ..Candidates::default()
            };
            for drafter in &drafters {
                let logits = &drafter[text];
                let log_mass = logits.iter().map(|l| l.exp()).sum::<f32>().ln();
                let mut order: Vec<u32> = (0..VOCAB as u32).collect();
                order.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]));
                c.logp
                    .extend(order.iter().map(|t| logits[*t as usize] - log_mass));
                c.ids.extend(order);
            }
            let mut tree = Tree::new();
            match method {
                Method::Chain => builder.chain(&c, 1, budget, 0, &mut tree),
                Method::Ddtree => builder.ddtree(&c, 2, budget, 0, &mut tree),
                Method::Mfd => builder.mixture(&c, budget, 0, &mut tree),
            };
            tree
        })
        .collect()
}

/// Rounds of tree and walk until three tokens are out.
fn generate(target: &[[f32; VOCAB]], trees: &[Tree], sampling: &Sampling, seed: u64) -> [u32; LENGTH] {
    let mut sampler = Sampler::new(sampling, seed);
    let mut history = History::with_vocab(VOCAB);
    let mut text = Vec::with_capacity(8);
    let mut path = Vec::new();
    while text.len() < LENGTH {
        walk(&trees[number(&text)], &mut path, |_| {
            // A walk may go on beyond the three tokens; what it draws there is of no interest.
            let row = target.get(number(&text)).unwrap_or(&target[0]);
            let token = sampler.choose(row, text.len() as u64, &history)?.token;
            text.push(token);
            history.push(token);
            Ok::<u32, SamplingError>(token)
        })
        .expect("every row has a distribution");
    }
    [text[0], text[1], text[2]]
}

/// Probability of every text of three tokens, in float64.
fn exact(target: &[[f32; VOCAB]], sampling: &Sampling) -> Vec<f64> {
    let mut out = Vec::new();
    let after = |text: &[u32]| {
        let mut history = History::with_vocab(VOCAB);
        for token in text {
            history.push(*token);
        }
        distribution(&target[number(text)], sampling, &history)
    };
    let first = after(&[]);
    for a in 0..VOCAB as u32 {
        let second = after(&[a]);
        for b in 0..VOCAB as u32 {
            let product = first[a as usize] * second[b as usize];
            out.extend(after(&[a, b]).iter().map(|third| product * third));
        }
    }
    out
}

/// Chi-square over cells with at least five expected draws, the others pooled, and its 99.9 % quantile
/// (Wilson and Hilferty).
fn chi_square(counts: &[u64], expected: &[f64]) -> (f64, f64) {
    let mut cells: Vec<(f64, f64)> = Vec::new();
    let mut pool = (0.0, 0.0);
    for (count, p) in counts.iter().zip(expected) {
        let (count, due) = (*count as f64, p * SAMPLES as f64);
        assert!(due > 0.0 || count == 0.0, "an impossible text was drawn");
        if due >= 5.0 {
            cells.push((count, due));
        } else {
            pool = (pool.0 + count, pool.1 + due);
        }
    }
    if pool.1 >= 5.0 {
        cells.push(pool);
    } else if let Some(last) = cells.last_mut() {
        *last = (last.0 + pool.0, last.1 + pool.1);
    }
    let chi = cells.iter().map(|(n, due)| (n - due) * (n - due) / due).sum();
    let freedom = cells.len() as f64 - 1.0;
    let c = 2.0 / (9.0 * freedom);
    (chi, freedom * (1.0 - c + 3.09 * c.sqrt()).powi(3))
}

fn check(method: Method, temperature: f32, filtered: bool) {
    let mut sampling = Sampling {
        temperature,
        ..Sampling::default()
    };
    if filtered {
        (sampling.top_k, sampling.top_p) = (6, 0.9);
    }
    let target = tables(7, 3.0);
    let trees = trees(method, 9);
    let mut counts = vec![0; VOCAB.pow(3)];
    for seed in 0..SAMPLES {
        let [a, b, c] = generate(&target, &trees, &sampling, seed);
        counts[(a * 64 + b * 8 + c) as usize] += 1;
    }
    let (chi, quantile) = chi_square(&counts, &exact(&target, &sampling));
    assert!(
        chi < quantile,
        "{method:?} T={temperature} filtered={filtered}: chi-square {chi:.1}, allowed {quantile:.1}"
    );
}

macro_rules! cases {
    ($($name:ident: $method:ident, $t:expr, $filtered:expr;)*) => {
        $(#[test] fn $name() { check(Method::$method, $t, $filtered); })*
    };
}

cases! {
    chain_t1: Chain, 1.0, false;
    ddtree_t1: Ddtree, 1.0, false;
    mfd_t1: Mfd, 1.0, false;
    chain_t06: Chain, 0.6, false;
    ddtree_t06: Ddtree, 0.6, false;
    mfd_t06: Mfd, 0.6, false;
    chain_t1_filtered: Chain, 1.0, true;
    ddtree_t1_filtered: Ddtree, 1.0, true;
    mfd_t1_filtered: Mfd, 1.0, true;
    chain_t06_filtered: Chain, 0.6, true;
    ddtree_t06_filtered: Ddtree, 0.6, true;
    mfd_t06_filtered: Mfd, 0.6, true;
}

#[test]
fn the_test_itself_notices_a_small_error() {
    // Draws at temperature 1 held against temperature 1.05.
    let target = tables(7, 3.0);
    let sampling = |temperature| Sampling {
        temperature,
        ..Sampling::default()
    };
    let trees = trees(Method::Mfd, 9);
    let mut counts = vec![0; VOCAB.pow(3)];
    for seed in 0..SAMPLES {
        let [a, b, c] = generate(&target, &trees, &sampling(1.0), seed);
        counts[(a * 64 + b * 8 + c) as usize] += 1;
    }
    let (chi, quantile) = chi_square(&counts, &exact(&target, &sampling(1.05)));
    assert!(chi > quantile, "chi-square {chi:.1}, allowed {quantile:.1}");
}

#[test]
fn the_same_seed_gives_the_same_text_for_every_tree() {
    let target = tables(7, 3.0);
    let penalised = Sampling {
        temperature: 0.9,
        top_p: 0.95,
        presence_penalty: 1.0,
        frequency_penalty: 0.5,
        repetition_penalty: 1.2,
        ..Sampling::default()
    };
    let plain_temperature = Sampling {
        temperature: 1.0,
        ..Sampling::default()
    };
    for sampling in [Sampling::default(), plain_temperature, penalised] {
        let plain = trees(Method::Chain, 0);
        let expected: Vec<_> = (0..500)
            .map(|seed| generate(&target, &plain, &sampling, seed))
            .collect();
        for method in [Method::Chain, Method::Ddtree, Method::Mfd] {
            for budget in [1, 2, 3, 9, 100] {
                let trees = trees(method, budget);
                for (seed, text) in (0u64..).zip(&expected) {
                    let same = generate(&target, &trees, &sampling, seed);
                    assert_eq!(same, *text, "{method:?} {budget} seed {seed}");
                }
            }
        }
    }
}
