//! The GPU engine with the bodies that TensorRT gets, in float32, against the CPU engine with its kernels.

use crate::engine::EngineDir;
use forkcast::decode::{Ignore, Method, Request, decode};
use forkcast::sample::Sampling;
use forkcast_engines::backend::{Backend, Candidates, LogitNeeds, RowBatch};
use forkcast_engines::engine::WeightMode;
use forkcast_tests::bundles::{Bundle, prefill, verify_chain};
use forkcast_tests::tensors::{assert_close, max_difference};
use forkcast_tests::trees::Rows;
use rand::{Rng, SeedableRng, rngs::StdRng};

const LOGITS: f32 = 2e-4;
const STATE: f32 = 1e-4;
const VOCAB: u32 = 2042;

const PAIRS: [(&str, &str); 3] = [
    ("tiny-qwen3.5", "tiny-qwen3.5-mfd"),
    ("tiny-qwen3.5", "tiny-qwen3.5-dflash"),
    ("tiny-qwen3", "tiny-qwen3-dflash"),
];

fn tokens(rng: &mut StdRng, n: usize) -> Vec<u32> {
    (0..n).map(|_| rng.random_range(0..VOCAB)).collect()
}

fn verify(engine: &mut dyn Backend, rows: &Rows) {
    let committed = engine.committed();
    let (positions, ancestors) = (rows.positions(committed), rows.ancestors());
    let batch = RowBatch {
        tokens: &rows.tokens,
        positions: &positions,
        ancestors: &ancestors,
    };
    engine.verify(&batch).expect("verify");
}

fn logits(engine: &mut dyn Backend, rows: &[u32]) -> Vec<f32> {
    let mut out = Vec::new();
    engine.logits(rows, &mut out).expect("logits");
    out
}

/// Logits, hidden states, taps and states agree.
fn same(what: &str, gpu: &mut dyn Backend, cpu: &mut dyn Backend, rows: usize) {
    let all: Vec<u32> = (0..rows as u32).collect();
    assert_close(
        &format!("{what}: logits"),
        &logits(gpu, &all),
        &logits(cpu, &all),
        LOGITS,
    );
    let [mut a, mut b, mut c, mut d] = [const { Vec::new() }; 4];
    gpu.features(&mut a, &mut b).expect("features");
    cpu.features(&mut c, &mut d).expect("features");
    assert_close(&format!("{what}: hidden"), &a, &c, LOGITS);
    assert_close(&format!("{what}: taps"), &b, &d, LOGITS);
}

fn same_state(what: &str, gpu: &mut dyn Backend, cpu: &mut dyn Backend) {
    let (a, b) = (
        gpu.snapshot().expect("snapshot"),
        cpu.snapshot().expect("snapshot"),
    );
    assert_eq!(a.committed, b.committed, "{what}");
    assert_eq!(a.states.len(), b.states.len(), "{what}");
    for (x, y) in a.states.iter().zip(&b.states) {
        let difference = max_difference(x, y);
        assert!(difference <= STATE, "{what}: states differ by {difference}");
    }
}

fn candidates(engine: &mut dyn Backend, anchor: u32, k: usize) -> Candidates {
    let mut out = Candidates::default();
    engine.draft(anchor).expect("draft");
    engine
        .candidates(0..engine.shape().modes, k, &mut out)
        .expect("candidates");
    out
}

/// The same log-probabilities; the same ids wherever neighbours are further apart than the noise.
fn same_candidates(what: &str, a: &Candidates, b: &Candidates) {
    assert_eq!((a.modes, a.positions, a.k), (b.modes, b.positions, b.k), "{what}");
    assert_close(&format!("{what}: log-probabilities"), &a.logp, &b.logp, LOGITS);
    let apart = |i: usize, j: usize| (b.logp[i] - b.logp[j]).abs() > 2.0 * LOGITS;
    let mut compared = 0;
    for i in 0..a.ids.len() {
        let (first, last) = (i % a.k == 0, i % a.k == a.k - 1);
        if !last && apart(i, i + 1) && (first || apart(i, i - 1)) {
            assert_eq!(a.ids[i], b.ids[i], "{what}: candidate {i}");
            compared += 1;
        }
    }
    assert!(
        2 * compared > a.ids.len(),
        "{what}: {compared} of {} compared",
        a.ids.len()
    );
}

#[test]
fn prompts_trees_commits_and_drafts_equal_the_cpu_engine() {
    let mut rng = StdRng::seed_from_u64(21);
    for (target, drafter) in PAIRS {
        let dir = EngineDir::trained(target, drafter);
        let (mut gpu, mut cpu) = (dir.open(), dir.bundle.open());
        assert_eq!(gpu.shape().prefill_rows, 128);
        let prompt = tokens(&mut rng, 75);
        for engine in [&mut gpu as &mut dyn Backend, &mut cpu] {
            engine.set_drafting(true);
            // One chunk through `prefill`, one through `target`.
            prefill(engine, &prompt[..64], 64);
            prefill(engine, &prompt[64..], 64);
        }
        same_state(&format!("{target}: prompt"), &mut gpu, &mut cpu);
        // Each bucket three times: as it is, recorded, launched.
        for round in 0..9 {
            let n = [1, 9, 30][round % 3];
            let what = format!("{target} {drafter}, round {round} of {n} rows");
            let rows = Rows::random(&mut rng, n, 15, VOCAB);
            verify(&mut gpu, &rows);
            verify(&mut cpu, &rows);
            same(&what, &mut gpu, &mut cpu, n);
            let path: Vec<u32> = rows
                .path(rng.random_range(0..n))
                .into_iter()
                .map(|r| r as u32)
                .collect();
            gpu.commit(&path).expect("commit");
            cpu.commit(&path).expect("commit");
            same_state(&what, &mut gpu, &mut cpu);
            // 10 of them come from the 64 best, 100 from whole rows.
            let k = if round % 4 == 3 { 100 } else { 10 };
            let anchor = rng.random_range(0..VOCAB);
            same_candidates(
                &what,
                &candidates(&mut gpu, anchor, k),
                &candidates(&mut cpu, anchor, k),
            );
        }
        assert_eq!(gpu.counters().row_copies, cpu.counters().row_copies, "{target}");
    }
}

#[test]
fn caches_grow_into_the_next_bucket_and_keep_what_they_hold() {
    let mut rng = StdRng::seed_from_u64(22);
    for (target, drafter) in [PAIRS[0], PAIRS[2]] {
        let dir = EngineDir::trained(target, drafter);
        let (mut gpu, mut cpu) = (dir.open(), dir.bundle.open());
        let prompt = tokens(&mut rng, 290);
        for engine in [&mut gpu as &mut dyn Backend, &mut cpu] {
            engine.set_drafting(true);
            prefill(engine, &prompt, 64);
            verify_chain(engine, &[7, 8, 9]);
        }
        same(&format!("{target}: after growing"), &mut gpu, &mut cpu, 3);
        same_candidates(target, &candidates(&mut gpu, 7, 10), &candidates(&mut cpu, 7, 10));
        // A long prompt in the engine's own chunks gives the same state as the short ones.
        gpu.reset().expect("reset");
        prefill(&mut gpu, &prompt, 128);
        same_state(target, &mut gpu, &mut cpu);
        let error = gpu.reserve(513).expect_err("beyond the context");
        assert!(error.to_string().contains("512"), "{error}");
    }
}

#[test]
fn a_snapshot_brings_the_stream_back() {
    let mut rng = StdRng::seed_from_u64(23);
    let dir = EngineDir::trained("tiny-qwen3.5", "tiny-qwen3.5-dflash");
    let (mut gpu, mut cold) = (dir.open(), dir.open());
    for shared in [1, 5, 40] {
        let (prompt, one, two) = (
            tokens(&mut rng, shared),
            tokens(&mut rng, 9),
            tokens(&mut rng, 11),
        );
        for engine in [&mut gpu, &mut cold] {
            engine.set_drafting(true);
            engine.reset().expect("reset");
            prefill(engine, &prompt, 64);
        }
        let snapshot = gpu.snapshot().expect("snapshot");
        prefill(&mut gpu, &one, 5);
        gpu.rewind(&snapshot).expect("rewind");
        assert_eq!(gpu.committed(), shared);
        for engine in [&mut gpu, &mut cold] {
            prefill(engine, &two, 5);
            verify_chain(engine, &[7]);
        }
        assert_eq!(logits(&mut gpu, &[0]), logits(&mut cold, &[0]), "shared {shared}");
        assert_eq!(
            candidates(&mut gpu, 3, 20),
            candidates(&mut cold, 3, 20),
            "shared {shared}"
        );
    }
    let long = gpu.snapshot().expect("snapshot");
    gpu.reset().expect("reset");
    assert!(
        gpu.rewind(&long).is_err(),
        "a snapshot that is longer than the stream"
    );
}

#[test]
fn answers_equal_the_cpu_engine_for_every_method() {
    for (target, drafter) in [PAIRS[0], PAIRS[2]] {
        let dir = EngineDir::trained(target, drafter);
        let (mut gpu, mut cpu) = (dir.open(), dir.bundle.open());
        let prompt: Vec<u32> = (0..70).map(|i| (i * 37 + 11) % VOCAB).collect();
        // Greedy, the 64 best, and whole rows.
        for (temperature, top_k, top_p) in [(0.0, 0, 1.0), (0.8, 20, 0.95), (1.0, 0, 0.9)] {
            for method in Method::ALL {
                if method == Method::Mfd && gpu.shape().modes < 2 {
                    continue;
                }
                let request = Request {
                    method,
                    budget: 24,
                    mode: 0,
                    max_tokens: 40,
                    sampling: Sampling {
                        temperature,
                        top_k,
                        top_p,
                        ..Sampling::default()
                    },
                    seed: 5,
                    stop_ids: Vec::new(),
                    logprobs: None,
                };
                let expected = decode(&mut cpu, &prompt, &request, &mut Ignore).expect("decodes");
                let found = decode(&mut gpu, &prompt, &request, &mut Ignore).expect("decodes");
                let what = format!("{target} {method} T={temperature}");
                assert_eq!(found.token_ids, expected.token_ids, "{what}");
                assert_eq!(found.accepted_lengths, expected.accepted_lengths, "{what}");
                same_state(&what, &mut gpu, &mut cpu);
            }
        }
    }
}

#[test]
fn less_than_full_needs_leave_the_best_entries_as_they_are() {
    let mut rng = StdRng::seed_from_u64(24);
    let dir = EngineDir::trained("tiny-qwen3.5", "tiny-qwen3.5-mfd");
    let mut gpu = dir.open();
    prefill(&mut gpu, &tokens(&mut rng, 20), 64);
    let tree = Rows::random(&mut rng, 20, 8, VOCAB);
    let chain: Vec<u32> = tokens(&mut rng, 40);
    for long in [false, true] {
        let mut read = |needs| {
            gpu.set_needs(needs);
            if long {
                verify_chain(&mut gpu, &chain);
            } else {
                verify(&mut gpu, &tree);
            }
            logits(&mut gpu, &[3, 0, 19])
        };
        let full = read(LogitNeeds::Full);
        let (top, greedy) = (read(LogitNeeds::Top(20)), read(LogitNeeds::Greedy));
        assert_eq!(full, read(LogitNeeds::Top(65)), "more than the head brings");
        let width = full.len() / 3;
        for ((full, top), greedy) in full
            .chunks(width)
            .zip(top.chunks(width))
            .zip(greedy.chunks(width))
        {
            let mut order: Vec<usize> = (0..width).collect();
            order.sort_by(|a, b| full[*b].total_cmp(&full[*a]).then(a.cmp(b)));
            assert!(order[..64].iter().all(|i| top[*i] == full[*i]), "the 64 best");
            assert!(
                order[64..].iter().all(|i| top[*i] == f32::NEG_INFINITY),
                "and no other"
            );
            let known: Vec<usize> = (0..width).filter(|i| greedy[*i].is_finite()).collect();
            assert_eq!(known, order[..1]);
        }
    }
}

/// A head with a NaN in it: whatever is read of a row, the row must not look sound.
#[test]
fn a_nan_shows_whatever_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (forkcast_tests::paths::model("tiny-qwen3"), folder.path());
    for entry in std::fs::read_dir(&from).expect("listed").flatten() {
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
    }
    let file = to.join("model.safetensors");
    let mut bytes = std::fs::read(&file).expect("read");
    let header = u64::from_le_bytes(bytes[..8].try_into().expect("eight")) as usize;
    let list: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header]).expect("a header");
    let table = &list["model.embed_tokens.weight"];
    let number = |v: &serde_json::Value| v.as_u64().expect("a number") as usize;
    let start = 8 + header + number(&table["data_offsets"][0]);
    let row =
        (number(&table["data_offsets"][1]) - number(&table["data_offsets"][0])) / number(&table["shape"][0]);
    // All bits set is a NaN in every type that weights have; the table is the head as well.
    bytes[start + 9 * row..start + 10 * row].fill(0xff);
    std::fs::write(&file, bytes).expect("written");
    let dir = EngineDir::build(Bundle::export(to, None, None), WeightMode::Inputs);
    let mut gpu = dir.open();
    for needs in [LogitNeeds::Full, LogitNeeds::Top(20), LogitNeeds::Greedy] {
        gpu.set_needs(needs);
        verify_chain(&mut gpu, &[1, 2, 3]);
        let rows = logits(&mut gpu, &[0, 2]);
        let width = rows.len() / 2;
        for row in rows.chunks(width) {
            assert!(row.iter().any(|x| x.is_nan()), "{needs:?}");
        }
    }
}
