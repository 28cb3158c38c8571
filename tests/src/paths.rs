//! Where test data lies.

use std::path::{Path, PathBuf};

/// Root of the repository.
#[must_use]
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_path_buf)
        .unwrap_or_default()
}

/// The trained tiny checkpoint `name`.
#[must_use]
pub fn model(name: &str) -> PathBuf {
    repository().join("tests/models").join(name)
}

/// The random golden checkpoint `name`.
#[must_use]
pub fn golden(name: &str) -> PathBuf {
    repository().join("tests/golden").join(name)
}

/// The ONNX Runtime library that `make` puts into `lib/`, unless `ORT_DYLIB_PATH` names another.
#[must_use]
pub fn onnxruntime() -> PathBuf {
    std::env::var_os("ORT_DYLIB_PATH")
        .map_or_else(|| repository().join("lib/libonnxruntime.so"), PathBuf::from)
}
