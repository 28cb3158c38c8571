//! Flags of `forkcast generate`.

use super::super::engine::ModelArgs;
use super::super::names::{MethodName, Switch};
use super::super::parse::{self, Ids};
use clap::builder::BoolishValueParser;
use forkcast::sample::Sampling;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
The answer streams to stdout; the summary, or an error, goes to stderr. Whatever method and budget,
the text is the target's own: the same seed gives the same text.

Examples:
  forkcast generate bundle --prompt 'The sea is' --max-tokens 64
  forkcast generate bundle --chat chat.json --thinking off --method ddtree --budget 64
  forkcast generate bundle --ids 1,2,3 --temperature 0.7 --top-k 20 --seed 7 --json";

/// Flags of `forkcast generate`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(in super::super) struct Args {
    /// A bundle or an engine directory.
    pub(in super::super) model: PathBuf,
    /// Text to continue, as it is.
    #[arg(
        long,
        value_name = "TEXT",
        env = "FORKCAST_PROMPT",
        help_heading = "Prompt (one of)"
    )]
    pub(super) prompt: Option<String>,
    /// Conversation to answer: a JSON array of messages, or an object with `messages`; `-` is stdin.
    #[arg(
        long,
        value_name = "FILE.json",
        env = "FORKCAST_CHAT",
        help_heading = "Prompt (one of)"
    )]
    pub(super) chat: Option<PathBuf>,
    /// Token ids to continue; needs no tokenizer.
    #[arg(long, value_name = "1,2,3", env = "FORKCAST_IDS", allow_hyphen_values = true)]
    #[arg(help_heading = "Prompt (one of)")]
    pub(super) ids: Option<Ids>,
    /// Whether the chat template lets the model think first.
    #[arg(long, value_enum, env = "FORKCAST_THINKING", help_heading = "Prompt (one of)")]
    pub(super) thinking: Option<Switch>,

    /// How the tree of a round is made; as tuned without (forkcast tune), else the best that the drafter allows.
    #[arg(long, value_enum, env = "FORKCAST_METHOD", help_heading = "Decoding")]
    pub(super) method: Option<MethodName>,
    /// Most nodes of a tree, 0 to 1024 [default: as tuned, else 12]; plain uses 0, chain at most the block.
    #[arg(long, value_name = "N", env = "FORKCAST_BUDGET", value_parser = parse::budget)]
    #[arg(allow_negative_numbers = true, help_heading = "Decoding")]
    pub(super) budget: Option<usize>,
    /// Decide round by round whether to draft and how much, by the costs of tune.json; --budget is the most then.
    #[arg(long, env = "FORKCAST_ADAPTIVE", value_parser = BoolishValueParser::new(), help_heading = "Decoding")]
    pub(super) adaptive: bool,
    /// Mode of the drafter that chain and ddtree use [default: 0].
    #[arg(long, value_name = "M", env = "FORKCAST_MODE", help_heading = "Decoding")]
    pub(super) mode: Option<usize>,
    /// Most tokens of the answer.
    #[arg(long, value_name = "N", env = "FORKCAST_MAX_TOKENS", default_value_t = 512)]
    #[arg(help_heading = "Decoding")]
    pub(super) max_tokens: usize,
    /// End the answer before this text; may be given several times.
    #[arg(long, value_name = "TEXT", env = "FORKCAST_STOP", value_parser = parse::stop)]
    #[arg(allow_hyphen_values = true, help_heading = "Decoding")]
    pub(super) stop: Vec<String>,

    /// 0 takes the most likely token; otherwise logits are divided by it.
    #[arg(long, value_name = "T", env = "FORKCAST_TEMPERATURE", default_value_t = 0.0)]
    #[arg(value_parser = parse::temperature, allow_negative_numbers = true, help_heading = "Sampling")]
    pub(super) temperature: f32,
    /// Keep the K most likely tokens; 0 keeps all.
    #[arg(
        long,
        value_name = "K",
        env = "FORKCAST_TOP_K",
        default_value_t = 0,
        help_heading = "Sampling"
    )]
    pub(super) top_k: usize,
    /// Keep the most likely tokens up to this probability in all, in (0, 1].
    #[arg(long, value_name = "P", env = "FORKCAST_TOP_P", default_value_t = 1.0)]
    #[arg(value_parser = parse::top_p, allow_negative_numbers = true, help_heading = "Sampling")]
    pub(super) top_p: f32,
    /// Keep tokens at least this fraction as likely as the most likely one, in [0, 1].
    #[arg(long, value_name = "P", env = "FORKCAST_MIN_P", default_value_t = 0.0)]
    #[arg(value_parser = parse::min_p, allow_negative_numbers = true, help_heading = "Sampling")]
    pub(super) min_p: f32,
    /// Seed of the draws.
    #[arg(
        long,
        value_name = "S",
        env = "FORKCAST_SEED",
        default_value_t = 0,
        help_heading = "Sampling"
    )]
    pub(super) seed: u64,

    #[command(flatten)]
    pub(super) engine: ModelArgs,

    /// Print one JSON object instead of the text.
    #[arg(long, env = "FORKCAST_JSON", value_parser = BoolishValueParser::new(), help_heading = "Output")]
    pub(super) json: bool,
}

impl Args {
    /// The draw.
    pub(super) fn sampling(&self) -> Sampling {
        Sampling {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            ..Sampling::default()
        }
    }
}
