//! CPU kernels of the operators: float32, multi-threaded through [`Parallel`], vectorised for the
//! instruction set found at run time. Each is tested against its function body and its reference.

mod block_matmul;
mod delta_branch_update;
pub mod fused;
mod math;
mod parallel;
mod paths;
mod simd;
mod tree_attention;
mod tree_causal_conv;
mod tree_delta_rule;

pub use block_matmul::block_matmul;
pub use delta_branch_update::delta_branch_update;
pub use parallel::{Parallel, Serial};
pub use tree_attention::tree_attention;
pub use tree_causal_conv::tree_causal_conv;
pub use tree_delta_rule::{DeltaOutputs, tree_delta_rule};

use crate::error::OperatorError;

/// Checks the environment variable `FORKCAST_SIMD` (`portable`, `avx2` or `avx512`), which overrides the
/// choice of instruction set.
///
/// # Errors
/// Names the choices when it asks for something that this machine does not have.
pub fn check_environment() -> Result<(), String> {
    simd::check_variable()
}

/// Memory that a kernel keeps from call to call, so that a steady state allocates nothing.
#[derive(Debug, Default)]
pub struct Workspace {
    lists: paths::ColumnLists,
    indices: Vec<u32>,
    gates: Vec<f64>,
}

fn check_output(operator: &'static str, found: usize, expected: usize) -> Result<(), OperatorError> {
    if found == expected {
        Ok(())
    } else {
        Err(OperatorError::value(
            operator,
            format!("an output has {found} elements, expected {expected}"),
        ))
    }
}

fn not_a_tree(operator: &'static str) -> OperatorError {
    OperatorError::value(
        operator,
        "ancestors must be lower triangular with a true diagonal",
    )
}
