//! Synthetic acceptance on the real engine: rounds accept what was asked for, at every method and temperature.

use forkcast::bench::synthetic::Synthetic;
use forkcast::decode::{Ignore, Method, Request, decode};
use forkcast::sample::Sampling;
use forkcast_tests::bundles::Bundle;

fn tau(
    engine: &mut Synthetic<'_, forkcast_engines::ort::OrtBackend>,
    method: Method,
    temperature: f32,
) -> f64 {
    let request = Request {
        method,
        budget: 40,
        mode: 0,
        max_tokens: 240,
        sampling: Sampling {
            temperature,
            ..Sampling::default()
        },
        seed: 3,
        stop_ids: Vec::new(),
        logprobs: None,
    };
    let report = decode(engine, &[1, 2, 3], &request, &mut Ignore).expect("decodes");
    assert_eq!(report.token_ids.len(), 240);
    report.tau()
}

#[test]
fn rounds_accept_what_was_asked_for() {
    let bundle = Bundle::trained("tiny-qwen3.5", "tiny-qwen3.5-mfd");
    let mut engine = bundle.open();
    for asked in [1.0, 3.5, 6.0] {
        let mut engine = Synthetic::new(&mut engine, asked, 7);
        for method in [Method::Chain, Method::Ddtree, Method::Mfd] {
            for temperature in [0.0, 1.0] {
                let found = tau(&mut engine, method, temperature);
                assert!(
                    (found - asked).abs() < 0.25,
                    "{method} T {temperature}: {found} instead of {asked}"
                );
            }
        }
        assert!(
            (tau(&mut engine, Method::Plain, 0.0) - 1.0).abs() < 1e-9,
            "plain accepts one row a round"
        );
    }
}
