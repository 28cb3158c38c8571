//! What a round costs a GPU: counted on the scripted engine.

use forkcast::decode::{Ignore, Method, Request, decode};
use forkcast::sample::Sampling;
use forkcast_engines::backend::Backend;
use forkcast_tests::mock::{Mock, Script};

#[test]
fn syncs_and_row_copies_of_a_round_are_bounded() {
    let script = Script {
        vocab: 400,
        ..Script::small(7)
    };
    for (method, budget) in [
        (Method::Plain, 0),
        (Method::Chain, 15),
        (Method::Ddtree, 64),
        (Method::Mfd, 256),
    ] {
        let mut mock = Mock::new(script.clone());
        let request = Request {
            method,
            budget,
            mode: 0,
            max_tokens: 200,
            sampling: Sampling {
                temperature: 0.0,
                ..Sampling::default()
            },
            seed: 1,
            stop_ids: Vec::new(),
            logprobs: None,
        };
        let report = decode(&mut mock, &[1, 2, 3], &request, &mut Ignore).expect("decodes");
        let counters = mock.counters();
        // Only accepted rows are ever written: the prompt and the answer without its last token.
        assert_eq!(
            counters.row_copies as usize,
            3 + report.token_ids.len() - 1,
            "{method}"
        );
        // One read of candidates a round (and one more for each tree that was not exact) and the head
        // passes along the walked path, of which every further one follows a turn off the likeliest path.
        let rounds = report.rounds as u64;
        let drafts = if method == Method::Plain {
            0
        } else {
            rounds + report.tree_retries as u64
        };
        assert_eq!(counters.syncs, counters.head_runs + drafts, "{method}");
        let reads = counters.head_runs as f64 / rounds as f64;
        assert!(
            reads <= 3.0,
            "{method}: the head was read {reads:.2} times a round"
        );
    }
}
