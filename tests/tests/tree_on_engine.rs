//! Invariant 3 of DESIGN on real engines: a root path of any tree equals decoding that path, a
//! commit equals prefill of the same tokens, verification changes no state.

use forkcast_engines::backend::{Backend, RowBatch, Snapshot};
use forkcast_tests::bundles::{Bundle, prefill, verify_chain};
use forkcast_tests::paths;
use forkcast_tests::tensors::{assert_close, max_difference};
use forkcast_tests::trees::Rows;
use rand::{Rng, SeedableRng, rngs::StdRng};

const LOGITS: f32 = 2e-4;
const STATE: f32 = 1e-4;

fn tokens(rng: &mut StdRng, n: usize, vocab: u32) -> Vec<u32> {
    (0..n).map(|_| rng.random_range(0..vocab)).collect()
}

fn verify(engine: &mut dyn Backend, rows: &Rows) {
    let committed = engine.committed();
    engine.reserve(committed + rows.tokens.len()).expect("room");
    let (positions, ancestors) = (rows.positions(committed), rows.ancestors());
    let batch = RowBatch {
        tokens: &rows.tokens,
        positions: &positions,
        ancestors: &ancestors,
    };
    engine.verify(&batch).expect("verify");
}

fn all_logits(engine: &mut dyn Backend, rows: &[u32]) -> Vec<f32> {
    let mut out = Vec::new();
    engine.logits(rows, &mut out).expect("logits");
    out
}

fn same_state(what: &str, a: &Snapshot, b: &Snapshot) {
    assert_eq!(a.committed, b.committed, "{what}");
    for (x, y) in a.states.iter().zip(&b.states) {
        let difference = max_difference(x, y);
        assert!(difference <= STATE, "{what}: states differ by {difference}");
    }
}

fn engines() -> Vec<(&'static str, Bundle, u32)> {
    let golden = |name| Bundle::export(&paths::golden(name), None, None);
    vec![
        ("hybrid ratio 3", golden("hybrid_ratio3_untied_bf16"), 256),
        ("dense", golden("dense_untied_f32"), 256),
        (
            "trained hybrid",
            Bundle::export(&paths::model("tiny-qwen3.5"), None, None),
            2042,
        ),
    ]
}

#[test]
fn every_root_path_equals_decoding_that_path() {
    let mut rng = StdRng::seed_from_u64(11);
    for (name, bundle, vocab) in engines() {
        let mut engine = bundle.open();
        for n in [1, 2, 17, 65, 257] {
            let prompt = tokens(&mut rng, 37, vocab);
            let rows = Rows::random(&mut rng, n, 15, vocab);
            engine.reset().expect("reset");
            prefill(&mut engine, &prompt, 64);
            let before = engine.snapshot().expect("snapshot");
            verify(&mut engine, &rows);
            let checked: Vec<u32> = (0..n as u32)
                .step_by(n.div_ceil(6))
                .chain([n as u32 - 1])
                .collect();
            let found = all_logits(&mut engine, &checked);
            assert_eq!(
                before,
                engine.snapshot().expect("snapshot"),
                "{name}: verify changed the state"
            );
            let width = found.len() / checked.len();
            for (slot, row) in checked.iter().enumerate() {
                let path = rows.path_tokens(*row as usize);
                engine.reset().expect("reset");
                prefill(&mut engine, &prompt, 64);
                for token in &path[..path.len() - 1] {
                    prefill(&mut engine, &[*token], 1);
                }
                verify_chain(&mut engine, &path[path.len() - 1..]);
                let expected = all_logits(&mut engine, &[0]);
                let what = format!("{name}, tree of {n}, row {row} of depth {}", path.len() - 1);
                assert_close(&what, &found[slot * width..(slot + 1) * width], &expected, LOGITS);
            }
        }
    }
}

#[test]
fn fifty_commits_of_random_paths_do_not_drift() {
    let mut rng = StdRng::seed_from_u64(12);
    for (name, bundle, vocab) in engines() {
        let (mut engine, mut reference) = (bundle.open(), bundle.open());
        let prompt = tokens(&mut rng, 21, vocab);
        prefill(&mut engine, &prompt, 64);
        prefill(&mut reference, &prompt, 64);
        for round in 0..50 {
            let n = [1, 5, 33, 64, 129][round % 5];
            let rows = Rows::random(&mut rng, n, 15, vocab);
            let row = rng.random_range(0..n);
            let path: Vec<u32> = rows.path(row).into_iter().map(|r| r as u32).collect();
            verify(&mut engine, &rows);
            engine.commit(&path).expect("commit");
            for token in rows.path_tokens(row) {
                prefill(&mut reference, &[token], 1);
            }
            let (a, b) = (
                engine.snapshot().expect("snapshot"),
                reference.snapshot().expect("snapshot"),
            );
            same_state(&format!("{name}, round {round}"), &a, &b);
        }
        verify_chain(&mut engine, &[1]);
        verify_chain(&mut reference, &[1]);
        let (a, b) = (all_logits(&mut engine, &[0]), all_logits(&mut reference, &[0]));
        assert_close(&format!("{name}: logits after 50 rounds"), &a, &b, LOGITS);
    }
}

#[test]
fn a_snapshot_brings_the_stream_back() {
    let mut rng = StdRng::seed_from_u64(13);
    for (name, bundle, vocab) in engines() {
        let mut engine = bundle.open();
        for shared in 1..=6 {
            let prompt = tokens(&mut rng, shared, vocab);
            let (one, two) = (tokens(&mut rng, 9, vocab), tokens(&mut rng, 11, vocab));
            engine.reset().expect("reset");
            prefill(&mut engine, &prompt, 4);
            let snapshot = engine.snapshot().expect("snapshot");
            prefill(&mut engine, &one, 5);
            engine.rewind(&snapshot).expect("rewind");
            assert_eq!(engine.committed(), shared);
            prefill(&mut engine, &two, 5);
            let warm = engine.snapshot().expect("snapshot");
            verify_chain(&mut engine, &[7]);
            let warm_logits = all_logits(&mut engine, &[0]);
            engine.reset().expect("reset");
            prefill(&mut engine, &prompt, 4);
            prefill(&mut engine, &two, 5);
            same_state(name, &warm, &engine.snapshot().expect("snapshot"));
            verify_chain(&mut engine, &[7]);
            assert_eq!(
                warm_logits,
                all_logits(&mut engine, &[0]),
                "{name}, shared {shared}: same as a cold run"
            );
        }
    }
}
