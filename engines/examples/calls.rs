//! Shortest time of each call of an engine, and how much of it is spent outside the library.
//!
//! `cargo run --release -p forkcast-engines --example calls -- BUNDLE LIBRARY [THREADS]`

use forkcast_engines::backend::{Backend, Candidates, RowBatch};
use forkcast_engines::ort::{OpenOptions, OrtBackend};
use std::time::{Duration, Instant};

const REPEATS: usize = 60;

/// A tree of `n` rows: row i hangs on row (i - 1) / 2.
fn tree(n: usize, start: usize) -> (Vec<u32>, Vec<i64>, Vec<bool>) {
    let (mut positions, mut ancestors) = (vec![start as i64; n], vec![false; n * n]);
    ancestors[0] = true;
    for i in 1..n {
        let parent = (i - 1) / 2;
        positions[i] = positions[parent] + 1;
        ancestors.copy_within(parent * n..parent * n + i, i * n);
        ancestors[i * n + i] = true;
    }
    (
        (0..n as u32).map(|i| 7 + i % 1000).collect(),
        positions,
        ancestors,
    )
}

/// Shortest of all calls, in microseconds: whole, and outside the library.
#[derive(Clone, Copy)]
struct Best(f64, f64);

impl Best {
    fn take(&mut self, engine: &mut OrtBackend, work: impl FnOnce(&mut OrtBackend)) {
        let (before, start) = (engine.library_time(), Instant::now());
        work(engine);
        let whole = start.elapsed();
        let outside = whole.saturating_sub(engine.library_time() - before);
        let us = |d: Duration| d.as_secs_f64() * 1e6;
        *self = Self(self.0.min(us(whole)), self.1.min(us(outside)));
    }
}

impl std::fmt::Display for Best {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0} ({:.1})", self.0, self.1)
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [bundle, library, rest @ ..] = arguments.as_slice() else {
        eprintln!("usage: calls BUNDLE LIBRARY [THREADS]");
        std::process::exit(2);
    };
    let options = OpenOptions {
        threads: rest.first().and_then(|t| t.parse().ok()),
        max_context: None,
        library: Some(library.into()),
        drafter: None,
    };
    let mut engine = OrtBackend::open(bundle.as_ref(), &options).unwrap_or_else(|e| panic!("{e}"));
    let shape = engine.shape();
    let drafts = shape.modes > 0;
    engine.set_drafting(drafts);
    let chain: Vec<bool> = (0..64 * 64).map(|i| i % 64 <= i / 64).collect();
    let batch = RowBatch {
        tokens: &[5; 64],
        positions: &(0..64).collect::<Vec<i64>>(),
        ancestors: &chain,
    };
    engine.verify(&batch).expect("verify");
    engine.commit(&(0..64).collect::<Vec<u32>>()).expect("commit");
    let snapshot = engine.snapshot().expect("snapshot");
    println!("microseconds (of them outside the library)");
    let (mut logits, mut out) = (Vec::new(), Candidates::default());
    for n in [1, 17, 65, 257] {
        let (tokens, positions, ancestors) = tree(n, 64);
        let path: Vec<u32> = std::iter::successors(Some(0), |i| Some(2 * i + 1))
            .take_while(|i| *i < n as u32)
            .collect();
        let mut best = [Best(f64::MAX, f64::MAX); 5];
        for _ in 0..REPEATS {
            let batch = RowBatch {
                tokens: &tokens,
                positions: &positions,
                ancestors: &ancestors,
            };
            best[0].take(&mut engine, |e| e.verify(&batch).expect("verify"));
            best[1].take(&mut engine, |e| e.logits(&path, &mut logits).expect("logits"));
            best[2].take(&mut engine, |e| e.commit(&path).expect("commit"));
            if drafts {
                best[3].take(&mut engine, |e| e.draft(9).expect("draft"));
                best[4].take(&mut engine, |e| {
                    e.candidates(0..shape.modes, 32, &mut out).expect("candidates")
                });
            }
            engine.rewind(&snapshot).expect("rewind");
        }
        let [verify, head, commit, draft, candidates] = best;
        println!(
            "rows {n:3}: verify {verify}, head of {} rows {head}, commit {commit}",
            path.len()
        );
        if drafts {
            println!(
                "          draft {draft}, candidates of {} modes {candidates}",
                shape.modes
            );
        }
    }
}
