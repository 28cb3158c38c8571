//! Decisions round by round: the text stays the target's, and what pays is found again when it changes.

use forkcast::cost::{CostModel, DraftCost};
use forkcast::decode::{Adaptive, Ignore, Method, Plan, Report, Request, resume_with};
use forkcast::sample::Sampling;
use forkcast_engines::backend::{Backend, BackendError, Candidates, Counters, RowBatch, Shape, Snapshot};
use forkcast_tests::bundles::Bundle;
use forkcast_tests::mock::{Drafting, Mock, Script};
use std::ops::Range;
use std::sync::Arc;

/// A pass of n rows takes 10 + n / 5, a draft 6, a commit 1: four accepted rows pay, one does not.
fn costs() -> Arc<CostModel> {
    let draft = |method: &str| DraftCost {
        method: method.to_owned(),
        seconds: vec![6.0],
    };
    Arc::new(CostModel {
        contexts: vec![64],
        rows: vec![1, 101],
        verify: vec![vec![10.2, 30.2]],
        draft: ["chain", "ddtree", "mfd"].map(draft).to_vec(),
        commit: vec![1.0],
        commit_one: vec![1.0],
        commit_plain: vec![0.5],
        host_per_node: 0.0,
    })
}

fn plan(method: Method, budget: usize) -> Plan {
    Plan {
        method,
        budget,
        mode: 0,
    }
}

fn request(temperature: f32, max_tokens: usize) -> Request {
    Request {
        method: Method::Plain,
        budget: 0,
        mode: 0,
        max_tokens,
        sampling: Sampling {
            temperature,
            ..Sampling::default()
        },
        seed: 11,
        stop_ids: Vec::new(),
        logprobs: None,
    }
}

fn answer(
    backend: &mut dyn Backend,
    policy: Option<Plan>,
    rests: bool,
    temperature: f32,
    max_tokens: usize,
) -> Report {
    let mut policy = policy.map(|p| Adaptive::new(costs(), p, rests));
    backend.reset().expect("reset");
    let prompt = [1, 2, 3, 4, 5];
    let request = request(temperature, max_tokens);
    resume_with(backend, &prompt, &request, policy.as_mut(), &mut Ignore).expect("an answer")
}

/// Model seconds of an answer's rounds.
fn seconds(report: &Report, method: Method) -> f64 {
    let costs = costs();
    let Some(used) = report.adaptive else {
        return report.rounds as f64 * costs.round(Method::Plain, 0, 64).expect("plain");
    };
    let drafted = costs.round(method, 0, 64).expect("measured") * used.drafted_rounds as f64;
    // The cost of rows is a line, so their sum is enough.
    drafted + 0.2 * used.nodes as f64 + costs.fed_round(64) * used.plain_rounds as f64
}

#[test]
fn the_text_is_the_targets_with_every_drafter() {
    let drafters = [
        Drafting::Perfect,
        Drafting::Noisy(1.0),
        Drafting::Noisy(6.0),
        Drafting::Random,
        Drafting::Wrong,
        Drafting::Nan,
    ];
    for (seed, drafting) in drafters.into_iter().enumerate() {
        let script = Script {
            drafting,
            ..Script::small(seed as u64)
        };
        for temperature in [0.0, 1.0] {
            let expected = answer(&mut Mock::new(script.clone()), None, false, temperature, 150);
            for method in [Method::Chain, Method::Ddtree, Method::Mfd, Method::Plain] {
                for rests in [false, true] {
                    let mut mock = Mock::new(script.clone());
                    let found = answer(&mut mock, Some(plan(method, 40)), rests, temperature, 150);
                    assert_eq!(
                        found.token_ids, expected.token_ids,
                        "{drafting:?} {method} T {temperature}"
                    );
                    let used = found.adaptive.expect("a policy");
                    assert_eq!(used.drafted_rounds + used.plain_rounds, found.rounds);
                    assert!(found.drafted_rounds <= used.drafted_rounds);
                    assert_eq!(used.nodes, found.draft_tokens);
                }
            }
        }
    }
}

#[test]
fn a_good_drafter_is_used_in_every_round_and_a_bad_one_rarely() {
    let with = |drafting| {
        let script = Script {
            drafting,
            ..Script::small(3)
        };
        answer(
            &mut Mock::new(script),
            Some(plan(Method::Ddtree, 60)),
            false,
            0.0,
            1000,
        )
    };
    let perfect = with(Drafting::Perfect);
    let used = perfect.adaptive.expect("a policy");
    assert_eq!((used.plain_rounds, used.rests), (0, 0), "{used:?}");
    // Its best token is always right, and it says so with a third of the mass only.
    assert!(perfect.tau() > 4.0 && used.trust > 1.0, "{used:?}");
    let plain = 1000.0 * costs().round(Method::Plain, 0, 64).expect("plain");
    assert!(seconds(&perfect, Method::Ddtree) < plain / 2.0);
    for bad in [Drafting::Wrong, Drafting::Random, Drafting::Nan] {
        let report = with(bad);
        let used = report.adaptive.expect("a policy");
        assert!(used.plain_rounds > 900, "{bad:?}: {used:?}");
        assert!(used.rests >= 4 && used.rests <= 8, "{bad:?}: {used:?}");
        // Feeding the drafter costs half a unit in 11 a round, trials the rest.
        assert!(
            seconds(&report, Method::Ddtree) < 1.08 * plain,
            "{bad:?}: {used:?}"
        );
    }
}

#[test]
fn trees_are_as_large_as_pays() {
    let script = Script {
        drafting: Drafting::Noisy(2.0),
        ..Script::small(8)
    };
    let run = |budget: usize| {
        let mut mock = Mock::new(script.clone());
        answer(&mut mock, Some(plan(Method::Ddtree, budget)), false, 0.0, 1500)
    };
    let adaptive = run(100);
    let used = adaptive.adaptive.expect("a policy");
    assert!(used.mean_nodes() > 2.0 && used.mean_nodes() < 60.0, "{used:?}");
    assert!(run(3).adaptive.expect("a policy").mean_nodes() <= 3.0);
    // Not much worse than the best fixed budget, which nobody knows beforehand.
    let fixed = [2, 4, 8, 16, 32, 64, 100].map(|budget| {
        let request = Request {
            method: Method::Ddtree,
            budget,
            ..request(0.0, 1500)
        };
        let mut mock = Mock::new(script.clone());
        let report = resume_with(&mut mock, &[1, 2, 3, 4, 5], &request, None, &mut Ignore);
        let report = report.expect("an answer");
        let drafted = costs().round(Method::Ddtree, 0, 64).expect("measured");
        report.rounds as f64 * drafted + 0.2 * report.draft_tokens as f64
    });
    let best = fixed.into_iter().fold(f64::INFINITY, f64::min);
    let found = seconds(&adaptive, Method::Ddtree);
    assert!(found < 1.1 * best, "{found} against {fixed:?}: {used:?}");
}

/// A drafter that is wrong up to a position and perfect from there on.
struct Turning {
    inner: Mock,
    at: usize,
}

impl Backend for Turning {
    fn shape(&self) -> Shape {
        self.inner.shape()
    }
    fn committed(&self) -> usize {
        self.inner.committed()
    }
    fn reset(&mut self) -> Result<(), BackendError> {
        self.inner.reset()
    }
    fn reserve(&mut self, rows: usize) -> Result<(), BackendError> {
        self.inner.reserve(rows)
    }
    fn set_drafting(&mut self, on: bool) {
        self.inner.set_drafting(on);
    }
    fn verify(&mut self, batch: &RowBatch<'_>) -> Result<(), BackendError> {
        self.inner.verify(batch)
    }
    fn logits(&mut self, rows: &[u32], out: &mut Vec<f32>) -> Result<(), BackendError> {
        self.inner.logits(rows, out)
    }
    fn features(&mut self, hidden: &mut Vec<f32>, taps: &mut Vec<f32>) -> Result<(), BackendError> {
        self.inner.features(hidden, taps)
    }
    fn commit(&mut self, path: &[u32]) -> Result<(), BackendError> {
        self.inner.commit(path)
    }
    fn draft(&mut self, anchor: u32) -> Result<(), BackendError> {
        self.inner.script.drafting = if self.committed() < self.at {
            Drafting::Wrong
        } else {
            Drafting::Perfect
        };
        // The mock's own check: a drafter whose context lacks rows is an error.
        self.inner.draft(anchor)
    }
    fn candidates(
        &mut self,
        modes: Range<usize>,
        k: usize,
        out: &mut Candidates,
    ) -> Result<(), BackendError> {
        self.inner.candidates(modes, k, out)
    }
    fn snapshot(&mut self) -> Result<Snapshot, BackendError> {
        self.inner.snapshot()
    }
    fn rewind(&mut self, snapshot: &Snapshot) -> Result<(), BackendError> {
        self.inner.rewind(snapshot)
    }
    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

#[test]
fn drafting_comes_back_when_it_pays_again() {
    let mut turning = Turning {
        inner: Mock::new(Script::small(4)),
        at: 200,
    };
    let expected = answer(&mut Mock::new(Script::small(4)), None, false, 0.0, 1200);
    for rests in [false, true] {
        let report = answer(&mut turning, Some(plan(Method::Ddtree, 60)), rests, 0.0, 1200);
        assert_eq!(report.token_ids, expected.token_ids);
        let used = report.adaptive.expect("a policy");
        assert!(used.rests >= 2, "gave up at first: {used:?}");
        assert!(used.plain_rounds > 150 && used.plain_rounds < 600, "{used:?}");
        let late = &report.accepted_lengths[report.accepted_lengths.len() - 20..];
        assert!(late.iter().all(|l| *l > 2), "trees at the end: {late:?}");
    }
}

#[test]
fn the_trained_pairs_keep_their_text() {
    for (target, drafter, method) in [
        ("tiny-qwen3", "tiny-qwen3-dflash", Method::Ddtree),
        ("tiny-qwen3.5", "tiny-qwen3.5-mfd", Method::Mfd),
    ] {
        let bundle = Bundle::trained(target, drafter);
        let mut engine = bundle.open();
        for temperature in [0.0, 1.0] {
            let request = request(temperature, 120);
            let mut run = |policy: Option<&mut Adaptive>| {
                engine.reset().expect("reset");
                let prompt = [5, 6, 7, 8];
                let report = resume_with(&mut engine, &prompt, &request, policy, &mut Ignore);
                report.expect("an answer")
            };
            let expected = run(None);
            for rests in [false, true] {
                let mut policy = Adaptive::new(costs(), plan(method, 64), rests);
                let found = run(Some(&mut policy));
                assert_eq!(found.token_ids, expected.token_ids, "{target} T {temperature}");
                let used = found.adaptive.expect("a policy");
                assert!(used.drafted_rounds > 0, "{used:?}");
            }
        }
    }
}
