//! The engine directory: every graph compiled, then described.

use super::{BuildError, Compiler, Listener, Prepared, Progress, prepare, profiles};
use crate::bundle::Bundle;
use crate::engine::{
    self, BundleRef, DRIVER_CUDA, Engine, FILE_NAME, Limits, Model, PATH_ROWS, PLUGIN_ABI, Plan,
    Requirements, WeightMode, essence, manifest_hash,
};
use crate::recipe::{Flavour, Recipe};
use crate::staging::{self, Staging, StagingError};
use prost::Message;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What to build.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// The bundle.
    pub bundle: PathBuf,
    /// For which GPU.
    pub recipe: Recipe,
    /// Folder of the engine; an engine that is there already is replaced.
    pub out: PathBuf,
    /// Where the weights of the plans are.
    pub weights: WeightMode,
    /// Whether the rewritten graphs are kept beside the plans, as `STAGE.onnx`.
    pub keep_onnx: bool,
}

/// What was built.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The description as written.
    pub engine: Engine,
    /// Bytes of all plans.
    pub plan_bytes: u64,
}

/// Builds an engine directory.
///
/// # Errors
/// See [`BuildError`]. Nothing is left behind when it fails; an engine that was there before stays as it was.
pub fn build(
    options: &BuildOptions,
    compiler: &dyn Compiler,
    listener: &Listener,
) -> Result<Summary, BuildError> {
    let _span =
        tracing::info_span!("build", bundle = %options.bundle.display(), recipe = options.recipe.name)
            .entered();
    staging::check(&options.out, "engine", files_of_engine)?;
    let bundle = Bundle::open(&options.bundle)?;
    let prepared = prepare(&bundle, &options.recipe, options.weights)?;
    let manifest_sha256 = manifest_hash(&bundle.dir).map_err(write_error(&bundle.dir))?;
    let reference = staging::reference(&options.out, &options.bundle)?;
    let staging = Staging::create(&options.out)?;
    let mut plans = BTreeMap::new();
    let mut plan_bytes = 0;
    for (i, graph) in prepared.iter().enumerate() {
        let step = Progress::Graph {
            stage: &graph.stage,
            number: i + 1,
            of: prepared.len(),
        };
        if !listener(&step) {
            return Err(BuildError::Cancelled);
        }
        if options.keep_onnx {
            put(
                &staging,
                &format!("{}.onnx", graph.stage),
                &graph.model.encode_to_vec(),
            )?;
        }
        let bytes = compiler.compile(graph, &options.recipe, listener)?;
        plan_bytes += bytes.len() as u64;
        plans.insert(graph.stage.clone(), plan(&staging, graph, &bytes)?);
    }
    let engine = describe(
        options,
        &bundle,
        essence::fingerprints(&bundle)?,
        manifest_sha256,
        reference,
        compiler.version(),
        plans,
    );
    engine::write(staging.path(), &engine)?;
    // What was written must be readable: a contradiction is found here and not by the next user.
    engine::read(staging.path())?;
    staging.finish()?;
    Ok(Summary { engine, plan_bytes })
}

/// Names of the files of the engine in `dir`, also of one that another version wrote.
fn files_of_engine(dir: &Path) -> Option<BTreeSet<String>> {
    let text = std::fs::read(dir.join(FILE_NAME)).ok()?;
    let value: serde_json::Value = serde_json::from_slice(&text).ok()?;
    value.get("schema").and(value.get("forkcast"))?;
    let mut names =
        BTreeSet::from([FILE_NAME, crate::engine::CACHE_NAME, crate::model::TUNE_NAME].map(str::to_owned));
    for (stage, plan) in value
        .get("plans")
        .and_then(|p| p.as_object())
        .into_iter()
        .flatten()
    {
        names.insert(format!("{stage}.onnx"));
        names.extend(plan.get("plan").and_then(|f| f.as_str()).map(str::to_owned));
    }
    Some(names)
}

fn write_error(path: &Path) -> impl FnOnce(std::io::Error) -> StagingError + '_ {
    move |source| StagingError::Write {
        path: path.to_owned(),
        source,
    }
}

fn put(staging: &Staging, name: &str, bytes: &[u8]) -> Result<(), StagingError> {
    let path = staging.path().join(name);
    let mut file = File::create(&path).map_err(write_error(&path))?;
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .map_err(write_error(&path))
}

fn plan(staging: &Staging, graph: &Prepared, bytes: &[u8]) -> Result<Plan, StagingError> {
    let name = format!("{}.plan", graph.stage);
    put(staging, &name, bytes)?;
    Ok(Plan {
        plan: name,
        bytes: bytes.len() as u64,
        sha256: Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect(),
        inputs: graph.inputs.clone(),
        outputs: graph.outputs.clone(),
        profiles: graph.profiles.clone(),
        weights: graph.weights.clone(),
    })
}

fn describe(
    options: &BuildOptions,
    bundle: &Bundle,
    graphs: BTreeMap<String, String>,
    manifest_sha256: String,
    reference: PathBuf,
    tensorrt: String,
    plans: BTreeMap<String, Plan>,
) -> Engine {
    let recipe = &options.recipe;
    let model = Model::of(&bundle.manifest);
    let contexts = profiles::contexts(recipe, &model);
    Engine {
        schema: engine::SCHEMA,
        forkcast: env!("CARGO_PKG_VERSION").to_owned(),
        requires: Requirements {
            sm: recipe.sm,
            flavour: recipe.flavour,
            tensorrt,
            plugin_abi: (recipe.flavour == Flavour::Tensorrt).then_some(PLUGIN_ABI),
            driver_cuda: DRIVER_CUDA,
        },
        weights: options.weights,
        bundle: BundleRef {
            path: reference,
            manifest_sha256,
        },
        limits: Limits {
            context: contexts.last().copied().unwrap_or(0),
            rows: recipe.rows.last().copied().unwrap_or(0),
            depth: PATH_ROWS,
            prefill_rows: profiles::prefill_rows(recipe, &model),
        },
        graphs,
        contexts,
        recipe: recipe.clone(),
        model,
        plans,
    }
}
