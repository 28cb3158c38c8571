//! The graphs of a bundle, rewritten for a GPU.

use super::{BuildError, bodies, heads, inputs, profiles, support, weights};
use crate::bundle::Bundle;
use crate::engine::{EMBEDDING, Model, PATH_ROWS, Port, Sizes, WeightMode, graph_of};
use crate::manifest::{Initializer, Manifest};
use crate::recipe::{Precision, Recipe};
use forkcast_plugins::onnx::proto::{GraphProto, ModelProto};
use prost::Message;
use std::path::PathBuf;

/// A graph that is ready for the compiler.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Its name in the engine directory.
    pub stage: String,
    /// The graph of the bundle that it was made from.
    pub path: PathBuf,
    /// The message.
    pub model: ModelProto,
    /// Inputs that change from pass to pass.
    pub inputs: Vec<Port>,
    /// Outputs.
    pub outputs: Vec<Port>,
    /// Inputs that are weights; empty where they are embedded.
    pub weights: Vec<Initializer>,
    /// Sizes to compile for.
    pub profiles: Vec<Sizes>,
}

/// Plans of an engine, in the order in which they are compiled.
fn stages(manifest: &Manifest) -> Vec<&'static str> {
    let mut list = vec!["target", "prefill", "head", "head_greedy", "head_top"];
    for stage in ["commit", "context", "draft"] {
        if manifest.graphs.contains_key(stage) {
            list.push(stage);
        }
    }
    list
}

/// Rewrites every graph of `bundle` for the GPU and the flavour of `recipe`.
///
/// # Errors
/// Bundle and recipe contradict each other, a graph is not what the manifest says, or it holds a node that
/// the flavour cannot compile.
pub fn prepare(bundle: &Bundle, recipe: &Recipe, mode: WeightMode) -> Result<Vec<Prepared>, BuildError> {
    fits(&bundle.manifest, recipe)?;
    stages(&bundle.manifest)
        .into_iter()
        .map(|stage| one(bundle, recipe, mode, stage))
        .collect()
}

fn fits(manifest: &Manifest, recipe: &Recipe) -> Result<(), BuildError> {
    let mismatch = |reason: String, hint: String| Err(BuildError::Mismatch { reason, hint });
    let precision = match recipe.precision {
        Precision::Bf16 => "bf16",
        Precision::F16 => "f16",
        Precision::F32 => "f32",
    };
    let dtype = manifest.dtype.name();
    if manifest.dtype.block_bytes().is_some() {
        return mismatch(
            format!("a {dtype} bundle: quantised ones are for the CPU"),
            format!("export the bundle with --dtype {precision}"),
        );
    }
    if dtype != precision {
        return mismatch(
            format!(
                "a {dtype} bundle, and recipe {} builds for {precision}",
                recipe.name
            ),
            format!(
                "export the bundle with --dtype {precision}, or use a recipe file with precision = \"{dtype}\""
            ),
        );
    }
    match &manifest.drafter {
        Some(d) if d.block > PATH_ROWS => mismatch(
            format!(
                "blocks of {} rows; TensorRT engines verify paths of at most {PATH_ROWS}",
                d.block
            ),
            "use a drafter with a smaller block".to_owned(),
        ),
        _ => Ok(()),
    }
}

fn one(bundle: &Bundle, recipe: &Recipe, mode: WeightMode, stage: &str) -> Result<Prepared, BuildError> {
    let graph = graph_of(stage);
    let Some(entry) = bundle.manifest.graphs.get(graph) else {
        return Err(BuildError::Graph {
            path: bundle.dir.join(crate::manifest::FILE_NAME),
            reason: format!("graphs: no {graph:?}"),
        });
    };
    let path = bundle.dir.join(&entry.file);
    let wrong = |reason: String| BuildError::Graph {
        path: path.clone(),
        reason,
    };
    let bytes = std::fs::read(&path).map_err(|e| wrong(e.to_string()))?;
    let mut model = ModelProto::decode(bytes.as_slice()).map_err(|e| wrong(e.to_string()))?;
    let mut list = entry.initializers.clone();
    let Some(message) = &mut model.graph else {
        return Err(wrong("no graph".to_owned()));
    };
    rewrite(message, stage, bundle, &mut list).map_err(wrong)?;
    let (ins, outs) = ports(message).map_err(wrong)?;
    let bound = match mode {
        WeightMode::Inputs => weights::to_inputs(message, &list).map_err(wrong)?,
        WeightMode::Embedded => {
            weights::embed(message, bundle, &list).map_err(wrong)?;
            Vec::new()
        }
    };
    bodies::replace(&mut model, stage, recipe.flavour);
    support::check(&model, recipe.flavour).map_err(|(node, reason)| BuildError::Unsupported {
        path: path.clone(),
        node,
        reason,
    })?;
    Ok(Prepared {
        stage: stage.to_owned(),
        path,
        model,
        inputs: ins,
        outputs: outs,
        weights: bound,
        profiles: profiles::of(stage, recipe, &Model::of(&bundle.manifest)),
    })
}

/// Moves work from the host into the graph.
fn rewrite(
    graph: &mut GraphProto,
    stage: &str,
    bundle: &Bundle,
    list: &mut Vec<Initializer>,
) -> Result<(), String> {
    let table = &bundle.manifest.embedding;
    match stage {
        "target" | "prefill" | "draft" => {
            let name = if stage == "draft" { "block" } else { "x" };
            inputs::look_up_tokens(graph, name, table)?;
            list.push(Initializer {
                name: EMBEDDING.to_owned(),
                source: Vec::new(),
                transform: "none".to_owned(),
                data: table.clone(),
            });
        }
        "context" => inputs::take_path(graph)?,
        "head_greedy" => heads::greedy(graph),
        "head_top" => heads::top(graph, bundle.manifest.target.vocab),
        _ => {}
    }
    Ok(())
}

fn ports(graph: &GraphProto) -> Result<(Vec<Port>, Vec<Port>), String> {
    let all = |list: &[_]| list.iter().map(inputs::port).collect::<Result<Vec<_>, _>>();
    Ok((all(&graph.input)?, all(&graph.output)?))
}
