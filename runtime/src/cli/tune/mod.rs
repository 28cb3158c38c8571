//! `forkcast tune`.

mod args;
mod table;

pub(super) use args::Args;

use super::engine::{ModelArgs, context, locate, manifest, open};
use super::samples::{self, Wanted};
use super::{Outcome, output};
use crate::exit::{Exit, Failure};
use forkcast::bench::host;
use forkcast::cost::acceptance::{Acceptance, Asking};
use forkcast::cost::choose::choose;
use forkcast::cost::measure::{Settings, measure};
use forkcast::cost::{self, CostError, FILE_NAME, Found, Measured, SCHEMA, Tune, host as machine, write};
use forkcast::decode::{Ignore, Method, decode};
use forkcast::proof::Sample;
use forkcast::text::TextModel;
use forkcast_engines::backend::Backend;
use forkcast_engines::engine::manifest_hash;
use forkcast_engines::model::Place;

/// Tokens of a prompt where there is no suite.
const PROMPT: usize = 64;
/// Longest time to fill a context, in seconds.
const MOST_FILL: f64 = 120.0;

pub(super) fn run(args: &Args) -> Outcome {
    let model = ModelArgs {
        engine: args.engine,
        bundle: args.bundle.clone(),
        ..ModelArgs::default()
    };
    let place = locate(&args.model, &model)?;
    let manifest = manifest(&place.bundle)?;
    let text = TextModel::of_bundle(&place.bundle, &manifest)?;
    let limit = context(&place, &manifest, &model);
    if args.suite.is_empty() {
        output::note("without --suite acceptance is that of random prompts, which real text may not share");
    }
    let wanted = Wanted {
        suites: &args.suite,
        count: args.samples,
        length: PROMPT,
        thinking: args.thinking,
    };
    let (suites, samples) = samples::read(&wanted, &manifest, &text, limit)?;
    let sha256 = manifest_hash(&place.bundle)?;
    let host = host();
    let mut engine = open(&place, &model)?;
    let bar = output::spinner();
    let mut tell = |line: &str| bar.set_message(line.to_owned());
    let rates = if place.engine.is_some() {
        None
    } else {
        tell("memory and arithmetic of the host");
        let threads = args.engine.threads.unwrap_or(host.cores);
        Some(machine::rates(threads).map_err(CostError::from)?)
    };
    let mut settings = Settings {
        contexts: args.contexts.clone(),
        most_rows: args.max_budget + 1,
        repeat: args.repeat,
        most_fill: MOST_FILL,
    };
    settings.contexts.sort_unstable();
    settings.contexts.dedup();
    let mut costs = measure(engine.as_mut(), &settings, &mut tell)?;
    let asking = Asking {
        samples: &samples,
        stop_ids: &manifest.stop_ids,
        max_tokens: args.max_tokens,
        budget: costs.model.rows.last().map_or(0, |r| r - 1),
    };
    let acceptance = watch(engine.as_mut(), &asking, &mut tell)?;
    costs.model.host_per_node = host_cost(&acceptance);
    let context = args
        .context
        .unwrap_or_else(|| usual(&acceptance, &samples, args.max_tokens));
    let best = choose(&costs.model, &acceptance, context);
    tell("the choice against plain");
    let measured = against_plain(engine.as_mut(), &asking, &best, args.repeat)?;
    bar.finish_and_clear();
    let tune = Tune {
        schema: SCHEMA,
        forkcast: env!("CARGO_PKG_VERSION").to_owned(),
        host,
        manifest: sha256,
        threads: args.engine.threads,
        random_prompts: args.suite.is_empty(),
        suites,
        rates,
        costs,
        acceptance,
        context,
        best,
        measured,
    };
    write(&place.dir, &tune)?;
    if args.json {
        output::json(&tune)?;
    } else {
        output::data(&table::render(&tune, &manifest))?;
        output::say(&format!("written: {}\n", place.dir.join(FILE_NAME).display()));
    }
    Ok(Exit::Done)
}

/// Acceptance of every method that the drafter allows.
fn watch(
    engine: &mut dyn Backend,
    asking: &Asking<'_>,
    tell: &mut dyn FnMut(&str),
) -> Result<Vec<Acceptance>, Failure> {
    let methods: &[Method] = match engine.shape().modes {
        0 => &[],
        1 => &[Method::Chain, Method::Ddtree],
        _ => &[Method::Chain, Method::Ddtree, Method::Mfd],
    };
    let mut found = Vec::new();
    for method in methods {
        tell(&format!("acceptance of {method}"));
        found.push(asking.watch(engine, *method)?);
    }
    Ok(found)
}

/// Seconds a node of tree, mask and walk: the most of any method.
fn host_cost(acceptance: &[Acceptance]) -> f64 {
    acceptance
        .iter()
        .filter(|a| a.method != Method::Chain.name())
        .map(|a| a.host_per_node)
        .fold(0.0, f64::max)
}

/// Mean committed rows of the rounds that were watched, or of plain decoding.
fn usual(acceptance: &[Acceptance], samples: &[Sample], max_tokens: usize) -> usize {
    match acceptance.iter().map(|a| a.context).reduce(f64::max) {
        Some(context) => context as usize,
        None => samples.iter().map(|s| s.tokens.len()).sum::<usize>() / samples.len().max(1) + max_tokens / 2,
    }
}

/// Tokens per second of the choice and of plain, over all samples: medians of interleaved repeats.
fn against_plain(
    engine: &mut dyn Backend,
    asking: &Asking<'_>,
    best: &[forkcast::cost::choose::Choice],
    repeat: usize,
) -> Result<Measured, Failure> {
    let choice = best
        .first()
        .map_or((Method::Plain, 0), |c| (c.method(), c.budget));
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..repeat.max(1) {
        for (rates, (method, budget)) in rates.iter_mut().zip([choice, (Method::Plain, 0)]) {
            let (mut tokens, mut seconds) = (0.0, 0.0);
            for sample in asking.samples {
                let request = asking.request(method, budget);
                let report = decode(engine, &sample.tokens, &request, &mut Ignore)?;
                tokens += report.token_ids.len().saturating_sub(1) as f64;
                seconds += report.decode_time.as_secs_f64();
            }
            rates.push(if seconds > 0.0 { tokens / seconds } else { 0.0 });
        }
    }
    let mut middle = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    if choice.0 == Method::Plain {
        middle[0] = middle[1];
    }
    Ok(Measured {
        choice: middle[0],
        plain: middle[1],
    })
}

/// What a tuning beside the model says, for this host; a note where there is one that cannot be used.
pub(super) fn beside(place: &Place, args: &ModelArgs) -> Option<Tune> {
    match cost::beside(place, args.drafter.is_some(), args.engine.threads) {
        Found::Tune(tune) => Some(*tune),
        Found::Nothing => None,
        Found::Unfit(reason) => {
            output::note(&format!(
                "tune.json is not used: it {reason}; measure again: forkcast tune"
            ));
            None
        }
    }
}

impl From<CostError> for Failure {
    fn from(error: CostError) -> Self {
        match error {
            CostError::Backend(error) => error.into(),
            CostError::Decode(error) => error.into(),
            CostError::Library(error) => {
                let (exit, hint) = (Exit::of(error.exit_code()), error.hint());
                Self::with(exit, error, hint)
            }
            CostError::Context(_) => Self::new(
                Exit::Input,
                error,
                "raise --max-context, or name smaller --contexts and a smaller --max-budget",
            ),
            CostError::Write { .. } => {
                Self::new(Exit::Running, error, "make the folder of the model writable")
            }
        }
    }
}
