//! Flags of `forkcast tune`.

use super::super::engine::EngineArgs;
use super::super::names::Switch;
use super::super::parse;
use clap::builder::BoolishValueParser;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
Times draft, verify, head, commit and prefill by rows and context, watches on prompts how many drafts of each tree size are
accepted, and chooses method and budget with the most expected tokens per second. The result is written to tune.json beside
the model; generate and serve take it where no flag says otherwise, and --adaptive decides by it. See docs/tune.md.

Examples:
  forkcast tune bundle --suite prompts.jsonl
  forkcast tune engine --contexts 128,2048,8192 --json";

/// Flags of `forkcast tune`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(in super::super) struct Args {
    /// A bundle or an engine directory.
    pub(super) model: PathBuf,

    /// File of prompts (see `forkcast bench`); may be given several times. Without one, seeded token ids are the prompts.
    #[arg(
        long,
        value_name = "FILE.jsonl",
        env = "FORKCAST_SUITE",
        help_heading = "Acceptance"
    )]
    pub(super) suite: Vec<PathBuf>,
    /// Prompts of each suite, from its beginning.
    #[arg(long, value_name = "N", env = "FORKCAST_SAMPLES", default_value_t = 4, value_parser = parse::positive)]
    #[arg(help_heading = "Acceptance")]
    pub(super) samples: usize,
    /// Most tokens of an answer.
    #[arg(long, value_name = "N", env = "FORKCAST_MAX_TOKENS", default_value_t = 128, value_parser = parse::positive)]
    #[arg(help_heading = "Acceptance")]
    pub(super) max_tokens: usize,
    /// Whether the chat template lets the model think first.
    #[arg(long, value_enum, env = "FORKCAST_THINKING", help_heading = "Acceptance")]
    pub(super) thinking: Option<Switch>,

    /// Largest budget that is considered.
    #[arg(long, value_name = "N", env = "FORKCAST_MAX_BUDGET", default_value_t = 256, value_parser = parse::budget)]
    #[arg(help_heading = "Costs")]
    pub(super) max_budget: usize,
    /// Tokens before the timed passes; those that the model does not hold are left out.
    #[arg(long, value_name = "N,...", value_delimiter = ',', env = "FORKCAST_CONTEXTS")]
    #[arg(default_value = "128,512,2048,8192,32768", value_parser = parse::positive, help_heading = "Costs")]
    pub(super) contexts: Vec<usize>,
    /// Context that the choice is for; that of the answers without.
    #[arg(long, value_name = "N", env = "FORKCAST_CONTEXT", value_parser = parse::positive, help_heading = "Costs")]
    pub(super) context: Option<usize>,
    /// Times that everything is timed; medians are taken.
    #[arg(long, value_name = "N", env = "FORKCAST_REPEAT", default_value_t = 5, value_parser = parse::positive)]
    #[arg(help_heading = "Costs")]
    pub(super) repeat: usize,
    #[command(flatten)]
    pub(super) engine: EngineArgs,
    /// Bundle with the weights for an engine directory; the one that it names without.
    #[arg(long, value_name = "DIR", env = "FORKCAST_BUNDLE", help_heading = "Engine")]
    pub(super) bundle: Option<PathBuf>,

    /// Print what is written to tune.json instead of tables.
    #[arg(long, env = "FORKCAST_JSON", value_parser = BoolishValueParser::new(), help_heading = "Output")]
    pub(super) json: bool,
}
