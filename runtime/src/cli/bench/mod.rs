//! `forkcast bench` and `forkcast bench compare`.

mod args;
mod output;

pub(super) use args::Args;

use super::engine::{context, locate, manifest, open, shorten};
use super::names::Switch;
use super::{Outcome, output as terminal};
use crate::exit::{Exit, Failure};
use args::{Command, Compare};
use forkcast::bench::compare::{compare, render};
use forkcast::bench::record::{self, Record, SCHEMA, SuiteInfo};
use forkcast::bench::run::Bench;
use forkcast::bench::settings::{Settings, cells};
use forkcast::bench::suite::{self, Suite};
use forkcast::bench::summary::summarise;
use forkcast::bench::{BenchError, commit, host, markdown};
use forkcast::decode::Method;
use forkcast::text::TextModel;
use forkcast_engines::manifest::{FILE_NAME, Manifest};
use forkcast_engines::model::Place;
use sha2::{Digest, Sha256};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) fn run(args: &Args) -> Outcome {
    match (&args.command, &args.model) {
        (Some(Command::Compare(compare)), _) => run_compare(compare),
        (None, Some(model)) => run_bench(args, model),
        (None, None) => Err(Failure::input(
            "there is no model",
            "name a bundle or an engine directory",
        )),
    }
}

fn run_bench(args: &Args, model: &Path) -> Outcome {
    if let Some(out) = &args.out {
        output::check(out)?;
    }
    let place = locate(model, &args.engine)?;
    let manifest = manifest(&place.bundle)?;
    let text = TextModel::of_bundle(&place.bundle, &manifest)?;
    let suites = suites(args, &manifest, context(&place, &manifest, &args.engine))?;
    let settings = settings(args);
    let host = host();
    let began = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |t| t.as_secs());
    let mut engine = open(&place, &args.engine)?;
    shorten(engine.as_mut(), &args.engine, &text, &manifest, &args.suite)?;
    let shape = engine.shape();
    let methods: Vec<Method> = if args.methods.is_empty() {
        possible(shape.modes)
    } else {
        args.methods.iter().map(|m| Method::from(*m)).collect()
    };
    let cells = cells(&methods, &args.budgets, &args.temperatures, args.mode, &shape)?;
    let bench = Bench {
        text: &text,
        stop_ids: &manifest.stop_ids,
        cells: &cells,
        settings: &settings,
    };
    let bar = terminal::spinner();
    let responses = bench.run(engine.as_mut(), &suites, &mut |line| {
        bar.set_message(line.to_owned())
    });
    bar.finish_and_clear();
    let mut record = Record {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: commit(),
        began,
        host,
        model: described(model, &place, &manifest)?,
        synthetic: settings.synthetic_acceptance.is_some(),
        settings,
        suites: suites.iter().map(info).collect(),
        cells,
        responses: responses?,
        summary: Vec::new(),
    };
    record.summary = summarise(&record);
    if let Some(out) = &args.out {
        output::write(out, &record)?;
    }
    if args.json {
        terminal::json(&record)?;
    } else {
        terminal::data(&markdown::render(&record))?;
    }
    Ok(Exit::Done)
}

/// Every method that a drafter of `modes` modes allows.
fn possible(modes: usize) -> Vec<Method> {
    match modes {
        0 => vec![],
        1 => vec![Method::Chain, Method::Ddtree],
        _ => vec![Method::Chain, Method::Ddtree, Method::Mfd],
    }
}

fn suites(args: &Args, manifest: &Manifest, context: usize) -> Result<Vec<Suite>, Failure> {
    let mut suites = Vec::new();
    for path in &args.suite {
        let mut suite = suite::read(path)?;
        suite.select(args.samples, args.shuffle);
        if suites.iter().any(|s: &Suite| s.name == suite.name) {
            suite.name = path.display().to_string();
        }
        suites.push(suite);
    }
    if suites.is_empty() {
        let count = args.samples.unwrap_or(4);
        let length = args.prompt_tokens.unwrap_or(64);
        if length >= context {
            return Err(Failure::input(
                format!(
                    "--prompt-tokens {length}: the context holds {context} with at least one token of answer"
                ),
                "ask for fewer, or raise --max-context",
            ));
        }
        suites.push(suite::random(manifest.target.vocab, count, length, args.seed));
    } else if args.prompt_tokens.is_some() {
        terminal::note("--prompt-tokens does not act with --suite");
    }
    Ok(suites)
}

fn settings(args: &Args) -> Settings {
    Settings {
        repeat: args.repeat,
        max_tokens: args.max_tokens,
        seed: args.seed,
        thinking: args.thinking.map(|s| s == Switch::On),
        top_k: args.top_k,
        top_p: args.top_p,
        mode: args.mode,
        synthetic_acceptance: args.synthetic_acceptance,
        samples: args.samples,
        shuffle: args.shuffle,
        draft_vocab: args.engine.draft_vocab,
    }
}

fn info(suite: &Suite) -> SuiteInfo {
    SuiteInfo {
        name: suite.name.clone(),
        sha256: suite.sha256.clone(),
        prompts: suite.prompts.len(),
    }
}

fn described(model: &Path, place: &Place, manifest: &Manifest) -> Result<record::Model, Failure> {
    let bytes = std::fs::read(place.bundle.join(FILE_NAME))?;
    let digest = Sha256::digest(bytes);
    Ok(record::Model {
        path: model.display().to_string(),
        engine: if place.engine.is_some() { "gpu" } else { "cpu" }.to_owned(),
        dtype: manifest.dtype.name().to_owned(),
        manifest: digest.iter().map(|b| format!("{b:02x}")).collect(),
    })
}

fn run_compare(args: &Compare) -> Outcome {
    let before = record::read(&args.before)?;
    let after = record::read(&args.after)?;
    let comparison = compare(&before, &after, args.tolerance / 100.0)?;
    if args.json {
        terminal::json(&comparison)?;
    } else {
        terminal::data(&render(&comparison))?;
    }
    Ok(if args.gate && !comparison.passes() {
        Exit::No
    } else {
        Exit::Done
    })
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        let exit = if error.is_input() {
            Exit::Input
        } else {
            Exit::Running
        };
        let hint = error.hint();
        Self::with(exit, error, hint)
    }
}
