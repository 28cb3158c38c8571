//! Golden tensors and comparisons that report what differs.

use safetensors::{Dtype, SafeTensors};
use std::path::Path;

/// A safetensors file in memory.
#[derive(Debug)]
pub struct Golden {
    bytes: Vec<u8>,
}

impl Golden {
    /// Reads a golden file.
    ///
    /// # Panics
    /// The file is missing: golden files are part of the repository.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Self { bytes }
    }

    fn view<T>(&self, name: &str, dtype: Dtype, each: impl Fn(&[u8]) -> T) -> Vec<T> {
        let file = SafeTensors::deserialize(&self.bytes).expect("golden file is valid");
        let tensor = file.tensor(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(tensor.dtype(), dtype, "{name}");
        let size = if dtype == Dtype::I64 { 8 } else { 4 };
        tensor.data().chunks_exact(size).map(each).collect()
    }

    /// Whether tensor `name` exists.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        SafeTensors::deserialize(&self.bytes).is_ok_and(|f| f.tensor(name).is_ok())
    }

    /// A float32 tensor, row-major.
    #[must_use]
    pub fn f32(&self, name: &str) -> Vec<f32> {
        self.view(name, Dtype::F32, |b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    /// An int64 tensor, row-major.
    #[must_use]
    pub fn i64(&self, name: &str) -> Vec<i64> {
        self.view(name, Dtype::I64, |b| {
            i64::from_le_bytes(b.try_into().expect("chunks of 8"))
        })
    }

    /// An int64 tensor of token ids.
    #[must_use]
    pub fn ids(&self, name: &str) -> Vec<u32> {
        self.i64(name)
            .into_iter()
            .map(|v| u32::try_from(v).expect("ids are not negative"))
            .collect()
    }

    /// An int64 tensor of indices.
    #[must_use]
    pub fn indices(&self, name: &str) -> Vec<usize> {
        self.i64(name)
            .into_iter()
            .map(|v| usize::try_from(v).expect("indices are not negative"))
            .collect()
    }
}

/// Largest absolute difference; infinite where lengths differ or a number is not finite.
#[must_use]
pub fn max_difference(a: &[f32], b: &[f32]) -> f32 {
    if a.len() != b.len() {
        return f32::INFINITY;
    }
    let worse = |m: f32, (x, y): (&f32, &f32)| {
        let d = (x - y).abs();
        if d.is_finite() { m.max(d) } else { f32::INFINITY }
    };
    a.iter().zip(b).fold(0.0, worse)
}

/// Asserts that two arrays agree within `bound` and returns the difference.
///
/// # Panics
/// They differ by more.
pub fn assert_close(what: &str, found: &[f32], expected: &[f32], bound: f32) -> f32 {
    let difference = max_difference(found, expected);
    assert!(
        difference <= bound,
        "{what}: differs by {difference}, allowed {bound} ({} against {} numbers)",
        found.len(),
        expected.len()
    );
    difference
}
