//! Slow, obvious float64 references: one row after the other, one state per row, no cleverness.
//! They follow the sequential definitions (`algorithms.md` 5.2, `qwen.md` 3.6), not the one-pass
//! formulas that bodies and kernels use.

mod delta_branch_update;
pub mod fused;
mod tree_attention;
mod tree_causal_conv;
mod tree_delta_rule;

pub use delta_branch_update::delta_branch_update;
pub use tree_attention::tree_attention;
pub use tree_causal_conv::tree_causal_conv;
pub use tree_delta_rule::{DeltaResult, tree_delta_rule};

/// Row i's parent: the last row before i that i may see.
fn parent(ancestors: &[bool], rows: usize, i: usize) -> Option<usize> {
    (0..i).rev().find(|j| ancestors[i * rows + j])
}
