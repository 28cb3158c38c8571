//! What the host allows: memory bandwidth and arithmetic.

use forkcast_engines::bundle::OpenError;
use forkcast_engines::ort::gemm_rate;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::time::Instant;

/// Bytes that are read or copied in all: beyond the caches of any processor.
const BYTES: usize = 512 << 20;
/// Times of which the best counts.
const REPEAT: usize = 5;

/// Rates of the host on a number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Threads that were used.
    pub threads: usize,
    /// Bytes per second read from memory.
    pub read: f64,
    /// Bytes per second moved by a copy, reads and writes together.
    pub copy: f64,
    /// Float32 operations per second of a matrix product in ONNX Runtime.
    pub gemm: f64,
}

/// Measures the host; takes about two seconds and 512 MiB.
///
/// # Errors
/// ONNX Runtime is missing or fails.
pub fn rates(threads: usize) -> Result<Rates, OpenError> {
    let threads = threads.max(1);
    let words = BYTES / 16 / threads;
    let mut pairs: Vec<(Vec<u64>, Vec<u64>)> =
        (0..threads).map(|_| (vec![1; words], vec![2; words])).collect();
    let moved = (threads * words * 16) as f64;
    let mut best = [0.0f64; 2];
    for _ in 0..REPEAT {
        let seconds = on_all(&mut pairs, |(a, b)| {
            black_box([lanes(a), lanes(b)]);
        });
        best[0] = best[0].max(moved / seconds);
        let seconds = on_all(&mut pairs, |(a, b)| {
            b.copy_from_slice(a);
            black_box(&b);
        });
        best[1] = best[1].max(moved / seconds);
    }
    drop(pairs);
    Ok(Rates {
        threads,
        read: best[0],
        copy: best[1],
        gemm: gemm_rate(threads)?,
    })
}

/// All words combined, in lanes that a processor works on at once.
fn lanes(words: &[u64]) -> [u64; 16] {
    let mut sums = [0u64; 16];
    for chunk in words.chunks_exact(16) {
        for (sum, word) in sums.iter_mut().zip(chunk) {
            *sum ^= word;
        }
    }
    sums
}

/// Seconds until `work` is done with every pair, each on a thread.
fn on_all(pairs: &mut [(Vec<u64>, Vec<u64>)], work: impl Fn(&mut (Vec<u64>, Vec<u64>)) + Sync) -> f64 {
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for pair in pairs {
            scope.spawn(|| work(pair));
        }
    });
    begin.elapsed().as_secs_f64().max(1e-9)
}
