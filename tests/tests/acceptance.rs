//! Acceptance lengths against the slow reference's table in `tests/models/README.md`: each domain within 3 % at
//! T = 0, the mean within 8 % at T = 1 (another noise, so another text), and chain < DDTree < MFD.

use forkcast::decode::Method;
use forkcast_tests::bundles::Bundle;
use forkcast_tests::protocol::{DOMAINS, Way, mean, tau};

/// (drafter, method, budget, tau per domain at T = 0, mean at T = 1).
const REFERENCE: [(&str, Method, usize, [f64; 5], f64); 5] = [
    (
        "tiny-qwen3.5-dflash",
        Method::Chain,
        15,
        [4.56, 4.48, 7.28, 6.96, 4.77],
        4.55,
    ),
    (
        "tiny-qwen3.5-dflash",
        Method::Ddtree,
        64,
        [6.51, 6.45, 9.29, 8.92, 6.24],
        6.19,
    ),
    (
        "tiny-qwen3.5-dflash",
        Method::Ddtree,
        256,
        [7.32, 7.48, 10.73, 9.94, 6.96],
        7.08,
    ),
    (
        "tiny-qwen3.5-mfd",
        Method::Mfd,
        64,
        [7.31, 7.75, 11.21, 10.59, 7.32],
        7.08,
    ),
    (
        "tiny-qwen3.5-mfd",
        Method::Mfd,
        256,
        [8.15, 8.60, 12.30, 11.51, 8.30],
        7.80,
    ),
];

fn measure(temperature: f32) -> Vec<[f64; 5]> {
    let one = |(drafter, method, budget, _, _): &(&str, Method, usize, [f64; 5], f64)| {
        let bundle = Bundle::trained("tiny-qwen3.5", drafter);
        let mut engine = bundle.open();
        tau(
            &mut engine,
            Way {
                method: *method,
                budget: *budget,
            },
            temperature,
            10,
        )
    };
    REFERENCE.iter().map(one).collect()
}

fn ordered(rows: &[[f64; 5]]) {
    let means: Vec<f64> = rows.iter().map(mean).collect();
    let [chain, tree64, tree256, mfd64, mfd256] = means[..] else {
        panic!("five methods")
    };
    assert!(
        chain < tree64 && tree64 < mfd64,
        "chain < DDTree < MFD at 64: {means:?}"
    );
    assert!(
        chain < tree256 && tree256 < mfd256,
        "chain < DDTree < MFD at 256: {means:?}"
    );
}

#[test]
fn greedy_acceptance_equals_the_reference() {
    let rows = measure(0.0);
    for ((drafter, method, budget, expected, _), row) in REFERENCE.iter().zip(&rows) {
        for ((domain, found), reference) in DOMAINS.iter().zip(row).zip(expected) {
            let off = found / reference - 1.0;
            assert!(
                off.abs() <= 0.03,
                "{drafter} {method} {budget} domain {domain}: {found:.3}, reference {reference}"
            );
        }
    }
    ordered(&rows);
}

#[test]
fn sampled_acceptance_equals_the_reference() {
    let rows = measure(1.0);
    for ((drafter, method, budget, _, expected), row) in REFERENCE.iter().zip(&rows) {
        let off = mean(row) / expected - 1.0;
        assert!(
            off.abs() <= 0.08,
            "{drafter} {method} {budget}: {:.3}, reference {expected}",
            mean(row)
        );
    }
    ordered(&rows);
}
