//! Times of the kernels on one thread: N = 1 (plain decoding), 65 and 257 rows (trees), 512 (a prompt chunk)
//! at the sizes of the 4B targets (`qwen.md` 1.1, 1.3) and of the tiny test models.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{
    Tree,
    cases::{AttentionCase, ConvCase, DeltaCase, Regime, UpdateCase},
    rng,
};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use forkcast_plugins::kernels::{self, DeltaOutputs, Serial, Workspace};
use std::time::Duration;

fn trees() -> Vec<(&'static str, Tree)> {
    let mut rng = rng(100);
    vec![
        ("1", Tree::chain(1)),
        ("65", Tree::random(&mut rng, 65, 16)),
        ("257", Tree::random(&mut rng, 257, 16)),
        ("512-chain", Tree::chain(512)),
    ]
}

fn attention(c: &mut Criterion) {
    let mut group = c.benchmark_group("TreeAttention");
    for (name, tree) in trees() {
        for (heads, kv_heads, head_dim) in [(16, 4, 256), (32, 8, 128), (4, 2, 64)] {
            for past in [0, 500, 2000] {
                let case =
                    AttentionCase::new(&mut rng(1), &tree, (heads, kv_heads), head_dim, (past, past), 0);
                let mut o = vec![0.0; case.q.len()];
                let mut workspace = Workspace::default();
                let id = BenchmarkId::new(name, format!("{heads}/{kv_heads}x{head_dim}/past{past}"));
                group.bench_function(id, |b| {
                    b.iter(|| kernels::tree_attention(&case.args(), &mut o, &mut workspace, &Serial));
                });
            }
        }
    }
    group.finish();
}

fn conv(c: &mut Criterion) {
    let mut group = c.benchmark_group("TreeCausalConv");
    for (name, tree) in trees() {
        let case = ConvCase::new(&mut rng(1), &tree, 8192, 4);
        let mut y = vec![0.0; case.x.len()];
        let mut workspace = Workspace::default();
        group.bench_function(BenchmarkId::new(name, "8192x4"), |b| {
            b.iter(|| kernels::tree_causal_conv(&case.args(), &mut y, &mut workspace, &Serial));
        });
    }
    group.finish();
}

fn delta(c: &mut Criterion) {
    let mut group = c.benchmark_group("TreeDeltaRule");
    for (name, tree) in trees() {
        for (key_heads, value_heads, dim) in [(16, 32, 128), (2, 4, 32)] {
            let heads = (key_heads, value_heads);
            let case = DeltaCase::new(&mut rng(1), &tree, heads, (dim, dim), Regime::Random);
            let mut found = case.kernel();
            let mut workspace = Workspace::default();
            let id = BenchmarkId::new(name, format!("{key_heads}/{value_heads}x{dim}"));
            group.bench_function(id, |b| {
                b.iter(|| {
                    let out = DeltaOutputs {
                        o: &mut found.o,
                        u: &mut found.u,
                        gates: &mut found.gates,
                    };
                    kernels::tree_delta_rule(&case.args(), out, &mut workspace, &Serial)
                });
            });
        }
    }
    group.finish();
}

fn update(c: &mut Criterion) {
    let mut group = c.benchmark_group("DeltaBranchUpdate");
    let tree = Tree::chain(16);
    let delta = DeltaCase::new(&mut rng(1), &tree, (16, 32), (128, 128), Regime::Random);
    let found = delta.kernel();
    for accepted in [1, 4, 16] {
        let update = UpdateCase::new(&delta, &found, &tree.path(accepted - 1));
        let mut state = vec![0.0; delta.state.len()];
        group.bench_function(BenchmarkId::new("P", accepted), |b| {
            b.iter(|| kernels::delta_branch_update(&update.args(), &mut state, &Serial));
        });
    }
    group.finish();
}

fn short() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400))
}

criterion_group! {
    name = kernels_on_one_thread;
    config = short();
    targets = attention, conv, delta, update
}
criterion_main!(kernels_on_one_thread);
