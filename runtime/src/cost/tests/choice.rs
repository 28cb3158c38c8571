//! Costs between measured sizes, and what pays.

use super::super::acceptance::Acceptance;
use super::super::choose::choose;
use super::super::{CostModel, DraftCost};
use crate::decode::Method;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A pass of n rows takes 10 + n, twice as long per row behind 1,000 tokens; a draft 5, a commit 2 or 1.
pub(super) fn model() -> CostModel {
    let rows = vec![1, 2, 8, 64];
    let line = |slope: f64| rows.iter().map(|r| 10.0 + slope * *r as f64).collect();
    let draft = |method: &str| DraftCost {
        method: method.to_owned(),
        seconds: vec![5.0, 5.0],
    };
    CostModel {
        contexts: vec![100, 1100],
        verify: vec![line(1.0), line(2.0)],
        rows,
        draft: vec![draft("chain"), draft("ddtree")],
        commit: vec![2.0, 2.0],
        commit_one: vec![1.5, 1.5],
        commit_plain: vec![1.0, 1.0],
        host_per_node: 0.0,
    }
}

#[test]
fn lines_between_and_beyond_what_was_measured() {
    let m = model();
    for (rows, context, seconds) in [
        (1, 0, 11.0),
        (1, 100, 11.0),
        (30, 100, 40.0),
        (100, 100, 110.0),
        (10, 600, 25.0),
        (10, 2100, 40.0),
    ] {
        let found = m.verify(rows, context);
        assert!(
            (found - seconds).abs() < 1e-9,
            "{rows} rows after {context}: {found}"
        );
    }
    assert_eq!(m.round(Method::Plain, 0, 100), Some(12.0));
    assert_eq!(m.round(Method::Ddtree, 4, 100), Some(5.0 + 15.0 + 2.0));
    assert_eq!(m.round(Method::Mfd, 4, 100), None, "was not measured");
    assert!((m.fed_round(100) - 12.5).abs() < 1e-9);
}

/// Against every size by itself, with sums made anew.
#[test]
fn the_best_size_is_the_best_of_all_sizes() {
    let m = model();
    let mut dice = ChaCha8Rng::seed_from_u64(3);
    for _ in 0..200 {
        let mut scores: Vec<f64> = (0..dice.next_u32() % 40)
            .map(|_| -f64::from(dice.next_u32() % 5000) / 1000.0)
            .collect();
        scores.sort_by(|a, b| b.total_cmp(a));
        let trust = f64::from(dice.next_u32() % 150) / 100.0;
        let rate = |n: usize| {
            let sum: f64 = scores[..n].iter().map(|s| s.exp()).sum();
            (1.0 + trust * sum) / m.round(Method::Ddtree, n, 300).expect("measured")
        };
        let best = (0..=scores.len()).map(rate).fold(0.0, f64::max);
        let (n, found) = m.best_size(Method::Ddtree, 300, &scores, trust);
        assert!((found - best).abs() < 1e-12 && (rate(n) - best).abs() < 1e-12);
    }
}

fn accepted(method: &str, tau: impl Fn(usize) -> f64) -> Acceptance {
    Acceptance {
        method: method.to_owned(),
        rounds: 10,
        tau: (0..=32).map(tau).collect(),
        predicted: vec![1.0; 33],
        host_per_node: 0.0,
        context: 100.0,
    }
}

#[test]
fn the_choice_pays_most() {
    let m = model();
    // A node is worth less the later it comes.
    let good = accepted("ddtree", |n| 1.0 + 4.0 * (1.0 - (-(n as f64) / 6.0).exp()));
    let chain = accepted("chain", |n| 1.0 + 0.4 * n.min(3) as f64);
    let bad = accepted("ddtree", |_| 1.01);
    let found = choose(&m, &[chain.clone(), good.clone()], 100);
    let methods: Vec<&str> = found.iter().map(|c| c.method.as_str()).collect();
    assert_eq!(methods, ["ddtree", "chain", "plain"]);
    let rate = |n: usize| good.tau[n] / m.round(Method::Ddtree, n, 100).expect("measured");
    let best = (1..=32).map(rate).fold(0.0, f64::max);
    assert!(found[0].tokens_per_second >= 0.99 * best);
    assert!(
        (1..found[0].budget).all(|n| rate(n) < 0.99 * best),
        "the smallest that is as good"
    );
    assert_eq!(found[1].budget, 3);
    assert_eq!(choose(&m, &[bad], 100)[0].method, "plain");
    assert_eq!(choose(&m, &[], 100).len(), 1);
    // What is dear behind a long context gets smaller.
    assert!(choose(&m, std::slice::from_ref(&good), 2100)[0].budget <= found[0].budget);
}
