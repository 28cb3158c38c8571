//! `forkcast demo`: the trained tiny models, exported and compared.

mod bundles;
mod table;

use super::engine::{EngineArgs, ModelArgs, locate, manifest, open};
use super::generate::Output;
use super::{Outcome, output, parse};
use crate::exit::{Exit, Failure};
use forkcast::decode::{DEFAULT_BUDGET, Method, Report, Request, decode};
use forkcast::sample::Sampling;
use forkcast::text::{Conversation, RenderOptions, TextModel};
use forkcast_engines::backend::Backend;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
The first prompt of every domain is answered at temperature 0 by plain, chain and ddtree (DFlash
drafter) and mfd (MFD drafter). All must give plain's text, or the command exits with 1.

Examples:
  make demo
  forkcast demo --budget 16 --max-tokens 64";

/// Domains of the prompt files.
const DOMAINS: [(&str, &str); 5] = [
    ("a", "word problem"),
    ("b", "algebra"),
    ("c", "code completion"),
    ("d", "code from a sentence"),
    ("e", "chat"),
];

/// Flags of `forkcast demo`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// Folder of the tiny models and prompts; `tests/models` of the repository without.
    #[arg(long, value_name = "DIR", env = "FORKCAST_MODELS", help_heading = "Input")]
    models: Option<PathBuf>,
    /// Folder for the bundles; `target/demo` of the repository without.
    #[arg(long, value_name = "DIR", env = "FORKCAST_OUT", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Budget of the trees.
    #[arg(long, value_name = "N", env = "FORKCAST_BUDGET", default_value_t = DEFAULT_BUDGET, value_parser = parse::budget)]
    #[arg(help_heading = "Decoding")]
    budget: usize,
    /// Most tokens of an answer.
    #[arg(
        long,
        value_name = "N",
        env = "FORKCAST_MAX_TOKENS",
        default_value_t = 128,
        help_heading = "Decoding"
    )]
    max_tokens: usize,
    #[command(flatten)]
    engine: EngineArgs,
}

/// One answer.
struct Answer {
    domain: &'static str,
    report: Report,
    text: String,
}

pub(super) fn run(args: &Args) -> Outcome {
    let models = bundles::models(args.models.as_deref())?;
    let out = bundles::place(args.out.as_deref(), &models);
    let prompts = prompts(&models)?;
    let dflash = bundles::ensure(&models, "tiny-qwen3.5-dflash", &out, None)?;
    let mfd = bundles::ensure(&models, "tiny-qwen3.5-mfd", &out, Some(&dflash))?;
    let mut answers = Vec::new();
    for (bundle, methods) in [
        (&dflash, &[Method::Plain, Method::Chain, Method::Ddtree][..]),
        (&mfd, &[Method::Mfd][..]),
    ] {
        answer_all(args, bundle, methods, &prompts, &mut answers)?;
    }
    let (table, same) = table::render(&answers);
    output::data(&table)?;
    Ok(if same { Exit::Done } else { Exit::No })
}

/// The first prompt of every domain; of a conversation with two turns, the first turn.
fn prompts(models: &Path) -> Result<Vec<(&'static str, Conversation)>, Failure> {
    let read = |(letter, domain): (&str, &'static str)| {
        let path = models.join(format!("prompts/prompts_{letter}.jsonl"));
        let text = std::fs::read_to_string(&path).map_err(|e| {
            Failure::input(
                format!("{}: {e}", path.display()),
                "pass the folder of the tiny models as --models",
            )
        })?;
        let first = text.lines().next().unwrap_or_default();
        Ok((domain, Conversation::parse(first.as_bytes())?.truncated(1)))
    };
    DOMAINS.into_iter().map(read).collect()
}

fn answer_all(
    args: &Args,
    bundle: &Path,
    methods: &[Method],
    prompts: &[(&'static str, Conversation)],
    answers: &mut Vec<Answer>,
) -> Result<(), Failure> {
    let manifest = manifest(bundle)?;
    let text = TextModel::of_bundle(bundle, &manifest)?;
    let flags = ModelArgs {
        engine: args.engine,
        ..ModelArgs::default()
    };
    let mut engine = open(&locate(bundle, &flags)?, &flags)?;
    let bar = output::spinner();
    for method in methods {
        output::say(&format!("answering {} prompts with {method}\n", prompts.len()));
        let mut request = Request {
            method: *method,
            budget: args.budget,
            mode: 0,
            max_tokens: args.max_tokens.min(8),
            sampling: Sampling::default(),
            seed: 0,
            stop_ids: manifest.stop_ids.clone(),
            logprobs: None,
        };
        // The first runs of a shape are slower: one short answer that nobody sees.
        let options = RenderOptions {
            generation_prompt: true,
            thinking: Some(true),
        };
        answer(
            engine.as_mut(),
            &text,
            &request,
            &text.encode_chat(&prompts[0].1, options)?,
        )?;
        request.max_tokens = args.max_tokens;
        for (domain, chat) in prompts {
            bar.set_message(format!("{method}: {domain}"));
            let prompt = text.encode_chat(chat, options)?;
            let (report, text) = answer(engine.as_mut(), &text, &request, &prompt)?;
            answers.push(Answer { domain, report, text });
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn answer(
    engine: &mut dyn Backend,
    text: &TextModel,
    request: &Request,
    prompt: &[u32],
) -> Result<(Report, String), Failure> {
    let mut sink = Output::new(text.tokenizer.as_ref(), &[], &request.stop_ids, false)?;
    let report = decode(engine, prompt, request, &mut sink)?;
    let text = sink.finish().unwrap_or_default();
    Ok((report, text))
}
