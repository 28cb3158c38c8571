//! forkcast's custom operators: schema, ONNX function bodies and CPU kernels for ONNX Runtime.

pub mod onnx;
pub mod ops;
