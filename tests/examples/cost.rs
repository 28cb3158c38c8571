//! Cost of a round's parts by rows, on a bundle: `cargo run --release -p forkcast-tests --example cost -- BUNDLE`.
//!
//! Prints medians in microseconds: target pass over a tree of N rows, head over R rows, commit of a path of P
//! rows, and the draft pass with its candidates. Every figure is the median of interleaved repeats.

use forkcast_engines::backend::{Backend, Candidates, RowBatch};
use forkcast_engines::ort::{OpenOptions, OrtBackend};
use forkcast_tests::bundles::prefill;
use forkcast_tests::paths;
use forkcast_tests::trees::Rows;
use rand::{SeedableRng, rngs::StdRng};
use std::time::Instant;

const ROWS: [usize; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 192, 257];
const REPEATS: usize = 25;

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2] * 1e6
}

struct Timings {
    verify: Vec<f64>,
    head: Vec<f64>,
    commit: Vec<f64>,
}

fn verify(engine: &mut dyn Backend, rows: &Rows) -> f64 {
    let committed = engine.committed();
    engine.reserve(committed + rows.tokens.len()).expect("room");
    let (positions, ancestors) = (rows.positions(committed), rows.ancestors());
    let batch = RowBatch {
        tokens: &rows.tokens,
        positions: &positions,
        ancestors: &ancestors,
    };
    let start = Instant::now();
    engine.verify(&batch).expect("verify");
    start.elapsed().as_secs_f64()
}

fn timed<T>(work: impl FnOnce() -> T) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn main() {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: cost BUNDLE");
        std::process::exit(2);
    };
    let options = OpenOptions {
        threads: None,
        max_context: None,
        library: Some(paths::onnxruntime()),
        drafter: None,
    };
    let mut engine = OrtBackend::open(path.as_ref(), &options).expect("opens");
    let shape = engine.shape();
    let vocab = shape.vocab.min(2000) as u32;
    let mut rng = StdRng::seed_from_u64(1);
    engine.set_drafting(shape.modes > 0);
    let prompt = Rows::random(&mut rng, 100, 99, vocab).tokens;
    prefill(&mut engine, &prompt, shape.prefill_rows);
    let snapshot = engine.snapshot().expect("snapshot");

    let mut logits = Vec::new();
    let mut all: Vec<Timings> = ROWS
        .iter()
        .map(|_| Timings {
            verify: vec![],
            head: vec![],
            commit: vec![],
        })
        .collect();
    let (mut draft, mut candidates, mut out) = (vec![], vec![], Candidates::default());
    for _ in 0..REPEATS {
        for (n, timings) in ROWS.iter().zip(&mut all) {
            let rows = Rows::random(&mut rng, *n, 15, vocab);
            timings.verify.push(verify(&mut engine, &rows));
            let path: Vec<u32> = rows.path(n - 1).into_iter().map(|r| r as u32).collect();
            timings
                .head
                .push(timed(|| engine.logits(&path, &mut logits).expect("logits")));
            timings
                .commit
                .push(timed(|| engine.commit(&path).expect("commit")));
            if shape.modes > 0 {
                draft.push(timed(|| engine.draft(1).expect("draft")));
                candidates.push(timed(|| {
                    engine
                        .candidates(0..shape.modes, 32, &mut out)
                        .expect("candidates")
                }));
            }
            engine.rewind(&snapshot).expect("rewind");
        }
    }
    println!(
        "| rows | verify us | us per row | head of its last path us | commit us |\n|---|---|---|---|---|"
    );
    for (n, t) in ROWS.iter().zip(all) {
        let v = median(t.verify);
        println!(
            "| {n} | {v:.0} | {:.1} | {:.0} | {:.0} |",
            v / *n as f64,
            median(t.head),
            median(t.commit)
        );
    }
    if shape.modes > 0 {
        println!(
            "\ndraft {:.0} us, candidates (k = 32, {} modes) {:.0} us",
            median(draft),
            shape.modes,
            median(candidates)
        );
    }
}
