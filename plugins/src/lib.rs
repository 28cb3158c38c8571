//! forkcast's custom operators: schema, ONNX function bodies and CPU kernels for ONNX Runtime.

pub mod agreement;
pub mod args;
pub mod bodies;
pub mod error;
pub mod kernels;
pub mod onnx;
pub mod ops;
pub mod reference;
mod register;

pub use register::{fused_domain, operator_domain};
