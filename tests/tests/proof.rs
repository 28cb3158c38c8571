//! `forkcast::proof`: right engines pass, and each check says no to an engine that is wrong in its own way.

use forkcast::proof::{Bounds, Proof, Sample, Settings, prove};
use forkcast_engines::backend::{Backend, BackendError, Candidates, Counters, RowBatch, Shape, Snapshot};
use forkcast_engines::manifest::{Dtype, read};
use forkcast_tests::bundles::Bundle;
use forkcast_tests::mock::{Mock, Script};
use std::ops::Range;

/// What an engine does wrong, only in passes over trees.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// Logits of rows behind the first are turned.
    Rows,
    /// As little as a logit of a likely token is off, never the best one.
    Tail,
    /// The two best tokens of every row are all but equal, and change places.
    Tie,
    /// The recurrent state is off after a commit of several rows.
    State,
    /// A commit of several rows forgets the last one's token.
    Token,
}

struct Faulty {
    inner: Mock,
    fault: Fault,
    tree: bool,
    off: bool,
}

impl Faulty {
    fn spoil(&self, rows: &[u32], vocab: usize, out: &mut [f32]) {
        for (row, logits) in rows.iter().zip(out.chunks_mut(vocab)) {
            let mut order: Vec<usize> = (0..vocab).collect();
            order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
            match self.fault {
                Fault::Rows if self.tree && *row > 0 => logits.reverse(),
                Fault::Tail if self.tree && *row > 0 => logits[order[1]] -= 2.0,
                Fault::Tie => {
                    let (best, second) = (logits[order[0]], order[1]);
                    // By id, so that plain is steady.
                    let place = order[0].min(second);
                    let other = order[0].max(second);
                    let sign = if self.tree { 1.0 } else { -1.0 };
                    logits[place] = best;
                    logits[other] = best + sign * 1e-4;
                }
                _ => {}
            }
        }
    }
}

impl Backend for Faulty {
    fn shape(&self) -> Shape {
        self.inner.shape()
    }
    fn committed(&self) -> usize {
        self.inner.committed()
    }
    fn reset(&mut self) -> Result<(), BackendError> {
        self.off = false;
        self.inner.reset()
    }
    fn reserve(&mut self, rows: usize) -> Result<(), BackendError> {
        self.inner.reserve(rows)
    }
    fn set_drafting(&mut self, on: bool) {
        self.inner.set_drafting(on);
    }
    fn verify(&mut self, batch: &RowBatch<'_>) -> Result<(), BackendError> {
        // A prompt of one pass is no tree: its anchor is at the beginning.
        self.tree = batch.len() > 1 && batch.positions[0] > 6;
        self.inner.verify(batch)
    }
    fn logits(&mut self, rows: &[u32], out: &mut Vec<f32>) -> Result<(), BackendError> {
        self.inner.logits(rows, out)?;
        self.spoil(rows, self.inner.script.vocab, out);
        Ok(())
    }
    fn features(&mut self, hidden: &mut Vec<f32>, taps: &mut Vec<f32>) -> Result<(), BackendError> {
        self.inner.features(hidden, taps)
    }
    fn commit(&mut self, path: &[u32]) -> Result<(), BackendError> {
        self.inner.commit(path)?;
        self.off |= path.len() > 1;
        if self.fault == Fault::Token
            && self.tree
            && path.len() > 1
            && let Some(last) = self.inner.tokens.last_mut()
        {
            *last = (*last + 1) % 50;
        }
        Ok(())
    }
    fn draft(&mut self, anchor: u32) -> Result<(), BackendError> {
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
        let mut snapshot = self.inner.snapshot()?;
        if self.fault == Fault::State && self.off {
            snapshot.states[0][0] += 1.0;
        }
        Ok(snapshot)
    }
    fn rewind(&mut self, snapshot: &Snapshot) -> Result<(), BackendError> {
        self.inner.rewind(snapshot)
    }
    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

fn settings() -> Settings {
    Settings {
        budgets: vec![4, 24],
        seeds: vec![3, 4],
        temperature: 1.0,
        max_tokens: 40,
        bounds: Bounds::of(Dtype::F32),
    }
}

fn samples() -> Vec<Sample> {
    let sample = |id: &str, tokens: &[u32]| Sample {
        id: id.to_owned(),
        tokens: tokens.to_vec(),
    };
    vec![
        sample("a", &[1, 2, 3, 4, 5, 6, 7]),
        sample("b", &[9, 8, 7, 6, 5, 4, 3]),
    ]
}

fn proof_of(fault: Fault) -> Proof {
    let mut engine = Faulty {
        inner: Mock::new(Script::small(5)),
        fault,
        tree: false,
        off: false,
    };
    prove(&mut engine, &samples(), &[], &settings(), true, &mut |_| ()).expect("a proof")
}

#[test]
fn a_right_engine_passes_with_every_method_and_budget() {
    let proof = proof_of(Fault::None);
    assert!(proof.holds(), "{proof:?}");
    let cells = [
        "plain",
        "chain 4",
        "chain 15",
        "ddtree 4",
        "ddtree 24",
        "mfd 4",
        "mfd 24",
    ];
    assert_eq!(proof.cells, cells);
    let [greedy, drawn] = &proof.tokens[..] else {
        panic!("two temperatures")
    };
    assert_eq!((greedy.answers, greedy.tokens), (2 * 7, 2 * 7 * 40));
    assert_eq!((drawn.answers, drawn.tokens), (2 * 2 * 7, 2 * 2 * 7 * 40));
    assert_eq!(proof.states.len(), 4);
    for state in &proof.states {
        assert!(state.rounds > 2 && state.left_out == 0, "{state:?}");
        assert_eq!((state.state_error, state.logit_error), (0.0, 0.0));
    }
}

#[test]
fn wrong_rows_of_trees_change_tokens() {
    let proof = proof_of(Fault::Rows);
    assert!(!proof.tokens[0].holds() && !proof.tokens[1].holds() && !proof.holds());
    let first = &proof.tokens[0].divergences[0];
    assert!(!first.near_tie && first.expected != first.found && first.expected.is_some());
    assert!(first.gap.expect("both tokens are known") > 1e-3, "{first:?}");
    assert!(
        proof.tokens[0].divergences.iter().all(|d| d.cell != "plain"),
        "plain has no trees"
    );
}

#[test]
fn wrong_rows_that_keep_the_best_token_change_draws() {
    let proof = proof_of(Fault::Tail);
    assert!(proof.tokens[0].divergences.is_empty(), "greedy text is the same");
    assert!(!proof.tokens[1].holds() && !proof.holds());
    let first = &proof.tokens[1].divergences[0];
    assert!(first.gap.expect("both tokens are known") > 1e-3 && first.temperature == 1.0);
}

#[test]
fn near_ties_are_listed_and_no_failure() {
    let proof = proof_of(Fault::Tie);
    assert!(proof.ties.len() >= 40, "every row is one: {}", proof.ties.len());
    assert!(proof.ties.iter().all(|t| t.gap < 1e-3 && t.token < t.other));
    let equality = &proof.tokens[0];
    assert!(
        !equality.divergences.is_empty() && equality.holds(),
        "{equality:?}"
    );
    for d in &equality.divergences {
        let gap = d.gap.expect("a gap");
        assert!(d.near_tie && (gap - 1e-4).abs() < 1e-6, "{d:?}");
    }
}

#[test]
fn a_wrong_state_is_found_though_the_text_is_right() {
    let proof = proof_of(Fault::State);
    assert!(proof.tokens.iter().all(|t| t.divergences.is_empty()));
    assert!(!proof.holds());
    for state in &proof.states {
        // The prompt is a commit of several rows for every method.
        assert!(!state.holds() && state.state_error > 1e-3, "{state:?}");
        assert_eq!(state.first, Some(("a".to_owned(), 0)));
    }
}

#[test]
fn a_wrong_commit_changes_state_and_logits() {
    let proof = proof_of(Fault::Token);
    assert!(!proof.holds());
    let (plain, trees) = proof.states.split_first().expect("states");
    assert!(plain.holds(), "plain commits single rows: {plain:?}");
    for state in trees {
        assert!(!state.holds() && state.state_error > 1e-3 && state.logit_error > 1e-3);
        assert!(
            state.first.as_ref().is_some_and(|(_, round)| *round > 0),
            "{state:?}"
        );
    }
}

#[test]
fn the_trained_pairs_pass() {
    for (target, drafter) in [
        ("tiny-qwen3", "tiny-qwen3-dflash"),
        ("tiny-qwen3.5", "tiny-qwen3.5-mfd"),
    ] {
        let bundle = Bundle::trained(target, drafter);
        let manifest = read(&bundle.path()).expect("a manifest");
        let mut engine = bundle.open();
        let settings = Settings {
            seeds: vec![1],
            ..settings()
        };
        let proof = prove(
            &mut engine,
            &samples(),
            &manifest.stop_ids,
            &settings,
            true,
            &mut |_| (),
        );
        let proof = proof.expect("a proof");
        assert!(proof.holds(), "{target}: {proof:#?}");
        let operators = forkcast::proof::operators::check(&manifest, 1).expect("operators");
        let expected = if target == "tiny-qwen3" { 4 } else { 9 };
        assert_eq!(operators.len(), expected);
        for operator in operators {
            assert!(operator.holds && operator.calls >= 5, "{operator:?}");
        }
    }
}
