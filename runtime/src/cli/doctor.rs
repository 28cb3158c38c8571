//! `forkcast doctor`: what this host has, and which engines run on it.

use super::{Outcome, output};
use crate::exit::{Exit, Failure};
use clap::builder::BoolishValueParser;
use forkcast_engines::engine::{self as directory, Against, Check, Outcome as Said};
use forkcast_engines::host::{self, Driver, Found, Role};
use forkcast_engines::recipe::Flavour;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
Exit code 3 when engine directories were named (or lie in the current folder) and none fits this host.

Examples:
  forkcast doctor
  forkcast doctor /srv/engines/* --json";

/// Flags of `forkcast doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// Engine directories; those in the current folder without.
    engines: Vec<PathBuf>,
    /// Print one JSON object.
    #[arg(long, env = "FORKCAST_JSON", value_parser = BoolishValueParser::new(), help_heading = "Output")]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    forkcast: &'static str,
    /// What this binary was built with.
    features: Vec<&'static str>,
    driver: Driver,
    libraries: Vec<Entry>,
    engines: Vec<Fit>,
}

#[derive(Serialize)]
struct Entry {
    role: Role,
    needed_for: &'static str,
    found: Option<Found>,
}

#[derive(Serialize)]
struct Fit {
    path: PathBuf,
    fits: bool,
    problems: Vec<String>,
}

pub(super) fn run(args: &Args) -> Outcome {
    let engines = if args.engines.is_empty() {
        in_current_folder()
    } else {
        args.engines.clone()
    };
    if let Some(other) = args
        .engines
        .iter()
        .find(|e| !e.join(directory::FILE_NAME).is_file())
    {
        return Err(Failure::input(
            format!(
                "{}: not an engine directory (no {})",
                other.display(),
                directory::FILE_NAME
            ),
            "build one: forkcast build BUNDLE --recipe NAME --out DIR",
        ));
    }
    let driver = host::driver();
    let libraries: Vec<Entry> = host::libraries()
        .into_iter()
        .map(|l| Entry {
            role: l.role,
            needed_for: purpose(l.role),
            found: host::find(l.role),
        })
        .collect();
    let engines: Vec<Fit> = engines.into_iter().map(|e| fit(e, &driver, &libraries)).collect();
    let fits = engines.is_empty() || engines.iter().any(|e| e.fits);
    let report = Report {
        forkcast: env!("CARGO_PKG_VERSION"),
        features: features(),
        driver,
        libraries,
        engines,
    };
    if args.json {
        output::json(&report)?;
    } else {
        output::data(&describe(&report))?;
    }
    Ok(if fits { Exit::Done } else { Exit::Host })
}

fn features() -> Vec<&'static str> {
    let mut list = Vec::new();
    if cfg!(feature = "tensorrt") {
        list.push("tensorrt");
    }
    if cfg!(feature = "tensorrt-enterprise") {
        list.push("tensorrt-enterprise");
    }
    list
}

fn purpose(role: Role) -> &'static str {
    match role {
        Role::Onnxruntime => "bundles on the CPU",
        Role::TensorrtRtx => "engines for RTX GPUs",
        Role::TensorrtRtxParser => "building engines for RTX GPUs",
        Role::Tensorrt => "engines for data-centre GPUs",
        Role::Plugins => "engines for data-centre GPUs",
    }
}

fn in_current_folder() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(".").into_iter().flatten().flatten();
    let mut list: Vec<PathBuf> = entries
        .map(|e| PathBuf::from(e.file_name()))
        .filter(|p| p.join(directory::FILE_NAME).is_file())
        .collect();
    list.sort();
    list
}

fn fit(path: PathBuf, driver: &Driver, libraries: &[Entry]) -> Fit {
    let found = |role: Role| {
        libraries
            .iter()
            .find(|e| e.role == role)
            .and_then(|e| e.found.as_ref())
    };
    let problems = match directory::read(&path) {
        Err(error) => vec![error.to_string()],
        Ok(engine) => {
            let role = match engine.requires.flavour {
                Flavour::TensorrtRtx => Role::TensorrtRtx,
                Flavour::Tensorrt => Role::Tensorrt,
            };
            let against = Against::Host {
                driver,
                library: found(role),
                plugins: found(Role::Plugins),
            };
            let checks = directory::verify(&path, &engine, None, &against);
            let bad = checks.iter().filter(|c| c.outcome > Said::Skipped);
            bad.map(problem).collect()
        }
    };
    Fit {
        fits: problems.is_empty(),
        path,
        problems,
    }
}

fn problem(check: &Check) -> String {
    format!(
        "{}: expected {}, found {}",
        check.what, check.expected, check.found
    )
}

fn describe(report: &Report) -> String {
    let mut out = format!("forkcast {}\n", report.forkcast);
    let features = if report.features.is_empty() {
        "none (CPU only)".to_owned()
    } else {
        report.features.join(", ")
    };
    let _ = writeln!(out, "  features   {features}");
    match report.driver.cuda {
        Some(cuda) => {
            let _ = writeln!(out, "  driver     CUDA {}.{}", cuda / 1000, cuda % 1000 / 10);
        }
        None => {
            let _ = writeln!(out, "  driver     none");
        }
    }
    for gpu in &report.driver.gpus {
        let (major, minor) = (gpu.sm / 10, gpu.sm % 10);
        let _ = writeln!(
            out,
            "  GPU        {} (SM {major}.{minor}, {})",
            gpu.name,
            output::size(gpu.memory)
        );
    }
    if let Some(problem) = &report.driver.problem {
        let _ = writeln!(out, "             {problem}");
    }
    for entry in &report.libraries {
        let name = format!("{:?}", entry.role).to_lowercase();
        let text = match &entry.found {
            None => "not found".to_owned(),
            Some(found) => {
                let version = found
                    .version
                    .as_deref()
                    .map_or(String::new(), |v| format!(" {v}"));
                let problem = found
                    .problem
                    .as_deref()
                    .map_or(String::new(), |p| format!(": {p}"));
                format!("{}{version}{problem}", found.path.display())
            }
        };
        let _ = writeln!(out, "  library    {name} ({}): {text}", entry.needed_for);
    }
    for engine in &report.engines {
        let verdict = if engine.fits { "fits" } else { "does not fit" };
        let _ = writeln!(out, "  engine     {}: {verdict}", engine.path.display());
        for problem in &engine.problems {
            let _ = writeln!(out, "             {problem}");
        }
    }
    if report.engines.is_empty() {
        let _ = writeln!(out, "  engine     no engine directory named or in this folder");
    }
    out
}
