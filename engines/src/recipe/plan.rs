//! What a round costs on a GPU: bytes and operations counted, time from bandwidth and matrix rate.
//!
//! The counts follow `algorithms.md` 5.7 and 6.4. They are floors: kernels reach a part of either rate.

use super::Hardware;
use crate::manifest::{Drafter, Layer, Manifest, Target};

/// Sizes of a target and its drafter in numbers (not bytes), and of their states in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelSize {
    /// Parameters of the target's layers.
    pub layer_params: f64,
    /// Parameters of the head (and of the embedding: one table when tied).
    pub head_params: f64,
    /// Whether head and embedding share one table.
    pub tied: bool,
    /// Parameters of the drafter.
    pub draft_params: f64,
    /// Bytes per parameter.
    pub param_bytes: f64,
    /// Query heads times head size, over all attention layers.
    pub attention_width: f64,
    /// Cache bytes per token, target.
    pub kv_bytes: f64,
    /// Cache bytes per token, drafter.
    pub draft_kv_bytes: f64,
    /// Recurrent state bytes (float32) over all layers.
    pub state_bytes: f64,
    /// Stash bytes (float32 u, k, G) per row over all DeltaNet layers.
    pub stash_bytes_per_row: f64,
    /// Rows of a draft block.
    pub block: f64,
    /// Modes of the drafter.
    pub modes: f64,
}

impl ModelSize {
    /// Reads the sizes off a manifest; `param_bytes` is the size of one weight on the GPU.
    #[must_use]
    pub fn of(manifest: &Manifest, param_bytes: f64) -> Self {
        let params = |stage: &str| -> f64 {
            manifest.graphs.get(stage).map_or(0.0, |g| {
                g.initializers
                    .iter()
                    .map(|i| i.data.shape.iter().product::<usize>() as f64)
                    .sum()
            })
        };
        let t = &manifest.target;
        let drafter = manifest.drafter.as_ref();
        Self {
            layer_params: params("target"),
            head_params: t.vocab as f64 * t.hidden as f64,
            tied: t.tied,
            draft_params: params("draft") + params("context") - shared_params(manifest),
            param_bytes,
            attention_width: attention_width(t),
            kv_bytes: kv_bytes(t, param_bytes),
            draft_kv_bytes: drafter.map_or(0.0, |d| draft_kv_bytes(d, param_bytes)),
            state_bytes: states(t, |d| (d.value_heads * d.key_dim * d.value_dim) as f64 * 4.0),
            stash_bytes_per_row: states(t, |d| {
                (d.value_heads * d.value_dim + d.key_heads * d.key_dim + d.value_heads) as f64 * 4.0
            }),
            block: drafter.map_or(0.0, |d| d.block as f64),
            modes: drafter.map_or(0.0, |d| d.modes as f64),
        }
    }
}

/// Key and value projections of the drafter appear in `context` and in `draft`.
fn shared_params(manifest: &Manifest) -> f64 {
    let (Some(context), Some(draft)) = (manifest.graphs.get("context"), manifest.graphs.get("draft")) else {
        return 0.0;
    };
    let twice = |i: &&crate::manifest::Initializer| draft.initializers.iter().any(|j| j.data == i.data);
    context
        .initializers
        .iter()
        .filter(twice)
        .map(|i| i.data.shape.iter().product::<usize>() as f64)
        .sum()
}

fn attention_width(target: &Target) -> f64 {
    let width = |layer: &Layer| match layer {
        Layer::Attention(a) => (a.heads * a.head_dim) as f64,
        Layer::DeltaNet(_) => 0.0,
    };
    target.layers.iter().map(width).sum()
}

fn kv_bytes(target: &Target, size: f64) -> f64 {
    let width = |layer: &Layer| match layer {
        Layer::Attention(a) => (2 * a.kv_heads * a.head_dim) as f64 * size,
        Layer::DeltaNet(_) => 0.0,
    };
    target.layers.iter().map(width).sum()
}

fn draft_kv_bytes(drafter: &Drafter, size: f64) -> f64 {
    (drafter.layers * 2 * drafter.attention.kv_heads * drafter.attention.head_dim) as f64 * size
}

fn states(target: &Target, bytes: impl Fn(&crate::manifest::DeltaNet) -> f64) -> f64 {
    let of = |layer: &Layer| match layer {
        Layer::Attention(_) => 0.0,
        Layer::DeltaNet(d) => bytes(d),
    };
    target.layers.iter().map(of).sum()
}

/// Bytes and operations of one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Bytes read and written.
    pub bytes: f64,
    /// Floating-point operations.
    pub flops: f64,
}

impl Cost {
    /// Seconds on `hardware`: whichever of bandwidth and matrix rate takes longer.
    #[must_use]
    pub fn seconds(&self, hardware: &Hardware) -> f64 {
        (self.bytes / (hardware.bandwidth_gb_s * 1e9)).max(self.flops / (hardware.tflops_bf16 * 1e12))
    }
}

/// One round, and plain decoding beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundPlan {
    /// Weights on the GPU, bytes.
    pub weight_bytes: f64,
    /// Caches for `context` tokens, bytes.
    pub cache_bytes: f64,
    /// Recurrent states, double buffered, bytes.
    pub state_bytes: f64,
    /// Stash of a verify pass, bytes.
    pub stash_bytes: f64,
    /// Drafter with its head; nothing for budget 0.
    pub draft: Cost,
    /// Target with its head.
    pub verify: Cost,
    /// Accepted rows and states.
    pub commit: Cost,
    /// Seconds of the round.
    pub seconds: f64,
    /// Seconds of one plain step.
    pub plain_seconds: f64,
}

impl RoundPlan {
    /// Tokens per second at acceptance length `tau`.
    #[must_use]
    pub fn tokens_per_second(&self, tau: f64) -> f64 {
        tau / self.seconds
    }
}

/// Plans a round of `budget` nodes after `context` committed tokens.
#[must_use]
pub fn plan_round(size: &ModelSize, hardware: &Hardware, budget: usize, context: usize) -> RoundPlan {
    let rows = budget as f64 + 1.0;
    let context = context as f64;
    let drafts = if budget == 0 { 0.0 } else { size.modes };
    let verify = verify_cost(size, rows, context);
    let draft = Cost {
        bytes: if drafts > 0.0 {
            (size.draft_params + size.head_params) * size.param_bytes + size.draft_kv_bytes * context
        } else {
            0.0
        },
        flops: 2.0
            * drafts
            * (size.draft_params * size.block + size.head_params * (size.block - 1.0).max(0.0)),
    };
    let commit = Cost {
        bytes: 2.0 * size.state_bytes + size.stash_bytes_per_row * size.block.max(1.0),
        flops: 0.0,
    };
    let plain = verify_cost(size, 1.0, context);
    let tables = if size.tied { 1.0 } else { 2.0 };
    RoundPlan {
        weight_bytes: (size.layer_params + tables * size.head_params + size.draft_params) * size.param_bytes,
        cache_bytes: (size.kv_bytes + size.draft_kv_bytes) * context,
        state_bytes: 2.0 * size.state_bytes,
        stash_bytes: size.stash_bytes_per_row * rows,
        draft,
        verify,
        commit,
        seconds: draft.seconds(hardware) + verify.seconds(hardware) + commit.seconds(hardware),
        plain_seconds: plain.seconds(hardware) + 2.0 * size.state_bytes / (hardware.bandwidth_gb_s * 1e9),
    }
}

fn verify_cost(size: &ModelSize, rows: f64, context: f64) -> Cost {
    let params = size.layer_params + size.head_params;
    // Scores and values of `rows` queries over the context, and the products with the recurrent state.
    let attention = 4.0 * size.attention_width * rows * context;
    let recurrent = 4.0 * rows * size.state_bytes / 4.0;
    Cost {
        bytes: params * size.param_bytes
            + size.kv_bytes * context
            + size.state_bytes
            + size.stash_bytes_per_row * rows,
        flops: 2.0 * params * rows + attention + recurrent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Qwen3.5-4B with the eight-mode drafter, sizes of `algorithms.md` 1.1, 5.1 and `qwen.md` 2.2.
    fn qwen35_4b() -> ModelSize {
        ModelSize {
            layer_params: 3_570_049_536.0,
            head_params: 635_699_200.0,
            tied: true,
            draft_params: 634_425_856.0,
            param_bytes: 2.0,
            attention_width: 8.0 * 16.0 * 256.0,
            kv_bytes: 32_768.0,
            draft_kv_bytes: 24_576.0,
            state_bytes: 24.0 * 32.0 * 128.0 * 128.0 * 4.0,
            stash_bytes_per_row: 24.0 * (32.0 * 128.0 + 16.0 * 128.0 + 32.0) * 4.0,
            block: 16.0,
            modes: 8.0,
        }
    }

    fn close(found: f64, expected: f64, relative: f64) {
        assert!(
            (found / expected - 1.0).abs() <= relative,
            "{found} against {expected}"
        );
    }

    /// The floors of 6.4 assume 1.8 TB/s and 400 TFLOP/s.
    fn assumed() -> Hardware {
        Hardware {
            memory_gib: 96,
            bandwidth_gb_s: 1800.0,
            tflops_bf16: 400.0,
            source: String::new(),
        }
    }

    #[test]
    fn counts_equal_section_5_7() {
        let size = qwen35_4b();
        let plan = plan_round(&size, &assumed(), 256, 0);
        close(2.0 * size.layer_params * 257.0, 1.835e12, 1e-3);
        close(2.0 * size.head_params * 257.0, 0.327e12, 2e-3);
        close(4.0 * 257.0 * size.state_bytes / 4.0, 12.9e9, 1e-2);
        close(plan.stash_bytes, 145.0 * 1024.0 * 1024.0, 5e-3);
        close(size.state_bytes, 48.0 * 1024.0 * 1024.0, 1e-9);
        close(plan.commit.bytes, 96.0 * 1024.0 * 1024.0, 0.1);
        close(
            (size.layer_params + size.head_params) * size.param_bytes,
            8.41e9,
            1e-3,
        );
    }

    #[test]
    fn times_equal_section_6_4() {
        let plan = plan_round(&qwen35_4b(), &assumed(), 256, 0);
        close(plan.verify.flops, 2.16e12, 2e-2);
        close(plan.verify.seconds(&assumed()), 5.4e-3, 2e-2);
        close(plan.draft.bytes, 2.54e9, 1e-2);
        close(plan.draft.flops, 0.30e12, 6e-2);
        close(plan.draft.seconds(&assumed()), 1.4e-3, 3e-2);
        assert!((6.8e-3..7.5e-3).contains(&plan.seconds), "{}", plan.seconds);
        close(8.41e9 / 1.8e12, 4.7e-3, 1e-2);
        close(plan.plain_seconds, 4.75e-3, 3e-2);
        close(plan.tokens_per_second(10.72), 1_500.0, 0.06);
    }

    #[test]
    fn budget_zero_is_a_plain_step_without_a_draft() {
        let plan = plan_round(&qwen35_4b(), &assumed(), 0, 1000);
        assert_eq!(plan.draft, Cost::default());
        close(plan.seconds, plan.plain_seconds, 0.02);
    }
}
