//! forkcast's engines: the formats of bundles and engine directories, builders, and backends that load and
//! execute them.

#[cfg(all(feature = "tensorrt", feature = "tensorrt-enterprise"))]
compile_error!(
    "features `tensorrt` (TensorRT-RTX) and `tensorrt-enterprise` (TensorRT 11) exclude each other"
);

pub mod backend;
pub mod build;
pub mod bundle;
pub mod engine;
pub mod gpu;
pub mod host;
pub mod manifest;
pub mod model;
pub mod ort;
pub mod recipe;
pub mod staging;
pub mod topk;
