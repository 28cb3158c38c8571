//! The text at T > 0 has the target's own distribution, whatever tree was verified: chi-square of the
//! first three tokens on a vocabulary of 8 against the exact product.

use forkcast::decode::{Ignore, Method, Request, decode};
use forkcast::sample::Sampling;
use forkcast_tests::mock::{Drafting, Mock, Script};

const SAMPLES: u64 = 40_000;
const PROMPT: [u32; 2] = [1, 2];

fn script() -> Script {
    Script {
        vocab: 8,
        scale: 1.2,
        modes: 3,
        drafting: Drafting::Noisy(0.8),
        block: 4,
        ..Script::small(21)
    }
}

/// Probability of each token after a prefix, in float64, by sorting everything.
fn row(script: &Script, prefix: &[u32], s: &Sampling) -> Vec<f64> {
    let logits: Vec<f64> = script
        .logits(prefix)
        .iter()
        .map(|l| f64::from(*l) / f64::from(s.temperature))
        .collect();
    let mut order: Vec<usize> = (0..8).collect();
    order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b)));
    if s.top_k > 0 {
        order.truncate(s.top_k);
    }
    let mass = |list: &[usize]| -> f64 { list.iter().map(|i| logits[*i].exp()).sum() };
    let total = mass(&order);
    let kept: Vec<usize> = (0..order.len())
        .filter(|n| mass(&order[..*n]) / total < f64::from(s.top_p))
        .map(|n| order[n])
        .collect();
    let total = mass(&kept);
    (0..8)
        .map(|i| {
            if kept.contains(&i) {
                logits[i].exp() / total
            } else {
                0.0
            }
        })
        .collect()
}

fn exact(script: &Script, s: &Sampling) -> Vec<f64> {
    let mut out = Vec::with_capacity(512);
    let first = row(script, &PROMPT, s);
    for a in 0..8u32 {
        let second = row(script, &[PROMPT[0], PROMPT[1], a], s);
        for b in 0..8u32 {
            let third = row(script, &[PROMPT[0], PROMPT[1], a, b], s);
            out.extend(third.iter().map(|p| first[a as usize] * second[b as usize] * p));
        }
    }
    out
}

/// Chi-square over cells expected at least five times (the rest pooled) and its 99.9 % quantile
/// (Wilson-Hilferty).
fn chi_square(counts: &[u64], expected: &[f64]) -> (f64, f64) {
    let (mut chi, mut cells, mut rare, mut rare_expected) = (0.0, 0, 0.0, 0.0);
    for (count, p) in counts.iter().zip(expected) {
        let (count, e) = (*count as f64, p * SAMPLES as f64);
        if e >= 5.0 {
            chi += (count - e) * (count - e) / e;
            cells += 1;
        } else {
            rare += count;
            rare_expected += e;
        }
    }
    if rare_expected >= 5.0 {
        chi += (rare - rare_expected) * (rare - rare_expected) / rare_expected;
        cells += 1;
    } else {
        assert!(
            rare <= rare_expected + 5.0 * rare_expected.sqrt() + 5.0,
            "{rare} draws where {rare_expected} are due"
        );
    }
    let d = f64::from(cells - 1);
    let c = 2.0 / (9.0 * d);
    (chi, d * (1.0 - c + 3.09 * c.sqrt()).powi(3))
}

fn check(method: Method, temperature: f32, top_k: usize, top_p: f32) {
    let script = script();
    let sampling = Sampling {
        temperature,
        top_k,
        top_p,
        ..Sampling::default()
    };
    let expected = exact(&script, &sampling);
    let mut counts = vec![0u64; 512];
    let mut mock = Mock::new(script);
    let mut request = Request {
        method,
        budget: 7,
        mode: 1,
        max_tokens: 3,
        sampling,
        seed: 0,
        stop_ids: Vec::new(),
        logprobs: None,
    };
    for seed in 0..SAMPLES {
        request.seed = seed;
        let report = decode(&mut mock, &PROMPT, &request, &mut Ignore).expect("decodes");
        let [a, b, c] = report.token_ids[..] else {
            panic!("three tokens")
        };
        counts[(a * 64 + b * 8 + c) as usize] += 1;
    }
    for (cell, p) in expected.iter().enumerate() {
        assert!(
            *p > 0.0 || counts[cell] == 0,
            "{method}: an impossible sequence was drawn"
        );
    }
    let (chi, quantile) = chi_square(&counts, &expected);
    assert!(
        chi < quantile,
        "{method} T={temperature} k={top_k} p={top_p}: chi-square {chi:.1}, allowed {quantile:.1}"
    );
}

macro_rules! cases {
    ($($name:ident: $method:ident, $t:expr, $k:expr, $p:expr;)*) => {
        $(#[test] fn $name() { check(Method::$method, $t, $k, $p); })*
    };
}

cases! {
    plain_t1: Plain, 1.0, 0, 1.0;
    chain_t1: Chain, 1.0, 0, 1.0;
    ddtree_t1: Ddtree, 1.0, 0, 1.0;
    mfd_t1: Mfd, 1.0, 0, 1.0;
    chain_t06: Chain, 0.6, 0, 1.0;
    ddtree_t06: Ddtree, 0.6, 0, 1.0;
    mfd_t06: Mfd, 0.6, 0, 1.0;
    chain_t1_filtered: Chain, 1.0, 5, 0.9;
    ddtree_t1_filtered: Ddtree, 1.0, 5, 0.9;
    mfd_t1_filtered: Mfd, 1.0, 5, 0.9;
    chain_t06_filtered: Chain, 0.6, 6, 0.8;
    ddtree_t06_filtered: Ddtree, 0.6, 6, 0.8;
    mfd_t06_filtered: Mfd, 0.6, 6, 0.8;
}
