//! The kernels as custom operators of ONNX Runtime.
//!
//! A session with [`operator_domain`] takes these kernels although a model carries a function body for
//! the same node; a session without it inlines the body.

mod attention;
mod conv;
mod delta;
mod fused;
mod raw;
mod tensors;
mod update;

use ort::operator::OperatorDomain;

/// The `forkcast` domain with all kernels, for `SessionBuilder::with_operators`.
///
/// # Errors
/// Fails when the ONNX Runtime library is missing or refuses an operator, or when `FORKCAST_SIMD` asks for
/// an instruction set that this machine does not have.
pub fn operator_domain() -> ort::Result<OperatorDomain> {
    crate::kernels::check_environment().map_err(ort::Error::new)?;
    OperatorDomain::new(crate::ops::DOMAIN)?
        .add(attention::TreeAttention)?
        .add(conv::TreeCausalConv)?
        .add(delta::TreeDeltaRule)?
        .add(update::DeltaBranchUpdate)
}

/// The `forkcast.fused` domain with all kernels, for `SessionBuilder::with_operators`.
///
/// # Errors
/// As [`operator_domain`].
pub fn fused_domain() -> ort::Result<OperatorDomain> {
    crate::kernels::check_environment().map_err(ort::Error::new)?;
    OperatorDomain::new(crate::ops::fused::DOMAIN)?
        .add(fused::SwiGlu)?
        .add(fused::DeltaInputs)?
        .add(fused::GatedNorm)?
        .add(fused::HeadNormRope)?
        .add(fused::SigmoidGate)?
        .add(fused::BlockMatMul)
}
