//! The loop on the scripted engine: every method, budget and drafter gives the text of plain decoding.

use forkcast::decode::{Decoder, Drawing, FinishReason, Ignore, Method, Plan, Report, Request, decode};
use forkcast::sample::Sampling;
use forkcast_engines::backend::Backend;
use forkcast_tests::mock::{Drafting, Mock, Script};

const PROMPT: [u32; 5] = [3, 1, 4, 1, 5];

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
        seed: 9,
        stop_ids: Vec::new(),
        logprobs: None,
    }
}

fn run(script: &Script, request: &Request) -> (Report, Mock) {
    let mut mock = Mock::new(script.clone());
    let report = decode(&mut mock, &PROMPT, request, &mut Ignore)
        .expect("the scripted engine accepts the loop's calls");
    (report, mock)
}

/// Slow and obvious: one token at a time from the script's logits.
fn plain_greedy(script: &Script, tokens: usize) -> Vec<u32> {
    let mut all = PROMPT.to_vec();
    for _ in 0..tokens {
        let logits = script.logits(&all);
        let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]).then(b.cmp(a)));
        all.push(best.expect("logits are not empty") as u32);
    }
    all.split_off(PROMPT.len())
}

const DRAFTERS: [Drafting; 5] = [
    Drafting::Perfect,
    Drafting::Noisy(1.0),
    Drafting::Random,
    Drafting::Wrong,
    Drafting::Nan,
];
const METHODS: [Method; 4] = Method::ALL;
const BUDGETS: [usize; 7] = [0, 1, 2, 15, 64, 256, 1024];

#[test]
fn greedy_text_is_the_same_for_all() {
    for seed in 0..4 {
        let mut script = Script::small(seed);
        let expected = plain_greedy(&script, 64);
        for drafting in DRAFTERS {
            script.drafting = drafting;
            for method in METHODS {
                for budget in BUDGETS {
                    let (report, mock) = run(&script, &request(method, budget, 0.0));
                    assert_eq!(
                        report.token_ids, expected,
                        "{method} {budget} {drafting:?} seed {seed}"
                    );
                    let state: Vec<u32> = PROMPT.iter().chain(&expected[..63]).copied().collect();
                    assert_eq!(
                        mock.tokens, state,
                        "the state is prompt and answer without the last token"
                    );
                }
            }
        }
    }
}

#[test]
fn sampled_text_depends_on_the_seed_only() {
    for seed in 0..3 {
        let mut script = Script::small(seed);
        script.scale = 1.5;
        for (top_k, top_p, repetition) in [(0, 1.0, 1.0), (20, 0.9, 1.0), (0, 1.0, 1.2)] {
            let shaped = |method, budget| {
                let mut r = request(method, budget, 1.0);
                r.sampling.top_k = top_k;
                r.sampling.top_p = top_p;
                r.sampling.repetition_penalty = repetition;
                r.sampling.presence_penalty = if repetition > 1.0 { 0.3 } else { 0.0 };
                r
            };
            let (plain, _) = run(&script, &shaped(Method::Plain, 0));
            for drafting in DRAFTERS {
                script.drafting = drafting;
                for method in METHODS {
                    for budget in [1, 15, 256] {
                        let (report, _) = run(&script, &shaped(method, budget));
                        assert_eq!(
                            report.token_ids, plain.token_ids,
                            "{method} {budget} {drafting:?} {top_k}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_perfect_drafter_is_accepted_whole_and_a_wrong_one_never() {
    let mut script = Script {
        drafting: Drafting::Perfect,
        scale: 60.0,
        ..Script::small(1)
    };
    for method in [Method::Chain, Method::Ddtree, Method::Mfd] {
        let (report, _) = run(&script, &request(method, 64, 0.0));
        assert_eq!(report.accepted_lengths, vec![16, 16, 16, 16], "{method}");
        assert_eq!(report.token_ids.len(), 64);
    }
    script.drafting = Drafting::Wrong;
    let (report, _) = run(&script, &request(Method::Chain, 15, 0.0));
    assert!(
        (report.tau() - 1.0).abs() < 1e-12,
        "nothing of a wrong chain is accepted: {}",
        report.tau()
    );
}

#[test]
fn a_drafter_of_nan_only_slows_down_and_is_counted() {
    let script = Script {
        drafting: Drafting::Nan,
        ..Script::small(1)
    };
    let (report, mock) = run(&script, &request(Method::Mfd, 64, 0.0));
    assert_eq!(report.rounds, 63);
    assert_eq!(report.draft_tokens, 0);
    assert!(mock.counters().bad_draft_rows > 0);
}

#[test]
fn methods_may_alternate_from_round_to_round() {
    let script = Script::small(5);
    let expected = plain_greedy(&script, 80);
    let drawing = Drawing {
        sampling: Sampling {
            temperature: 0.0,
            ..Sampling::default()
        },
        seed: 0,
        stop_ids: Vec::new(),
        logprobs: None,
    };
    let mut mock = Mock::new(script);
    mock.set_drafting(true);
    let mut decoder = Decoder::new(drawing, 50).expect("greedy sampling is valid");
    decoder.start(&mut mock, &PROMPT).expect("prefill");
    let mut tokens: Vec<u32> = decoder.drawn().iter().map(|d| d.id).collect();
    for round in 0.. {
        let method = METHODS[round % 4];
        let plan = Plan {
            method,
            budget: BUDGETS[round % 7],
            mode: round % 3,
        };
        decoder.round(&mut mock, plan).expect("round");
        tokens.extend(decoder.drawn().iter().map(|d| d.id));
        let all = decoder.drawn().len();
        decoder.commit(&mut mock, all).expect("commit");
        if tokens.len() >= 80 {
            break;
        }
    }
    assert_eq!(&tokens[..80], &expected[..]);
}

#[test]
fn a_stop_token_ends_the_answer_inside_a_block() {
    let script = Script {
        drafting: Drafting::Perfect,
        ..Script::small(2)
    };
    let expected = plain_greedy(&script, 64);
    for at in [0, 1, 5, 16, 17, 40] {
        let stop = expected[at];
        let end = expected.iter().position(|t| *t == stop).expect("it is there") + 1;
        for method in METHODS {
            let mut r = request(method, 64, 0.0);
            r.stop_ids = vec![stop];
            let (report, mock) = run(&script, &r);
            assert_eq!(report.token_ids, expected[..end], "{method} stop at {at}");
            assert_eq!(report.finish_reason, FinishReason::Stop);
            assert_eq!(mock.tokens.len(), PROMPT.len() + end - 1);
            assert_eq!(
                report.accepted_lengths.iter().sum::<usize>(),
                end - 1,
                "{method}: cut at the stop token"
            );
        }
    }
}

#[test]
fn max_tokens_cuts_the_text_but_not_the_acceptance() {
    let script = Script {
        drafting: Drafting::Perfect,
        scale: 60.0,
        ..Script::small(2)
    };
    for method in METHODS {
        let mut r = request(method, 64, 0.0);
        r.max_tokens = 10;
        let (report, mock) = run(&script, &r);
        assert_eq!(report.token_ids, plain_greedy(&script, 10));
        assert_eq!(report.finish_reason, FinishReason::Length);
        assert_eq!(mock.tokens.len(), PROMPT.len() + 9);
        if method != Method::Plain {
            assert_eq!(report.accepted_lengths, vec![16]);
        }
    }
}

#[test]
fn the_context_limit_shrinks_the_tree_and_ends_with_length() {
    for context in [6, 7, 12, 30] {
        let script = Script {
            max_context: context,
            ..Script::small(3)
        };
        let expected = plain_greedy(&script, context - PROMPT.len());
        for method in METHODS {
            let (report, mock) = run(&script, &request(method, 256, 0.0));
            assert_eq!(report.token_ids, expected, "{method} context {context}");
            assert_eq!(report.finish_reason, FinishReason::Length);
            assert!(mock.tokens.len() < context);
        }
    }
}

#[test]
fn a_prompt_that_fills_the_context_is_refused_with_both_numbers() {
    let mut mock = Mock::new(Script {
        max_context: 5,
        ..Script::small(3)
    });
    let error =
        decode(&mut mock, &PROMPT, &request(Method::Plain, 0, 0.0), &mut Ignore).expect_err("no room");
    assert!(error.is_input());
    let text = error.to_string();
    assert!(text.contains("5 tokens") && text.contains("holds 5"), "{text}");
}
