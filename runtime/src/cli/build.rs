//! `forkcast build`.

use super::names::WeightsName;
use super::{Outcome, interrupt, output};
use crate::exit::{Exit, Failure};
use clap::builder::BoolishValueParser;
use forkcast_engines::build::{BuildError, BuildOptions, Compiler, Progress, Summary, build};
use forkcast_engines::recipe::Recipe;
use indicatif::ProgressBar;
use std::path::PathBuf;
use std::sync::Arc;

const AFTER_HELP: &str = "\
No GPU is needed: plans are compiled for the GPU of the recipe. They hold no weights, so every checkpoint of the
same shape runs on them; see docs/engines.md.

Examples:
  forkcast build bundle --recipe rtx-pro-6000-blackwell --out engine
  forkcast build bundle --recipe my-gpu.toml --out engine --keep-onnx
  forkcast verify engine --gpu rtx-pro-6000-blackwell";

/// Flags of `forkcast build`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// Folder of the bundle.
    bundle: PathBuf,
    /// Name of a recipe, or a .toml file.
    #[arg(long, value_name = "NAME", env = "FORKCAST_RECIPE", help_heading = "Input")]
    recipe: String,
    /// Folder of the engine; an engine that is there already is replaced.
    #[arg(long, value_name = "DIR", env = "FORKCAST_OUT", help_heading = "Output")]
    out: PathBuf,
    /// Where the weights of the plans are.
    #[arg(
        long,
        value_enum,
        default_value = "inputs",
        env = "FORKCAST_WEIGHTS",
        help_heading = "Output"
    )]
    weights: WeightsName,
    /// Keep the rewritten graphs beside the plans, as STAGE.onnx.
    #[arg(long, env = "FORKCAST_KEEP_ONNX", value_parser = BoolishValueParser::new(), help_heading = "Output")]
    keep_onnx: bool,
}

pub(super) fn run(args: &Args) -> Outcome {
    let recipe = Recipe::load(&args.recipe)?;
    let compiler = compiler()?;
    let options = BuildOptions {
        bundle: args.bundle.clone(),
        recipe,
        out: args.out.clone(),
        weights: args.weights.into(),
        keep_onnx: args.keep_onnx,
    };
    interrupt::politely();
    let start = std::time::Instant::now();
    let bar = output::spinner();
    let shown = bar.clone();
    let graph = std::sync::Mutex::new(String::new());
    let summary = build(
        &options,
        compiler.as_ref(),
        &(Arc::new(move |progress: &Progress<'_>| {
            show(&shown, &graph, progress);
            !interrupt::asked()
        }) as forkcast_engines::build::Listener),
    );
    bar.finish_and_clear();
    report(args, &summary?, start.elapsed().as_secs_f64());
    Ok(Exit::Done)
}

#[cfg(any(feature = "tensorrt", feature = "tensorrt-enterprise"))]
fn compiler() -> Result<Box<dyn Compiler>, Failure> {
    Ok(Box::new(forkcast_engines::build::TensorRt::load()?))
}

#[cfg(not(any(feature = "tensorrt", feature = "tensorrt-enterprise")))]
fn compiler() -> Result<Box<dyn Compiler>, Failure> {
    Err(Failure::new(
        Exit::Host,
        anyhow::Error::msg("this forkcast was built without TensorRT"),
        "`make tensorrt` fetches TensorRT-RTX and builds a forkcast that compiles engines",
    ))
}

fn show(bar: &ProgressBar, graph: &std::sync::Mutex<String>, progress: &Progress<'_>) {
    let mut graph = graph.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match progress {
        Progress::Graph { stage, number, of } => {
            *graph = format!("{stage} ({number} of {of})");
            bar.set_message(graph.clone());
        }
        Progress::Phase { name, step, steps } => bar.set_message(format!("{graph}: {name} {step}/{steps}")),
    }
}

fn report(args: &Args, summary: &Summary, seconds: f64) {
    let engine = &summary.engine;
    output::say(&format!(
        "{}: {} plans for {} (SM {}.{}, TensorRT {}), {}, rows up to {}, contexts {:?}; {seconds:.1} s\n",
        args.out.display(),
        engine.plans.len(),
        engine.recipe.gpu,
        engine.requires.sm / 10,
        engine.requires.sm % 10,
        engine.requires.tensorrt,
        output::size(summary.plan_bytes),
        engine.limits.rows,
        engine.contexts,
    ));
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        let exit = match error {
            BuildError::Cancelled => Exit::Interrupted,
            _ => Exit::of(error.exit_code()),
        };
        let hint = error.hint();
        Self::with(exit, error, hint)
    }
}
