//! Flags of `forkcast bench`.

use super::super::engine::ModelArgs;
use super::super::names::{MethodName, Switch};
use super::super::parse;
use clap::builder::BoolishValueParser;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
Every prompt is answered by plain and by every method, budget and temperature in turn on one engine, so that ratios come
from one run. Speedup and tau are defined as in the DFlash and DDTree papers; docs/bench.md says how exactly.

A suite is a file of JSON lines (or a JSON array): `messages`, `prompt` or `ids` on each, or the published GSM8K, MATH-500,
AIME, HumanEval, MBPP or MT-Bench in their own field names.

Examples:
  forkcast bench bundle --suite gsm8k.jsonl --suite math500.jsonl --out results
  forkcast bench bundle --suite chat.jsonl --methods ddtree,mfd --budgets 16,64,256 --temperatures 0,1 --repeat 5
  forkcast bench bundle --synthetic-acceptance 6 --budgets 12,24,48
  forkcast bench compare before/bench.json after/bench.json --gate";

const AFTER_COMPARE: &str = "\
Exit code 1 with --gate: a speedup or an acceptance length became worse, or a cell is gone.

Example:
  forkcast bench compare before/bench.json after/bench.json --gate --tolerance 3";

/// Flags of `forkcast bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(in super::super) struct Args {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    /// A bundle or an engine directory.
    #[arg(required = true)]
    pub(super) model: Option<PathBuf>,

    /// File of prompts; may be given several times. Without one, seeded token ids are the prompts.
    #[arg(
        long,
        value_name = "FILE.jsonl",
        env = "FORKCAST_SUITE",
        help_heading = "Prompts"
    )]
    pub(super) suite: Vec<PathBuf>,
    /// Prompts of each suite, from its beginning; all without.
    #[arg(long, value_name = "N", env = "FORKCAST_SAMPLES", value_parser = parse::positive, help_heading = "Prompts")]
    pub(super) samples: Option<usize>,
    /// Tokens of each prompt where there is no suite [default: 64].
    #[arg(long, value_name = "N", env = "FORKCAST_PROMPT_TOKENS", value_parser = parse::positive, help_heading = "Prompts")]
    pub(super) prompt_tokens: Option<usize>,
    /// Shuffle each suite with this seed before --samples are taken.
    #[arg(long, value_name = "S", env = "FORKCAST_SHUFFLE", help_heading = "Prompts")]
    pub(super) shuffle: Option<u64>,
    /// Whether the chat template lets the model think first.
    #[arg(long, value_enum, env = "FORKCAST_THINKING", help_heading = "Prompts")]
    pub(super) thinking: Option<Switch>,

    /// Methods to compare with plain; all that the drafter allows without.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        env = "FORKCAST_METHODS",
        help_heading = "Cells"
    )]
    pub(super) methods: Vec<MethodName>,
    /// Budgets of the trees; a chain uses at most the block.
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        env = "FORKCAST_BUDGETS",
        default_value = "16,64,256"
    )]
    #[arg(value_parser = parse::budget, help_heading = "Cells")]
    pub(super) budgets: Vec<usize>,
    /// Temperatures.
    #[arg(
        long,
        value_name = "T,...",
        value_delimiter = ',',
        env = "FORKCAST_TEMPERATURES",
        default_value = "0"
    )]
    #[arg(value_parser = parse::temperature, help_heading = "Cells")]
    pub(super) temperatures: Vec<f32>,
    /// Mode of the drafter that chain and ddtree use.
    #[arg(
        long,
        value_name = "M",
        env = "FORKCAST_MODE",
        default_value_t = 0,
        help_heading = "Cells"
    )]
    pub(super) mode: usize,
    /// Keep the K most likely tokens; 0 keeps all.
    #[arg(
        long,
        value_name = "K",
        env = "FORKCAST_TOP_K",
        default_value_t = 0,
        help_heading = "Cells"
    )]
    pub(super) top_k: usize,
    /// Keep the most likely tokens up to this probability in all, in (0, 1].
    #[arg(long, value_name = "P", env = "FORKCAST_TOP_P", default_value_t = 1.0)]
    #[arg(value_parser = parse::top_p, allow_negative_numbers = true, help_heading = "Cells")]
    pub(super) top_p: f32,

    /// Times that each cell answers each prompt.
    #[arg(long, value_name = "N", env = "FORKCAST_REPEAT", default_value_t = 3, value_parser = parse::positive)]
    #[arg(help_heading = "Run")]
    pub(super) repeat: usize,
    /// Most tokens of an answer.
    #[arg(long, value_name = "N", env = "FORKCAST_MAX_TOKENS", default_value_t = 128, value_parser = parse::positive)]
    #[arg(help_heading = "Run")]
    pub(super) max_tokens: usize,
    /// Seed of the draws of a suite's first prompt; each next prompt has the next seed.
    #[arg(
        long,
        value_name = "S",
        env = "FORKCAST_SEED",
        default_value_t = 0,
        help_heading = "Run"
    )]
    pub(super) seed: u64,
    /// Make rounds accept this many rows on average, whatever is drafted: costs without luck, texts without meaning.
    #[arg(long, value_name = "TAU", env = "FORKCAST_SYNTHETIC_ACCEPTANCE", value_parser = parse::acceptance)]
    #[arg(allow_negative_numbers = true, help_heading = "Run")]
    pub(super) synthetic_acceptance: Option<f64>,
    #[command(flatten)]
    pub(super) engine: ModelArgs,

    /// Folder for bench.json, bench.md and the plots; one that a bench wrote is replaced.
    #[arg(long, value_name = "DIR", env = "FORKCAST_OUT", help_heading = "Output")]
    pub(super) out: Option<PathBuf>,
    /// Print the record (with every sample) instead of tables.
    #[arg(long, env = "FORKCAST_JSON", value_parser = BoolishValueParser::new(), help_heading = "Output")]
    pub(super) json: bool,
}

/// What can be done with records.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Say what changed between two records by more than the noise of their samples.
    Compare(Compare),
}

/// Flags of `forkcast bench compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_COMPARE)]
pub(super) struct Compare {
    /// The record to compare with.
    pub(super) before: PathBuf,
    /// The newer record.
    pub(super) after: PathBuf,
    /// Exit with 1 if something became worse.
    #[arg(long, env = "FORKCAST_GATE", value_parser = BoolishValueParser::new())]
    pub(super) gate: bool,
    /// Differences up to this many percent never count, whatever the noise.
    #[arg(
        long,
        value_name = "PERCENT",
        env = "FORKCAST_TOLERANCE",
        default_value_t = 2.0
    )]
    #[arg(value_parser = parse::percent, allow_negative_numbers = true)]
    pub(super) tolerance: f64,
    /// Print one JSON object.
    #[arg(long, env = "FORKCAST_JSON", value_parser = BoolishValueParser::new())]
    pub(super) json: bool,
}
