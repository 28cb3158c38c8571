//! Where the bytes of weights lie and what proves that they are the same bytes.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Type of stored numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// IEEE single precision.
    F32,
    /// bfloat16.
    Bf16,
    /// IEEE half precision.
    F16,
}

impl Dtype {
    /// Size of one number in bytes.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    /// Name as on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }
}

/// A tensor inside a file: row-major, little endian.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorData {
    /// Name of an [`OwnedFile`] or of a [`WeightFile`].
    pub file: String,
    /// First byte in the file.
    pub offset: u64,
    /// Number of bytes; equals the product of `shape` times the size of `dtype`.
    pub length: u64,
    /// Type of the stored numbers.
    pub dtype: Dtype,
    /// Dimensions.
    pub shape: Vec<usize>,
}

/// An external initializer of a graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Initializer {
    /// Name inside the graph.
    pub name: String,
    /// Checkpoint tensors it was made from (one, or several that are stacked).
    pub source: Vec<String>,
    /// What was done to the source: `none`, `stack`, `add-one`, `neg-exp`, `scale`.
    pub transform: String,
    /// Its bytes.
    #[serde(flatten)]
    pub data: TensorData,
}

/// A file that belongs to the bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnedFile {
    /// Plain file name inside the bundle.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the content, hexadecimal.
    pub sha256: String,
}

/// A checkpoint file that the bundle refers to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightFile {
    /// Bundle-local name: the `location` of external data. No file of this name exists.
    pub name: String,
    /// The checkpoint file: as the user passed it when absolute, else relative to the bundle.
    pub path: PathBuf,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the safetensors header (length prefix included), hexadecimal.
    pub header_sha256: String,
    /// SHA-256 of the whole file, with `export --hash-weights`.
    pub sha256: Option<String>,
}
