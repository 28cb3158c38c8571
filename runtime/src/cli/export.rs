//! `forkcast export`.

use super::names::DtypeName;
use super::parse::{Layers, positive};
use super::{Outcome, interrupt, output};
use crate::exit::{Exit, Failure};
use clap::builder::BoolishValueParser;
use forkcast_exporter::{ExportOptions, Progress};
use std::path::PathBuf;

const AFTER_HELP: &str = "\
A model is a folder or a hub id that lies in the local Hugging Face cache; nothing is downloaded.
Weights whose type fits are used where they lie: the bundle refers to the checkpoint's files.

Examples:
  forkcast export --target Qwen3-4B --out bundle
  forkcast export --target Qwen/Qwen3.5-4B --drafter ./Qwen3.5-4B-DFlash --out bundle
  forkcast export --target Qwen3.5-4B --dtype bf16 --taps 1,4 --out bundle";

/// Flags of `forkcast export`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// Checkpoint of the target: a folder, or a hub id in the local cache.
    #[arg(long, value_name = "DIR", env = "FORKCAST_TARGET", help_heading = "Input")]
    target: String,
    /// Checkpoint of the drafter.
    #[arg(long, value_name = "DIR", env = "FORKCAST_DRAFTER", help_heading = "Input")]
    drafter: Option<String>,
    /// Folder of the bundle; a bundle that is there already is replaced.
    #[arg(long, value_name = "BUNDLE", env = "FORKCAST_OUT", help_heading = "Output")]
    out: PathBuf,
    /// Type of the linear layers.
    #[arg(
        long,
        value_enum,
        default_value = "f32",
        env = "FORKCAST_DTYPE",
        help_heading = "Output"
    )]
    dtype: DtypeName,
    /// Copy all weights: the bundle needs no checkpoint afterwards.
    #[arg(long, env = "FORKCAST_COPY_WEIGHTS", value_parser = BoolishValueParser::new(), help_heading = "Output")]
    copy_weights: bool,
    /// Record SHA-256 of all referenced weight files, not of their headers only.
    #[arg(long, env = "FORKCAST_HASH_WEIGHTS", value_parser = BoolishValueParser::new(), help_heading = "Output")]
    hash_weights: bool,
    /// Layers that `probe` shows; a drafter names its own.
    #[arg(long, value_name = "LAYERS", env = "FORKCAST_TAPS", help_heading = "Output")]
    taps: Option<Layers>,
    /// Keep the first N futures of a drafter with several: a draft costs N blocks of rows.
    #[arg(long, value_name = "N", env = "FORKCAST_MODES", value_parser = positive, help_heading = "Output")]
    modes: Option<usize>,
    /// Another bundle of the same target: equal files become hard links to it.
    #[arg(
        long,
        value_name = "BUNDLE",
        env = "FORKCAST_WEIGHTS_FROM",
        help_heading = "Output"
    )]
    weights_from: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Outcome {
    let options = ExportOptions {
        target: args.target.clone(),
        drafter: args.drafter.clone(),
        out: args.out.clone(),
        dtype: args.dtype.into(),
        copy_weights: args.copy_weights,
        hash_weights: args.hash_weights,
        taps: args.taps.as_ref().map(|l| l.0.clone()),
        modes: args.modes,
        weights_from: args.weights_from.clone(),
    };
    if args.modes.is_some() && args.drafter.is_none() {
        return Err(Failure::input(
            "--modes: there is no drafter",
            "give --drafter, or leave --modes away",
        ));
    }
    interrupt::at_once();
    let bar = output::spinner();
    let result = forkcast_exporter::export(&options, &mut |progress| match progress {
        Progress::Step(step) => bar.set_message(step),
        Progress::Bytes { file, done, total } => {
            bar.set_message(format!(
                "{file}: {} of {}",
                output::size(done),
                output::size(total)
            ));
        }
        Progress::Note(text) => bar.suspend(|| output::note(&text)),
    });
    bar.finish_and_clear();
    let summary = result?;
    let drafter = match &summary.manifest.drafter {
        Some(d) => format!("drafter with {} modes, block {}", d.modes, d.block),
        None => "no drafter".to_owned(),
    };
    output::say(&format!(
        "{}: {} target of {} layers, {drafter}; {} written, {} referenced\n",
        summary.out.display(),
        options.dtype.name(),
        summary.manifest.target.layers.len(),
        output::size(summary.owned_bytes),
        output::size(summary.referenced_bytes),
    ));
    Ok(Exit::Done)
}
