//! `forkcast inspect`.

use super::safetensors::{self, Tensor};
use super::{Outcome, output};
use crate::exit::{Exit, Failure};
use clap::builder::BoolishValueParser;
use forkcast_engines::engine::{self, Engine, WeightMode};
use forkcast_engines::manifest::{self, FILE_NAME, Layer, Manifest};
use forkcast_engines::recipe::Flavour;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Examples:
  forkcast inspect bundle
  forkcast inspect engine
  forkcast inspect Qwen3.5-4B --json
  forkcast inspect probe.safetensors";

/// Flags of `forkcast inspect`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// A bundle, an engine directory, a checkpoint folder or a safetensors file.
    path: PathBuf,
    /// Print one JSON object.
    #[arg(long, env = "FORKCAST_JSON", value_parser = BoolishValueParser::new(), help_heading = "Output")]
    json: bool,
}

/// What lies at a path.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Found {
    Bundle {
        manifest: Box<Manifest>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        problems: Vec<String>,
    },
    Engine {
        engine: Box<Engine>,
    },
    Target {
        model_type: String,
        config: Value,
        weights: Vec<Weights>,
    },
    Drafter {
        model_type: String,
        config: Value,
        weights: Vec<Weights>,
    },
    Safetensors {
        tensors: Vec<Tensor>,
    },
}

/// Numbers in one file of a checkpoint.
#[derive(Debug, Serialize)]
struct Weights {
    file: String,
    tensors: usize,
    parameters: u64,
    /// Parameters by type.
    dtypes: BTreeMap<String, u64>,
}

pub(super) fn run(args: &Args) -> Outcome {
    let found = look(&args.path)?;
    if args.json {
        output::json(&found)?;
    } else {
        output::data(&describe(&args.path, &found))?;
    }
    Ok(match &found {
        Found::Bundle { problems, .. } if !problems.is_empty() => Exit::No,
        _ => Exit::Done,
    })
}

fn look(path: &Path) -> Result<Found, Failure> {
    if path.join(FILE_NAME).is_file() {
        let manifest = Box::new(manifest::read(path)?);
        let problems = match forkcast_engines::bundle::Bundle::open(path) {
            Ok(_) => Vec::new(),
            Err(error) => vec![error.to_string()],
        };
        return Ok(Found::Bundle { manifest, problems });
    }
    if path.join(engine::FILE_NAME).is_file() {
        let engine = Box::new(engine::read(path)?);
        return Ok(Found::Engine { engine });
    }
    if path.join("config.json").is_file() {
        return checkpoint(path);
    }
    if path.is_file() {
        let tensors = safetensors::header(path)?;
        return Ok(Found::Safetensors { tensors });
    }
    let (reason, hint) = if path.is_dir() {
        (
            "neither a bundle (manifest.json), an engine (engine.json) nor a checkpoint (config.json)",
            "name a folder that holds one",
        )
    } else {
        (
            "no such file or folder",
            "name a bundle, a checkpoint folder or a safetensors file",
        )
    };
    Err(Failure::input(format!("{}: {reason}", path.display()), hint))
}

fn checkpoint(dir: &Path) -> Result<Found, Failure> {
    let path = dir.join("config.json");
    let unusable =
        |e: String| Failure::input(format!("{}: {e}", path.display()), "copy or download it again");
    let text = std::fs::read(&path).map_err(|e| unusable(e.to_string()))?;
    let config: Value = serde_json::from_slice(&text).map_err(|e| unusable(e.to_string()))?;
    let weights = weights(dir)?;
    let model_type = config
        .get("model_type")
        .and_then(Value::as_str)
        .unwrap_or("unknown")
        .to_owned();
    let named = config
        .get("architectures")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let drafter = config.get("dflash_config").is_some()
        || named.filter_map(Value::as_str).any(|name| name.contains("Draft"));
    Ok(if drafter {
        Found::Drafter {
            model_type,
            config,
            weights,
        }
    } else {
        Found::Target {
            model_type,
            config,
            weights,
        }
    })
}

/// All safetensors files of a folder, by name.
fn weights(dir: &Path) -> Result<Vec<Weights>, Failure> {
    let listed = std::fs::read_dir(dir).map_err(|e| {
        Failure::input(
            format!("{}: {e}", dir.display()),
            "check the folder's permissions",
        )
    })?;
    let mut files: Vec<PathBuf> = listed.filter_map(|e| Some(e.ok()?.path())).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "safetensors"));
    files.sort();
    files
        .iter()
        .map(|path| {
            let tensors = safetensors::header(path)?;
            let mut dtypes = BTreeMap::new();
            for tensor in &tensors {
                *dtypes.entry(tensor.dtype.clone()).or_default() += count(tensor);
            }
            Ok(Weights {
                file: path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
                tensors: tensors.len(),
                parameters: tensors.iter().map(count).sum(),
                dtypes,
            })
        })
        .collect()
}

fn count(tensor: &Tensor) -> u64 {
    tensor.shape.iter().map(|d| *d as u64).product()
}

fn describe(path: &Path, found: &Found) -> String {
    let mut out = String::new();
    let name = path.display();
    let _ = match found {
        Found::Bundle { manifest, problems } => {
            let _ = writeln!(out, "{name}: a bundle");
            describe_bundle(manifest, &mut out);
            problems
                .iter()
                .try_for_each(|p| writeln!(out, "  not usable: {p}"))
        }
        Found::Engine { engine } => {
            let _ = writeln!(out, "{name}: an engine directory");
            describe_engine(engine, &mut out)
        }
        Found::Drafter {
            model_type, weights, ..
        } => {
            let _ = writeln!(
                out,
                "{name}: this is a drafter ({model_type}); pass it as --drafter to forkcast export"
            );
            describe_weights(weights, &mut out)
        }
        Found::Target {
            model_type, weights, ..
        } => {
            let _ = writeln!(
                out,
                "{name}: a checkpoint ({model_type}); pass it as --target to forkcast export"
            );
            describe_weights(weights, &mut out)
        }
        Found::Safetensors { tensors } => {
            let total: u64 = tensors.iter().map(count).sum();
            let _ = writeln!(out, "{name}: {} tensors, {total} numbers", tensors.len());
            tensors
                .iter()
                .try_for_each(|t| writeln!(out, "  {} {} {:?}", t.name, t.dtype, t.shape))
        }
    };
    out
}

fn describe_engine(e: &Engine, out: &mut String) -> std::fmt::Result {
    let (r, l) = (&e.requires, &e.limits);
    let library = match r.flavour {
        Flavour::TensorrtRtx => "TensorRT-RTX",
        Flavour::Tensorrt => "TensorRT",
    };
    writeln!(
        out,
        "  GPU      {} (SM {}.{})",
        e.recipe.gpu,
        r.sm / 10,
        r.sm % 10
    )?;
    writeln!(
        out,
        "  needs    {library} {}, driver with CUDA {}.{} or later{}",
        r.tensorrt,
        r.driver_cuda / 1000,
        r.driver_cuda % 1000 / 10,
        r.plugin_abi
            .map_or(String::new(), |abi| format!(", plugin ABI {abi}")),
    )?;
    let weights = match e.weights {
        WeightMode::Inputs => "bound at load",
        WeightMode::Embedded => "inside the plans",
    };
    writeln!(out, "  weights  {weights}; bundle {}", e.bundle.path.display())?;
    writeln!(
        out,
        "  limits   context {} (buckets {:?}), {} rows (buckets {:?}), paths of {} rows, prefill of {} rows",
        l.context, e.contexts, l.rows, e.recipe.rows, l.depth, l.prefill_rows
    )?;
    e.plans.iter().try_for_each(|(stage, plan)| {
        writeln!(
            out,
            "  plan     {stage}: {} ({}), {} profiles, {} weights",
            plan.plan,
            output::size(plan.bytes),
            plan.profiles.len(),
            plan.weights.len()
        )
    })
}

fn describe_bundle(m: &Manifest, out: &mut String) {
    let delta = m
        .target
        .layers
        .iter()
        .filter(|l| matches!(l, Layer::DeltaNet(_)))
        .count();
    let attention = m.target.layers.len() - delta;
    let family = format!("{:?}", m.target.family).to_lowercase();
    let _ = writeln!(
        out,
        "  target   {family}, {attention} attention and {delta} DeltaNet layers, hidden {}, vocabulary {}{}",
        m.target.hidden,
        m.target.vocab,
        if m.target.tied { ", tied head" } else { "" },
    );
    let _ = match &m.drafter {
        Some(d) => writeln!(
            out,
            "  drafter  {} layers, block {}, {} modes, reads layers {:?}",
            d.layers, d.block, d.modes, m.taps
        ),
        None => writeln!(out, "  drafter  none, taps {:?}", m.taps),
    };
    let _ = writeln!(
        out,
        "  limits   context {}, stop tokens {:?}, {}",
        m.max_context,
        m.stop_ids,
        m.dtype.name()
    );
    let _ = writeln!(
        out,
        "  text     tokenizer {}, chat template {}",
        if m.text.tokenizer.is_some() { "yes" } else { "no" },
        if m.text.chat_template.is_some() {
            "yes"
        } else {
            "no file of its own"
        },
    );
    for file in &m.files {
        let _ = writeln!(out, "  owns     {} ({})", file.name, output::size(file.bytes));
    }
    for file in &m.weight_files {
        let _ = writeln!(
            out,
            "  refers   {} ({})",
            file.path.display(),
            output::size(file.bytes)
        );
    }
}

fn describe_weights(weights: &[Weights], out: &mut String) -> std::fmt::Result {
    for w in weights {
        let dtypes: Vec<String> = w.dtypes.iter().map(|(d, n)| format!("{n} {d}")).collect();
        writeln!(out, "  {}: {} tensors, {}", w.file, w.tensors, dtypes.join(", "))?;
    }
    if weights.is_empty() {
        writeln!(out, "  no safetensors file")?;
    }
    Ok(())
}
