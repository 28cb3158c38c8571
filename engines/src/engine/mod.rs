//! The engine directory: plans for one GPU, and `engine.json`, which says what they are and what the host must have.
//!
//! An engine holds code, not weights (`DESIGN` 3.4): weights come from a bundle of the same shape when it is loaded.
//! `engine.json` is written last; nothing in it is a time or a path of the building machine that the user did not pass.

mod check;
pub(crate) mod essence;
mod pieces;
mod read;

pub(crate) use check::same_bundle;
pub use check::{Against, Check, Outcome, bundle_path, manifest_hash, verify};
pub(crate) use pieces::pieces;
pub use read::{EngineError, read, write};

use crate::manifest::{Drafter, Dtype, Initializer, Manifest, Target};
use crate::recipe::{Flavour, Recipe};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Version of the schema that this build writes and reads.
pub const SCHEMA: u32 = 1;
/// File name of the description inside an engine directory.
pub const FILE_NAME: &str = "engine.json";
/// File name of the kernels that TensorRT-RTX compiled for the GPU at hand, kept beside the plans.
pub const CACHE_NAME: &str = "runtime.cache";
/// Version of the interface between plans and forkcast's plugin library; the library exports the same number.
pub const PLUGIN_ABI: u32 = 1;
/// Oldest CUDA version that the driver must support, 13.0 (drivers of branch 580 and later), as
/// `cuDriverGetVersion` counts.
pub const DRIVER_CUDA: u32 = 13_000;
/// Rows of a prompt that one pass takes. At 256 rows a 4B model computes about as long as it reads its weights on the GPUs
/// of the recipes; the body of the delta rule grows with the rows (`build` takes twice as long for 512).
pub const PREFILL_ROWS: usize = 256;
/// Longest accepted path of a tree, in rows.
pub const PATH_ROWS: usize = forkcast_plugins::bodies::tensorrt::TREE_DEPTH;

/// The description of an engine directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of forkcast that built it.
    pub forkcast: String,
    /// What was asked for.
    pub recipe: Recipe,
    /// What the host must have.
    pub requires: Requirements,
    /// Whether weights are bound at load or lie inside the plans.
    pub weights: WeightMode,
    /// The bundle that it was built from.
    pub bundle: BundleRef,
    /// Shapes that a bundle must have to run on it.
    pub model: Model,
    /// Fingerprints of what the bundle's graphs compute, apart from the values and the layout of their weights.
    pub graphs: BTreeMap<String, String>,
    /// Largest sizes.
    pub limits: Limits,
    /// Capacities that caches have, ascending: the recipe's context buckets as far as the model goes.
    pub contexts: Vec<usize>,
    /// Plans by graph: `target`, `prefill`, `head`, `head_greedy`, `head_top`, and where they apply `commit`,
    /// `context`, `draft`.
    pub plans: BTreeMap<String, Plan>,
}

/// What the host must have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirements {
    /// Compute capability of the GPU, 120 for 12.0.
    pub sm: u32,
    /// The library.
    pub flavour: Flavour,
    /// Version of that library, as `1.7.1`; a plan runs on this version only.
    pub tensorrt: String,
    /// [`PLUGIN_ABI`] where plans call plugins.
    pub plugin_abi: Option<u32>,
    /// Oldest CUDA version of the driver, [`DRIVER_CUDA`].
    pub driver_cuda: u32,
}

/// Where the weights of the plans are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WeightMode {
    /// Bound when the engine is loaded: any bundle of the same shape runs on it.
    Inputs,
    /// Inside the plans: it runs the bundle that it was built from.
    Embedded,
}

/// The bundle that an engine was built from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleRef {
    /// As the user passed it when absolute, else relative to the engine directory.
    pub path: PathBuf,
    /// SHA-256 of its `manifest.json`.
    pub manifest_sha256: String,
}

/// The part of a bundle's manifest that plans depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Type of the linear layers.
    pub dtype: Dtype,
    /// The verified model.
    pub target: Target,
    /// The drafting model.
    pub drafter: Option<Drafter>,
    /// Tapped layers.
    pub taps: Vec<usize>,
    /// Upper bound of the model's context.
    pub max_context: usize,
}

impl Model {
    /// The shapes of a bundle.
    #[must_use]
    pub fn of(manifest: &Manifest) -> Self {
        Self {
            dtype: manifest.dtype,
            target: manifest.target.clone(),
            drafter: manifest.drafter.clone(),
            taps: manifest.taps.clone(),
            max_context: manifest.max_context,
        }
    }
}

/// Largest sizes that an engine takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Committed rows: the largest context bucket.
    pub context: usize,
    /// Rows of a verify pass.
    pub rows: usize,
    /// Rows of a root path of a tree.
    pub depth: usize,
    /// Rows of a prefill pass.
    pub prefill_rows: usize,
}

/// One plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Plain file name inside the engine directory.
    pub plan: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the content, hexadecimal.
    pub sha256: String,
    /// Inputs that change from pass to pass.
    pub inputs: Vec<Port>,
    /// Outputs.
    pub outputs: Vec<Port>,
    /// Sizes of the symbols in the ports, one entry an optimisation profile, in the plan's order.
    pub profiles: Vec<Sizes>,
    /// Inputs that are weights: their source, dtype, shape, and bytes in the bundle that was built from.
    pub weights: Vec<Initializer>,
}

/// Range of a symbol: smallest, usual and largest size.
pub type Range = [usize; 3];
/// Sizes of symbols: `N` rows, `R` rows of the head, `C` capacity of a cache, `P` rows of a path.
pub type Sizes = BTreeMap<String, Range>;

/// An input or output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Name in the plan.
    pub name: String,
    /// Element type: `f32 bf16 f16 i64 bool`.
    pub dtype: String,
    /// Sizes and symbols.
    pub shape: Vec<Axis>,
}

/// One dimension of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Axis {
    /// Always the same.
    Fixed(usize),
    /// Given by the profile.
    Symbol(String),
}

/// Name of the embedding table among the weights of a plan.
pub const EMBEDDING: &str = "embedding";

/// The graph of the bundle that plan `stage` was made from.
#[must_use]
pub fn graph_of(stage: &str) -> &str {
    match stage {
        "prefill" => "target",
        "head_greedy" | "head_top" => "head",
        other => other,
    }
}
