//! `forkcast verify`: is an engine directory (or a bundle) whole, and does it fit?

mod args;
mod deep;
mod tables;

pub(super) use args::Args;

use super::{Outcome, engine, output};
use crate::exit::{Exit, Failure};
use forkcast_engines::bundle::{Bundle, Deep, verify_deep};
use forkcast_engines::engine::{self as directory, Against, Check, EngineError, Outcome as Said};
use forkcast_engines::host::{self, Role};
use forkcast_engines::recipe::{Flavour, Recipe};
use serde::Serialize;
use std::path::Path;
use tables::checks as table;

#[derive(Serialize)]
struct Report<'a> {
    model: &'a Path,
    against: String,
    ok: bool,
    checks: &'a [Check],
    #[serde(skip_serializing_if = "Option::is_none")]
    proof: Option<&'a deep::Found>,
}

pub(super) fn run(args: &Args) -> Outcome {
    if !args.deep && (!args.suite.is_empty() || args.near_tie.is_some()) {
        output::note("--suite and --near-tie act with --deep only");
    }
    if !args.model.join(directory::FILE_NAME).is_file() {
        return bundle(args);
    }
    let engine = directory::read(&args.model)?;
    let recipe = args.gpu.as_deref().map(Recipe::load).transpose()?;
    let (against, checks) = match &recipe {
        Some(recipe) => {
            let checks = directory::verify(
                &args.model,
                &engine,
                args.bundle.as_deref(),
                &Against::Recipe(recipe),
            );
            (recipe.gpu.clone(), checks)
        }
        None => ("this host".to_owned(), on_host(args, &engine)),
    };
    let mut worst = checks.iter().map(|c| c.outcome).max().unwrap_or(Said::Ok);
    let proof = (args.deep && worst <= Said::Skipped)
        .then(|| deep::prove(args))
        .transpose()?;
    if proof.as_ref().is_some_and(|p| !p.holds()) {
        worst = Said::Corrupt;
    }
    if args.json {
        output::json(&Report {
            model: &args.model,
            against,
            ok: worst <= Said::Skipped,
            checks: &checks,
            proof: proof.as_ref(),
        })?;
    } else {
        output::data(&format!(
            "{} against {against}\n{}\n",
            args.model.display(),
            table(&checks)
        ))?;
        if let Some(proof) = &proof {
            output::data(&tables::proof(proof))?;
        }
        for check in checks.iter().filter(|c| c.outcome > Said::Skipped) {
            let hint = check
                .hint
                .as_deref()
                .map_or(String::new(), |h| format!("\nhint: {h}"));
            output::say(&format!(
                "error: {}: expected {}, found {}{hint}\n",
                check.what, check.expected, check.found
            ));
        }
    }
    Ok(match worst {
        Said::Ok | Said::Skipped => Exit::Done,
        Said::Misfit => Exit::Host,
        Said::Corrupt => Exit::No,
    })
}

fn on_host(args: &Args, engine: &directory::Engine) -> Vec<Check> {
    let role = match engine.requires.flavour {
        Flavour::TensorrtRtx => Role::TensorrtRtx,
        Flavour::Tensorrt => Role::Tensorrt,
    };
    let (driver, library) = (host::driver(), host::find(role));
    let plugins = engine.requires.plugin_abi.and_then(|_| host::find(Role::Plugins));
    let against = Against::Host {
        driver: &driver,
        library: library.as_ref(),
        plugins: plugins.as_ref(),
    };
    directory::verify(&args.model, engine, args.bundle.as_deref(), &against)
}

/// A bundle is whole when it opens.
fn bundle(args: &Args) -> Outcome {
    if args.gpu.is_some() || args.bundle.is_some() {
        return Err(Failure::input(
            format!(
                "{}: --gpu and --bundle are for engine directories",
                args.model.display()
            ),
            "build one: forkcast build BUNDLE --recipe NAME --out DIR",
        ));
    }
    engine::manifest(&args.model)?;
    let opened = Bundle::open(&args.model);
    let read = opened.and_then(|b| {
        if args.deep {
            verify_deep(&b).map(Some)
        } else {
            Ok(None)
        }
    });
    let (deep, problem) = match read {
        Ok(deep) => (deep, None),
        Err(problem) => (None, Some(problem)),
    };
    let found = deep.map_or_else(|| "as exported".to_owned(), describe);
    let check = Check {
        what: "files of the bundle".to_owned(),
        outcome: if problem.is_none() {
            Said::Ok
        } else {
            Said::Corrupt
        },
        expected: "as exported".to_owned(),
        found: problem.as_ref().map_or(found, ToString::to_string),
        hint: problem.as_ref().and_then(|p| p.hint()),
    };
    let proof = (args.deep && problem.is_none())
        .then(|| deep::prove(args))
        .transpose()?;
    let ok = problem.is_none() && proof.as_ref().is_none_or(deep::Found::holds);
    if args.json {
        output::json(&Report {
            model: &args.model,
            against: "its manifest".to_owned(),
            ok,
            checks: std::slice::from_ref(&check),
            proof: proof.as_ref(),
        })?;
    } else {
        output::data(&format!(
            "{}\n{}\n",
            args.model.display(),
            table(std::slice::from_ref(&check))
        ))?;
        if let Some(problem) = problem {
            output::say(&format!(
                "error: {problem}\nhint: {}\n",
                check.hint.unwrap_or_default()
            ));
            return Ok(Exit::No);
        }
        if let Some(proof) = &proof {
            output::data(&tables::proof(proof))?;
        }
    }
    Ok(if ok { Exit::Done } else { Exit::No })
}

/// What a deep check can say: of weights that the export did not hash, only size and header are known.
fn describe(deep: Deep) -> String {
    let rest = match deep.headers_only {
        0 => String::new(),
        n => format!("; {n} checkpoint files by size and header only (export --hash-weights)"),
    };
    format!("{} files, {} bytes{rest}", deep.files, deep.bytes)
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let hint = match &error {
            EngineError::Schema { .. } => None,
            _ => Some("build the engine again: forkcast build BUNDLE --recipe NAME --out DIR".to_owned()),
        };
        Self::with(Exit::Input, error, hint)
    }
}
