//! Cases on the scripted engine and on trees alone.

use forkcast::decode::{Decoder, Drawing, Ignore, Method, Plan, Report, Request, decode};
use forkcast::sample::Sampling;
use forkcast::tree::{Tree, TreeBuilder};
use forkcast_engines::backend::{Backend, Candidates};
use forkcast_tests::mock::{Drafting, Mock, Script};

fn request(method: Method, budget: usize) -> Request {
    Request {
        method,
        budget,
        mode: 0,
        max_tokens: 48,
        sampling: Sampling {
            temperature: 0.0,
            ..Sampling::default()
        },
        seed: 1,
        stop_ids: Vec::new(),
        logprobs: None,
    }
}

fn run(script: &Script, request: &Request) -> (Report, Mock) {
    let mut mock = Mock::new(script.clone());
    let report = decode(&mut mock, &[1, 2, 3], request, &mut Ignore).expect("decodes");
    (report, mock)
}

/// Sorted candidates of one mode: a few well separated log-probabilities a position.
fn candidates(seed: u64, positions: usize, k: usize) -> Candidates {
    let mut state = seed;
    let mut out = Candidates {
        modes: 1,
        positions,
        k,
        ..Candidates::default()
    };
    for _ in 0..positions {
        let mut logp = -0.05;
        for rank in 0..k {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            out.ids.push((10 * rank) as u32 + (state >> 60) as u32 % 10);
            out.logp.push(logp);
            logp -= 0.1 + (state >> 40) as f32 / 1e7;
        }
    }
    out
}

/// A larger tree holds the smaller one, so what it accepts never gets shorter with the budget; and a list with one
/// candidate a position gives exactly the chain.
#[test]
fn lucebox_414_trees_are_monotone_in_the_budget_and_contain_the_chain() {
    let (mut small, mut large) = (Tree::new(), Tree::new());
    let mut builder = TreeBuilder::new();
    for seed in 0..50 {
        let candidates = candidates(seed, 8, 6);
        for budget in 1..60 {
            builder.ddtree(&candidates, 0, budget, 5, &mut small);
            builder.ddtree(&candidates, 0, budget + 1, 5, &mut large);
            assert_eq!(&large.tokens()[..small.len()], small.tokens());
            assert_eq!(&large.parents()[..small.len()], small.parents());
        }
        let single = self::candidates(seed, 8, 1);
        builder.chain(&single, 0, 8, 5, &mut small);
        builder.ddtree(&single, 0, 8, 5, &mut large);
        assert_eq!(
            (large.tokens(), large.parents()),
            (small.tokens(), small.parents())
        );
    }
}

/// Trees of the root alone and of one node give one valid next token each.
#[test]
fn lucebox_301_trees_of_one_and_two_rows_give_a_token() {
    let script = Script::small(3);
    for (budget, rows) in [(0, 1), (1, 2)] {
        let mut mock = Mock::new(script.clone());
        let drawing = Drawing {
            sampling: request(Method::Ddtree, 1).sampling,
            seed: 1,
            stop_ids: Vec::new(),
            logprobs: None,
        };
        let mut decoder = Decoder::new(drawing, script.vocab).expect("a decoder");
        mock.set_drafting(true);
        decoder.start(&mut mock, &[1, 2, 3]).expect("starts");
        let plan = Plan {
            method: Method::Ddtree,
            budget,
            mode: 0,
        };
        decoder.round(&mut mock, plan).expect("a round");
        assert_eq!(decoder.tree().len(), rows);
        assert!(decoder.drawn().iter().all(|d| (d.id as usize) < script.vocab));
        assert!((1..=rows).contains(&decoder.drawn().len()));
    }
}

/// A drafter that predicts the target is accepted whole in every round; the figure could not be at chance level unseen.
#[test]
fn vllm_49559_and_1cat_vllm_478_a_perfect_drafter_is_accepted_whole() {
    let mut script = Script::small(4);
    script.drafting = Drafting::Perfect;
    let (report, _) = run(&script, &request(Method::Chain, 15));
    assert!(
        report.accepted_lengths.iter().all(|n| *n == 16),
        "{:?}",
        report.accepted_lengths
    );
}

/// One token drafted or a thousand: the same text.
#[test]
fn vllm_54928_and_tensorrt_llm_2208_budgets_do_not_change_the_text() {
    let script = Script::small(5);
    let (plain, _) = run(&script, &request(Method::Plain, 0));
    for budget in [1, 2, 15, 60, 256] {
        for method in [Method::Chain, Method::Ddtree, Method::Mfd] {
            let (report, _) = run(&script, &request(method, budget));
            assert_eq!(report.token_ids, plain.token_ids, "{method} {budget}");
        }
    }
}

/// Not-a-number, constant or always wrong drafts cost time only, and not-a-number is counted.
#[test]
fn llama_cpp_25792_a_useless_drafter_is_seen_and_changes_nothing() {
    let mut script = Script::small(6);
    let (plain, _) = run(&script, &request(Method::Plain, 0));
    for (drafting, counted) in [
        (Drafting::Nan, true),
        (Drafting::Wrong, false),
        (Drafting::Random, false),
    ] {
        script.drafting = drafting;
        let (report, mock) = run(&script, &request(Method::Mfd, 24));
        assert_eq!(report.token_ids, plain.token_ids, "{drafting:?}");
        assert_eq!(mock.counters().bad_draft_rows > 0, counted, "{drafting:?}");
        assert!(report.tau() < 2.5, "{drafting:?}: {}", report.tau());
    }
}

/// A method that the engine cannot do is refused by name, never run as another one.
#[test]
fn mlx_lm_1730_and_llama_cpp_20080_speculation_is_never_switched_off_silently() {
    let mut script = Script::small(7);
    script.block = 0;
    let mut mock = Mock::new(script);
    for method in [Method::Chain, Method::Ddtree, Method::Mfd] {
        let error = decode(&mut mock, &[1], &request(method, 8), &mut Ignore).expect_err("no drafter");
        assert!(error.to_string().contains(method.name()), "{error}");
    }
}

/// Engines are not built for a chain or for a tree: methods alternate on one engine from answer to answer.
#[test]
fn tensorrt_edge_llm_44_one_engine_serves_chains_and_trees() {
    let mut mock = Mock::new(Script::small(8));
    let texts = [
        (Method::Chain, 15),
        (Method::Ddtree, 60),
        (Method::Mfd, 60),
        (Method::Chain, 3),
    ]
    .map(|(method, budget)| {
        decode(&mut mock, &[1, 2], &request(method, budget), &mut Ignore)
            .expect("decodes")
            .token_ids
    });
    assert!(texts.iter().all(|t| *t == texts[0]));
}

/// A walk never reads more than the rows it visits and those down its likeliest path: nothing like a state is copied.
#[test]
fn llama_cpp_28118_a_round_copies_accepted_rows_only() {
    let (report, mock) = run(&Script::small(9), &request(Method::Ddtree, 60));
    let committed = mock.committed() as u64;
    assert_eq!(mock.counters().row_copies, committed);
    assert!(
        mock.counters().syncs <= 3 * report.rounds as u64 + 8,
        "{:?}",
        mock.counters()
    );
}
