//! Where the bytes of weights lie and what proves that they are the same bytes.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Type of stored numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// IEEE single precision.
    F32,
    /// bfloat16.
    Bf16,
    /// IEEE half precision.
    F16,
    /// Matrices in blocks of [`QUANT_BLOCK`] numbers with a float32 scale each, one byte a number; the rest float32.
    Int8,
    /// The same, two numbers a byte.
    Int4,
}

/// Numbers of a row that share one scale.
pub const QUANT_BLOCK: usize = 32;

impl Dtype {
    /// Size of one stored number in bytes; of quantised tensors, whose shape counts bytes, 1.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
            Self::Int8 | Self::Int4 => 1,
        }
    }

    /// Name as on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
        }
    }

    /// Type of activations, caches and small tensors of a bundle of this type.
    #[must_use]
    pub fn activations(self) -> Self {
        match self {
            Self::Int8 | Self::Int4 => Self::F32,
            other => other,
        }
    }

    /// Bytes of a block of a quantised matrix.
    #[must_use]
    pub fn block_bytes(self) -> Option<usize> {
        match self {
            Self::Int8 => Some(QUANT_BLOCK),
            Self::Int4 => Some(QUANT_BLOCK / 2),
            _ => None,
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
