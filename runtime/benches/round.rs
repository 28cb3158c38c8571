//! Host cost of a round: tree, mask and walk at the paper's size, and draws from full rows.
//!
//! `cargo bench -p forkcast --bench round`. The host part of a round (`round/tree+mask+walk`) should stay under 100 microseconds
//! (DESIGN 5). The last line gives p50 and p99 of single rounds, which Criterion's means do not show; `-- quantiles` prints it alone,
//! and `tests/compare/host_part.py` reads it.

use criterion::{Criterion, criterion_group, criterion_main};
use forkcast::sample::{History, Sampler, Sampling};
use forkcast::tree::{Rows, Tree, TreeBuilder};
use forkcast::walk::{Step, Walker};
use forkcast_engines::backend::Candidates;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::hint::black_box;
use std::time::{Duration, Instant};

const MODES: usize = 8;
const POSITIONS: usize = 15;
const K: usize = 256;
const BUDGET: usize = 256;
const VOCAB: usize = 248_320;

struct Random(ChaCha8Rng);

impl Random {
    fn unit(&mut self) -> f64 {
        f64::from(self.0.next_u32()) / 4_294_967_296.0
    }

    fn below(&mut self, n: u32) -> u32 {
        self.0.next_u32() % n
    }
}

/// Lists as a trained drafter makes them: a peak that weakens with depth, a Zipf tail; the modes agree
/// on the best token of a position more often than not, and their tails come from the same thousand tokens.
fn candidates(random: &mut Random, modes: usize, k: usize) -> Candidates {
    let mut c = Candidates {
        modes,
        positions: POSITIONS,
        k,
        ..Candidates::default()
    };
    let common: Vec<u32> = (0..POSITIONS).map(|_| random.below(VOCAB as u32)).collect();
    for _ in 0..modes {
        for (position, shared) in common.iter().enumerate() {
            let sure = (0.95 - 0.04 * position as f64) * (0.4 + 0.6 * random.unit());
            let weights: Vec<f64> = (0..k).map(|r| (r as f64 + 1.0).powf(-1.3)).collect();
            let total: f64 = weights.iter().sum::<f64>() / (1.0 - sure);
            let first = if random.unit() < 0.6 {
                *shared
            } else {
                random.below(VOCAB as u32)
            };
            let base = random.below(1000);
            let mut row: Vec<(f32, u32)> = (0..k as u32)
                .map(|r| {
                    let tail = weights[r as usize] / total;
                    let p = if r == 0 { sure + tail } else { tail };
                    let id = if r == 0 { first } else { (base + 7 * r) % 1000 };
                    (p.ln() as f32, id)
                })
                .collect();
            row.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            c.logp.extend(row.iter().map(|e| e.0));
            c.ids.extend(row.iter().map(|e| e.1));
        }
    }
    c
}

/// Several rounds in turn, so that branch predictors do not learn one tree by heart.
fn rounds(modes: usize, k: usize) -> Vec<Candidates> {
    let mut random = Random(ChaCha8Rng::seed_from_u64(11));
    (0..16).map(|_| candidates(&mut random, modes, k)).collect()
}

fn flat(modes: usize) -> Vec<Candidates> {
    let mut all = rounds(modes, K);
    for c in &mut all {
        c.logp.fill(-(K as f32).ln());
    }
    all
}

fn trees(c: &mut Criterion) {
    let mut group = c.benchmark_group("round");
    group
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    let (mut builder, mut tree) = (TreeBuilder::new(), Tree::new());
    let mut at = 0;
    for (name, lists) in [
        ("tree/mfd K=8", rounds(MODES, K)),
        ("tree/mfd K=8 k=32", rounds(MODES, 32)),
        ("tree/ddtree", rounds(1, K)),
        ("tree/mfd K=8 all equal", flat(MODES)),
    ] {
        group.bench_function(name, |b| {
            b.iter(|| {
                at = (at + 1) % lists.len();
                builder.mixture(black_box(&lists[at]), BUDGET, 5, &mut tree)
            });
        });
    }
    let lists = rounds(MODES, K);
    let mut rows = Rows::new();
    builder.mixture(&lists[0], BUDGET, 5, &mut tree);
    group.bench_function("mask", |b| {
        b.iter(|| rows.of_tree(black_box(&tree), 1000).ancestors.len())
    });

    let drawn: Vec<Vec<u32>> = lists
        .iter()
        .map(|c| {
            builder.mixture(c, BUDGET, 5, &mut tree);
            draws(&tree)
        })
        .collect();
    let mut walker = Walker::new();
    builder.mixture(&lists[0], BUDGET, 5, &mut tree);
    group.bench_function("walk", |b| {
        b.iter(|| walk(black_box(&tree), &drawn[0], &mut walker))
    });
    group.bench_function("tree+mask+walk", |b| {
        b.iter(|| {
            at = (at + 1) % lists.len();
            builder.mixture(black_box(&lists[at]), BUDGET, 5, &mut tree);
            black_box(rows.of_tree(&tree, 1000));
            walk(&tree, &drawn[at], &mut walker)
        });
    });
    group.finish();
}

/// Rounds that are timed one by one.
const SAMPLES: usize = 20_000;

/// Prints median and 99th percentile of single rounds: the same work as `round/tree+mask+walk`, one clock reading a round.
fn quantiles(_: &mut Criterion) {
    let lists = rounds(MODES, K);
    let (mut builder, mut tree) = (TreeBuilder::new(), Tree::new());
    let drawn: Vec<Vec<u32>> = lists
        .iter()
        .map(|c| {
            builder.mixture(c, BUDGET, 5, &mut tree);
            draws(&tree)
        })
        .collect();
    let (mut rows, mut walker) = (Rows::new(), Walker::new());
    let mut nanoseconds: Vec<u128> = (0..SAMPLES)
        .map(|i| {
            let at = i % lists.len();
            let began = Instant::now();
            builder.mixture(black_box(&lists[at]), BUDGET, 5, &mut tree);
            black_box(rows.of_tree(&tree, 1000));
            black_box(walk(&tree, &drawn[at], &mut walker));
            began.elapsed().as_nanos()
        })
        .collect();
    nanoseconds.sort_unstable();
    println!(
        "single rounds, K={MODES} B={BUDGET} V={VOCAB}: p50 {:.1} us, p99 {:.1} us, {SAMPLES} samples",
        nanoseconds[SAMPLES / 2] as f64 / 1e3,
        nanoseconds[SAMPLES * 99 / 100] as f64 / 1e3
    );
}

/// The token drawn at each row: that of a child most of the time, more often the best one, so that walks have
/// the published lengths.
fn draws(tree: &Tree) -> Vec<u32> {
    let mut random = Random(ChaCha8Rng::seed_from_u64(8));
    (0..tree.len())
        .map(|row| {
            let children: Vec<usize> = (row..tree.len())
                .filter(|r| tree.parents()[*r] == row as i32)
                .collect();
            let place = (random.unit().powi(3) * 1.1 * children.len() as f64) as usize;
            children.get(place).map_or(u32::MAX, |r| tree.tokens()[*r])
        })
        .collect()
}

fn walk(tree: &Tree, drawn: &[u32], walker: &mut Walker) -> usize {
    walker.start(tree);
    loop {
        match walker.step() {
            Step::Fetch => walker.fetched(),
            Step::Draw { row, .. } => walker.feed(tree, drawn[row as usize]),
            Step::Done { .. } => return walker.path().len(),
        }
    }
}

fn samplers(c: &mut Criterion) {
    let mut group = c.benchmark_group("sample");
    group
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    let mut random = Random(ChaCha8Rng::seed_from_u64(5));
    // Sums of uniforms are near enough to the bell shape of real logits; a few tokens stand out.
    let mut row: Vec<f32> = (0..VOCAB)
        .map(|_| ((0..6).map(|_| random.unit()).sum::<f64>() * 4.0 - 12.0) as f32)
        .collect();
    for _ in 0..30 {
        row[random.below(VOCAB as u32) as usize] += 12.0;
    }
    let history = History::new();
    let t1 = Sampling {
        temperature: 1.0,
        ..Sampling::default()
    };
    for (name, settings) in [
        ("greedy", Sampling::default()),
        ("T=1", t1.clone()),
        (
            "T=1 top-k 20",
            Sampling {
                top_k: 20,
                ..t1.clone()
            },
        ),
        (
            "T=0.7 top-p 0.8",
            Sampling {
                temperature: 0.7,
                top_p: 0.8,
                ..t1.clone()
            },
        ),
        (
            "T=1 min-p 0.05",
            Sampling {
                min_p: 0.05,
                ..t1.clone()
            },
        ),
        (
            "T=1 presence 1.5",
            Sampling {
                presence_penalty: 1.5,
                ..t1.clone()
            },
        ),
    ] {
        let mut sampler = Sampler::new(&settings, 3);
        let mut position = 0;
        group.bench_function(name, |b| {
            b.iter(|| {
                position += 1;
                sampler
                    .choose(black_box(&row), position, &history)
                    .map(|c| c.token)
            });
        });
    }
    let mut sampler = Sampler::new(&t1, 3);
    let tiny = [0.5f32, 0.1, 0.7, 0.3];
    let mut position = 0;
    group.bench_function("T=1 four tokens", |b| {
        b.iter(|| {
            position += 1;
            sampler
                .choose(black_box(&tiny), position, &history)
                .map(|c| c.token)
        });
    });
    let mut top = Vec::new();
    group.bench_function("logprobs 5", |b| {
        b.iter(|| sampler.logprobs(black_box(&row), 7, 5, &mut top))
    });
}

criterion_group!(benches, trees, samplers, quantiles);
criterion_main!(benches);
