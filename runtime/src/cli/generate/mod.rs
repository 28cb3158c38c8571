//! `forkcast generate`.

mod args;
mod prompt;
mod report;
mod sink;

pub(super) use args::Args;
pub(super) use report::summary;
pub(super) use sink::Output;

use super::engine::{check_prompt, context, locate, manifest, open, shorten};
use super::tune::beside;
use super::{Outcome, output};
use crate::exit::{Exit, Failure};
use clap::ArgMatches;
use forkcast::cost::{Tune, defaults};
use forkcast::decode::{Method, Plan, Request, resume_with};
use forkcast::text::{TextError, TextModel};
use forkcast_engines::backend::Shape;
use forkcast_engines::manifest::Manifest;

pub(super) fn run(args: &Args, matches: &ArgMatches) -> Outcome {
    let source = prompt::choose(args, matches)?;
    let place = locate(&args.model, &args.engine)?;
    let manifest = manifest(&place.bundle)?;
    let text = TextModel::of_bundle(&place.bundle, &manifest)?;
    let prompt = prompt::tokens(args, &source, &text)?;
    let context = context(&place, &manifest, &args.engine);
    check_prompt(&prompt, &manifest, context)?;
    let tune = beside(&place, &args.engine);
    if args.adaptive && tune.is_none() {
        return Err(Failure::input(
            "--adaptive: there is no tune.json for this model on this host",
            "measure first: forkcast tune MODEL --suite FILE.jsonl",
        ));
    }
    let asked = plan(args, &manifest, tune.as_ref());
    let shape = shape(&manifest, context);
    let plan = asked.effective(&shape)?;
    tell_differences(args, asked, plan);
    args.sampling()
        .validate(manifest.target.vocab)
        .map_err(forkcast::decode::DecodeError::from)?;
    if text.tokenizer.is_none() && !args.stop.is_empty() {
        return Err(Failure::input(
            "--stop: stop strings need a tokenizer, and this model has none",
            TextError::NoTokenizer.hint().unwrap_or_default(),
        ));
    }
    let mut sink = Output::new(
        text.tokenizer.as_ref(),
        &args.stop,
        &manifest.stop_ids,
        !args.json,
    )?;
    let mut engine = open(&place, &args.engine)?;
    shorten(engine.as_mut(), &args.engine, &text, &manifest, &[])?;
    let request = Request {
        method: asked.method,
        budget: asked.budget,
        mode: asked.mode,
        max_tokens: args.max_tokens,
        sampling: args.sampling(),
        seed: args.seed,
        stop_ids: manifest.stop_ids.clone(),
        logprobs: None,
    };
    let mut policy = tune.as_ref().filter(|_| args.adaptive).map(|t| t.adaptive(plan));
    let report = resume_with(engine.as_mut(), &prompt, &request, policy.as_mut(), &mut sink)?;
    let text = sink.finish();
    if let Some(error) = sink.error() {
        return Err(error.into());
    }
    if args.json {
        output::json(&report::Json::new(&report, text.as_deref()))?;
    } else {
        if output::stdout_is_terminal() {
            output::data("\n")?;
        }
        output::say(&summary(&report));
        if let Some(tune) = &tune {
            output::say(&tuned(args, tune));
        }
    }
    Ok(Exit::Done)
}

/// What the flags ask for; where they say nothing, what was tuned, else the best method that the drafter allows.
fn plan(args: &Args, manifest: &Manifest, tune: Option<&Tune>) -> Plan {
    let modes = manifest.drafter.as_ref().map_or(0, |d| d.modes);
    let method = args.method.map(Method::from);
    let (method, budget) = match tune.filter(|_| args.adaptive) {
        Some(tune) => tune.adaptive_defaults(method, args.budget),
        None => defaults(method, args.budget, modes, tune),
    };
    Plan {
        method,
        budget,
        mode: args.mode.unwrap_or(0),
    }
}

/// Which of the settings came from the tuning.
fn tuned(args: &Args, tune: &Tune) -> String {
    let of = match (args.method, args.budget) {
        (None, None) => "method and budget",
        (None, Some(_)) => "method",
        (Some(_), None) => "budget",
        (Some(_), Some(_)) => return String::new(),
    };
    format!(
        "{of} as tuned for {} tokens of context (tune.json)\n",
        tune.context
    )
}

/// Sizes as the engine will report them, as far as a plan depends on them.
fn shape(manifest: &Manifest, context: usize) -> Shape {
    let drafter = manifest.drafter.as_ref();
    Shape {
        vocab: manifest.target.vocab,
        hidden: manifest.target.hidden,
        tap_width: manifest.taps.len() * manifest.target.hidden,
        block: drafter.map_or(0, |d| d.block),
        modes: drafter.map_or(0, |d| d.modes),
        max_context: context,
        max_rows: usize::MAX,
        prefill_rows: 1,
    }
}

/// Flags that were given and do not act, or act differently.
fn tell_differences(args: &Args, asked: Plan, used: Plan) {
    if args.budget.is_some() && used.budget != asked.budget {
        output::note(&format!(
            "method {} uses budget {} here, not {}",
            used.method, used.budget, asked.budget
        ));
    }
    if args.mode.is_some() && matches!(used.method, Method::Plain | Method::Mfd) {
        output::note(&format!("--mode does not act on method {}", used.method));
    }
}
