//! Flags of `forkcast verify`.

use super::super::engine::EngineArgs;
use super::super::parse;
use clap::builder::BoolishValueParser;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
Neither a GPU nor TensorRT is needed without --deep. Exit code 0: everything is as built and fits; 1: a file is not what was
built, or --deep found a difference; 3: whole, but not for this host (or the GPU that was named); 2: there is nothing to check.

--deep hashes every file of a bundle, then proves that decoding is lossless here: tokens of every method and budget equal
plain's at temperature 0 and, with the same seed, above; state and next logits after every round equal those of decoding
one token after another; kernels agree with their ONNX function bodies. docs/proof.md says how each is judged.

Examples:
  forkcast verify engine
  forkcast verify engine --gpu l40s --json
  forkcast verify bundle --deep
  forkcast verify bundle --deep --suite prompts.jsonl --samples 8 --budgets 16,64,256 --seeds 1,2,3 --json";

/// Flags of `forkcast verify`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(in super::super) struct Args {
    /// An engine directory, or a bundle.
    pub(super) model: PathBuf,
    /// Check against the GPU of this recipe instead of this host.
    #[arg(long, value_name = "NAME", env = "FORKCAST_GPU", help_heading = "Against")]
    pub(super) gpu: Option<String>,
    /// Bundle that the engine will run, instead of the one that it names.
    #[arg(long, value_name = "DIR", env = "FORKCAST_BUNDLE", help_heading = "Against")]
    pub(super) bundle: Option<PathBuf>,
    /// Run the model and prove that decoding is lossless; of a bundle also hash all of every file.
    #[arg(long, env = "FORKCAST_DEEP", value_parser = BoolishValueParser::new(), help_heading = "Against")]
    pub(super) deep: bool,

    /// File of prompts (see `forkcast bench`); may be given several times. Without one, seeded token ids are the prompts.
    #[arg(
        long,
        value_name = "FILE.jsonl",
        env = "FORKCAST_SUITE",
        help_heading = "Proof (--deep)"
    )]
    pub(super) suite: Vec<PathBuf>,
    /// Prompts of each suite, from its beginning.
    #[arg(long, value_name = "N", env = "FORKCAST_SAMPLES", default_value_t = 2, value_parser = parse::positive)]
    #[arg(help_heading = "Proof (--deep)")]
    pub(super) samples: usize,
    /// Most tokens of an answer.
    #[arg(long, value_name = "N", env = "FORKCAST_MAX_TOKENS", default_value_t = 64, value_parser = parse::positive)]
    #[arg(help_heading = "Proof (--deep)")]
    pub(super) max_tokens: usize,
    /// Budgets of the trees; a chain uses at most the block.
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        env = "FORKCAST_BUDGETS",
        default_value = "12,64"
    )]
    #[arg(value_parser = parse::budget, help_heading = "Proof (--deep)")]
    pub(super) budgets: Vec<usize>,
    /// Seeds of the answers above temperature 0.
    #[arg(
        long,
        value_name = "S,...",
        value_delimiter = ',',
        env = "FORKCAST_SEEDS",
        default_value = "0,1"
    )]
    #[arg(help_heading = "Proof (--deep)")]
    pub(super) seeds: Vec<u64>,
    /// Temperature of these answers, above 0.
    #[arg(long, value_name = "T", env = "FORKCAST_TEMPERATURE", default_value_t = 1.0, value_parser = parse::temperature)]
    #[arg(help_heading = "Proof (--deep)")]
    pub(super) temperature: f32,
    /// Error of the logits that explains another token [default: 1e-3 for float32].
    #[arg(long, value_name = "GAP", env = "FORKCAST_NEAR_TIE", value_parser = parse::gap)]
    #[arg(help_heading = "Proof (--deep)")]
    pub(super) near_tie: Option<f64>,
    #[command(flatten)]
    pub(super) engine: EngineArgs,

    /// Print one JSON object.
    #[arg(long, env = "FORKCAST_JSON", value_parser = BoolishValueParser::new(), help_heading = "Output")]
    pub(super) json: bool,
}
