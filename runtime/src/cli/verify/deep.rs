//! `--deep`: the model is run.

use super::super::engine::{ModelArgs, context, locate, manifest, open};
use super::super::output;
use super::super::samples::{self, Wanted};
use super::Args;
use crate::exit::{Exit, Failure};
use forkcast::proof::operators::{self, Operator};
use forkcast::proof::{Bounds, Proof, Settings, prove as prove_engine};
use forkcast::text::TextModel;
use forkcast_engines::manifest::Manifest;
use serde::Serialize;

/// Tokens of a prompt where there is no suite.
const PROMPT: usize = 32;
/// Seed of operator calls.
const SEED: u64 = 1;

/// What the proof found.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    /// Prompts.
    pub(super) samples: usize,
    /// Gap below which rows are listed.
    pub(super) listed: f64,
    settings: Settings,
    #[serde(flatten)]
    pub(super) proof: Proof,
    /// Empty for an engine directory.
    pub(super) operators: Vec<Operator>,
}

impl Found {
    /// Whether nothing was found against the model.
    pub(super) fn holds(&self) -> bool {
        self.proof.holds() && self.operators.iter().all(|o| o.holds)
    }
}

/// Opens the model and proves what can be.
pub(super) fn prove(args: &Args) -> Result<Found, Failure> {
    let model = ModelArgs {
        engine: args.engine,
        bundle: args.bundle.clone(),
        ..ModelArgs::default()
    };
    let place = locate(&args.model, &model)?;
    let manifest = manifest(&place.bundle)?;
    let text = TextModel::of_bundle(&place.bundle, &manifest)?;
    let context = context(&place, &manifest, &model);
    let settings = settings(args, &manifest)?;
    let wanted = Wanted {
        suites: &args.suite,
        count: args.samples,
        length: PROMPT,
        thinking: None,
    };
    let (_, samples) = samples::read(&wanted, &manifest, &text, context)?;
    let on_gpu = place.engine.is_some();
    let mut engine = open(&place, &model)?;
    let bar = output::spinner();
    let mut tell = |line: &str| bar.set_message(line.to_owned());
    let proof = prove_engine(
        engine.as_mut(),
        &samples,
        &manifest.stop_ids,
        &settings,
        !on_gpu,
        &mut tell,
    );
    let proof = proof.map_err(Failure::from)?;
    tell("operators");
    let operators = if on_gpu {
        Vec::new()
    } else {
        operators::check(&manifest, SEED).map_err(|e| Failure::with(Exit::Running, e, None))?
    };
    bar.finish_and_clear();
    Ok(Found {
        samples: samples.len(),
        listed: settings.bounds.listed,
        settings,
        proof,
        operators,
    })
}

fn settings(args: &Args, manifest: &Manifest) -> Result<Settings, Failure> {
    if args.temperature == 0.0 {
        return Err(Failure::input(
            "--temperature 0: this is compared anyway",
            "name the temperature of the answers with a seed, above 0",
        ));
    }
    let mut bounds = Bounds::of(manifest.dtype);
    if let Some(gap) = args.near_tie {
        bounds.near_tie = gap;
        bounds.listed = 10.0 * gap;
    }
    Ok(Settings {
        budgets: args.budgets.clone(),
        seeds: args.seeds.clone(),
        temperature: args.temperature,
        max_tokens: args.max_tokens,
        bounds,
    })
}
