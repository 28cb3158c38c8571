//! `manifest.json` of a bundle: what ties target, drafter, tokenizer and template together.
//!
//! The file is written last and atomically, holds no time and no path of the building machine
//! beyond what the user passed, and lists every byte the bundle owns with its SHA-256.

mod model;
mod read;
mod weights;

pub use model::{Attention, DeltaNet, Drafter, Family, Layer, Target};
pub use read::{ManifestError, read, write};
pub use weights::{Dtype, Initializer, OwnedFile, QUANT_BLOCK, TensorData, WeightFile};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the schema that this build writes and reads.
pub const SCHEMA: u32 = 1;
/// File name of the manifest inside a bundle.
pub const FILE_NAME: &str = "manifest.json";

/// The manifest of a bundle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of forkcast that wrote the bundle.
    pub forkcast: String,
    /// Type of the linear layers in the graphs.
    pub dtype: Dtype,
    /// The verified model.
    pub target: Target,
    /// The drafting model, if the bundle has one.
    pub drafter: Option<Drafter>,
    /// Target layers whose outputs `target.onnx` returns as `taps`, in order; empty without taps.
    pub taps: Vec<usize>,
    /// Upper bound of prompt plus answer in tokens.
    pub max_context: usize,
    /// Tokens that end an answer: generation_config, config and tokenizer, united and sorted.
    pub stop_ids: Vec<u32>,
    /// Tokenizer, template and configuration files that the bundle carries.
    pub text: TextFiles,
    /// Graphs by stage: `target`, `head`, and where they apply `commit`, `context`, `draft`.
    pub graphs: BTreeMap<String, Graph>,
    /// The embedding table `[vocab, hidden]`, looked up by the runtime; quantised its bytes `[vocab, hidden/32, bytes]`.
    pub embedding: TensorData,
    /// Scales `[vocab, hidden/32]` of a quantised table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedding_scales: Option<TensorData>,
    /// Every file that the bundle owns, apart from the manifest.
    pub files: Vec<OwnedFile>,
    /// Checkpoint files that the bundle refers to.
    pub weight_files: Vec<WeightFile>,
}

/// One ONNX graph of the bundle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// File name inside the bundle.
    pub file: String,
    /// External initializers: where their bytes lie.
    pub initializers: Vec<Initializer>,
}

/// Names of the text files inside the bundle; each is absent when the checkpoint had none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextFiles {
    /// `tokenizer.json`.
    pub tokenizer: Option<String>,
    /// `tokenizer_config.json`.
    pub tokenizer_config: Option<String>,
    /// `chat_template.jinja`.
    pub chat_template: Option<String>,
    /// `generation_config.json`.
    pub generation_config: Option<String>,
}
