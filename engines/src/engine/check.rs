//! `forkcast verify`: is an engine directory whole, and does it fit a host? No GPU and no TensorRT is needed to ask.

use super::{BundleRef, Engine, Model, PLUGIN_ABI, WeightMode};
use crate::bundle::Bundle;
use crate::host::{Driver, Found};
use crate::manifest;
use crate::recipe::{Flavour, ModelSize, Precision, Recipe, plan_round};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What a check says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// As it should be.
    Ok,
    /// Could not be asked here, and does not matter for the question.
    Skipped,
    /// Does not fit the host (exit code 3).
    Misfit,
    /// Not what was built (exit code 1).
    Corrupt,
}

/// One check and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was checked.
    pub what: String,
    /// What came out.
    pub outcome: Outcome,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub found: String,
    /// What to do, unless it is ok.
    pub hint: Option<String>,
}

/// What an engine is checked against.
#[derive(Clone, Debug)]
pub enum Against<'a> {
    /// This host: its driver, and the library of the engine's flavour, if found.
    Host {
        /// Driver and GPUs.
        driver: &'a Driver,
        /// TensorRT in the engine's flavour.
        library: Option<&'a Found>,
        /// The plugin library.
        plugins: Option<&'a Found>,
    },
    /// The GPU of a recipe, somewhere else.
    Recipe(&'a Recipe),
}

/// Checks the engine directory `dir`, described by `engine`. `bundle` overrides the bundle that it names.
#[must_use]
pub fn verify(dir: &Path, engine: &Engine, bundle: Option<&Path>, against: &Against<'_>) -> Vec<Check> {
    let mut checks = Vec::new();
    for plan in engine.plans.values() {
        checks.push(plan_file(
            &dir.join(&plan.plan),
            &plan.plan,
            plan.bytes,
            &plan.sha256,
        ));
    }
    let place = bundle.map_or_else(|| dir.join(&engine.bundle.path), Path::to_path_buf);
    checks.push(bundle_fits(engine, &place));
    match against {
        Against::Host {
            driver,
            library,
            plugins,
        } => {
            checks.push(gpu_of_host(engine, driver));
            checks.push(driver_of_host(engine, driver));
            checks.push(library_of_host(engine, *library));
            if engine.requires.plugin_abi.is_some() {
                checks.push(plugins_of_host(*plugins));
            }
        }
        Against::Recipe(recipe) => {
            checks.push(gpu_of_recipe(engine, recipe));
            checks.push(version_of_build(engine));
            checks.push(memory(engine, &place, recipe));
        }
    }
    if let Some(abi) = engine.requires.plugin_abi {
        checks.push(compare(
            "plugin ABI",
            Outcome::Misfit,
            &PLUGIN_ABI.to_string(),
            &abi.to_string(),
            "build the engine again with this version of forkcast",
        ));
    }
    checks.push(limits(engine));
    checks
}

fn compare(what: &str, otherwise: Outcome, expected: &str, found: &str, hint: &str) -> Check {
    let same = expected == found;
    Check {
        what: what.to_owned(),
        outcome: if same { Outcome::Ok } else { otherwise },
        expected: expected.to_owned(),
        found: found.to_owned(),
        hint: (!same).then(|| hint.to_owned()),
    }
}

fn plan_file(path: &Path, name: &str, bytes: u64, sha256: &str) -> Check {
    let hint =
        "copy the engine directory again, or build it again: forkcast build BUNDLE --recipe NAME --out DIR";
    let size = match std::fs::metadata(path) {
        Ok(meta) => meta.len(),
        Err(error) => return compare(name, Outcome::Corrupt, sha256, &error.to_string(), hint),
    };
    if size != bytes {
        let (expected, found) = (format!("{bytes} bytes"), format!("{size} bytes"));
        return compare(name, Outcome::Corrupt, &expected, &found, hint);
    }
    match hash_file(path) {
        Ok(found) => compare(name, Outcome::Corrupt, sha256, &found, hint),
        Err(error) => compare(name, Outcome::Corrupt, sha256, &error.to_string(), hint),
    }
}

/// SHA-256 of a file, hexadecimal.
fn hash_file(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            return Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect());
        }
        hash.update(&buffer[..n]);
    }
}

/// Whether the bundle at `place` can run on the engine.
fn bundle_fits(engine: &Engine, place: &Path) -> Check {
    let hint = "name the bundle with --bundle DIR, or build the engine again from it";
    let check = |expected: &str, found: &str| compare("bundle", Outcome::Misfit, expected, found, hint);
    let bundle = match Bundle::open(place) {
        Ok(bundle) => bundle,
        Err(error) => return check("a bundle of the engine's shape", &error.to_string()),
    };
    if let Err(difference) = same_bundle(engine, &bundle) {
        return check("a bundle of the engine's shape", &difference);
    }
    let place = place.display().to_string();
    check(&place, &place)
}

/// Whether `bundle` has the shapes of the engine and, where weights are embedded, is the very bundle.
pub(crate) fn same_bundle(engine: &Engine, bundle: &Bundle) -> Result<(), String> {
    let model = Model::of(&bundle.manifest);
    if let Some(difference) = difference(&engine.model, &model) {
        return Err(difference);
    }
    if engine.weights == WeightMode::Embedded {
        let found = manifest_hash(&bundle.dir).map_err(|e| e.to_string())?;
        if found != engine.bundle.manifest_sha256 {
            return Err(format!(
                "manifest.json has SHA-256 {found}, but the weights of {} are inside the plans",
                engine.bundle.manifest_sha256
            ));
        }
    }
    let found = super::essence::fingerprints(bundle).map_err(|e| e.to_string())?;
    if let Some((graph, _)) = engine
        .graphs
        .iter()
        .find(|(graph, hash)| found.get(*graph) != Some(hash))
    {
        return Err(format!(
            "graph {graph:?} computes something else than the one that the engine was built from (rotary base, window, \
             scale or epsilon, or another version of forkcast exported it)"
        ));
    }
    for (stage, plan) in &engine.plans {
        for weight in &plan.weights {
            super::pieces(bundle, stage, weight, &plan.weights)?;
        }
    }
    Ok(())
}

/// The first field in which two models differ; how long the context may be is no matter of shape.
fn difference(expected: &Model, found: &Model) -> Option<String> {
    let value = |model: &Model| {
        let model = Model {
            max_context: 0,
            ..model.clone()
        };
        serde_json::to_value(model).unwrap_or_default()
    };
    first_difference("", &value(expected), &value(found))
}

fn first_difference(field: &str, expected: &Value, found: &Value) -> Option<String> {
    let inside = |name: &str| match field {
        "" => name.to_owned(),
        _ => format!("{field}.{name}"),
    };
    match (expected, found) {
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() => a
            .iter()
            .find_map(|(name, a)| first_difference(&inside(name), a, b.get(name).unwrap_or(&Value::Null))),
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a
            .iter()
            .zip(b)
            .enumerate()
            .find_map(|(i, (a, b))| first_difference(&format!("{field}[{i}]"), a, b)),
        (Value::Array(a), Value::Array(b)) if field == "target.layers" => Some(format!(
            "{field} has {} entries, the engine was built for {}",
            b.len(),
            a.len()
        )),
        (a, b) if a == b => None,
        (a, b) => Some(format!("{field} is {b}, the engine was built for {a}")),
    }
}

/// SHA-256 of the manifest of the bundle in `dir`.
pub fn manifest_hash(dir: &Path) -> std::io::Result<String> {
    hash_file(&dir.join(manifest::FILE_NAME))
}

fn sm_name(sm: u32) -> String {
    format!("SM {}.{}", sm / 10, sm % 10)
}

fn gpu_of_host(engine: &Engine, driver: &Driver) -> Check {
    let expected = sm_name(engine.requires.sm);
    let hint = format!(
        "build for the GPU of this host (forkcast build BUNDLE --recipe NAME), or check against another one with --gpu NAME; this engine was built for {}",
        engine.recipe.gpu
    );
    if driver.gpus.is_empty() {
        let found = driver.problem.clone().unwrap_or_else(|| "no GPU".to_owned());
        return compare("GPU", Outcome::Misfit, &expected, &found, &hint);
    }
    let fitting = driver.gpus.iter().find(|g| g.sm == engine.requires.sm);
    let found = fitting.or(driver.gpus.first()).map_or(0, |g| g.sm);
    compare("GPU", Outcome::Misfit, &expected, &sm_name(found), &hint)
}

fn driver_of_host(engine: &Engine, driver: &Driver) -> Check {
    let version = |cuda: u32| format!("CUDA {}.{}", cuda / 1000, cuda % 1000 / 10);
    let needed = engine.requires.driver_cuda;
    let expected = format!("{} or later", version(needed));
    match driver.cuda {
        Some(cuda) if cuda >= needed => compare("driver", Outcome::Ok, &expected, &expected, ""),
        Some(cuda) => compare(
            "driver",
            Outcome::Misfit,
            &expected,
            &version(cuda),
            "install a newer driver of the GPU's vendor",
        ),
        None => compare(
            "driver",
            Outcome::Misfit,
            &expected,
            "none",
            "install the driver of the GPU's vendor, or check against a GPU elsewhere with --gpu NAME",
        ),
    }
}

fn library_name(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::TensorrtRtx => "TensorRT-RTX",
        Flavour::Tensorrt => "TensorRT",
    }
}

fn library_of_host(engine: &Engine, library: Option<&Found>) -> Check {
    let name = library_name(engine.requires.flavour);
    let expected = &engine.requires.tensorrt;
    let found = match library {
        None => "not found".to_owned(),
        Some(found) => match (&found.problem, &found.version) {
            (Some(problem), _) => format!("{}: {problem}", found.path.display()),
            (None, Some(version)) => version.clone(),
            (None, None) => format!("{} does not say its version", found.path.display()),
        },
    };
    let hint = format!(
        "install {name} {expected} (`make tensorrt` fetches TensorRT-RTX), or build the engine again"
    );
    compare(name, Outcome::Misfit, expected, &found, &hint)
}

fn plugins_of_host(plugins: Option<&Found>) -> Check {
    let hint =
        "build it with `make -C plugins/cuda plugin` and set FORKCAST_PLUGINS to libforkcast_plugins.so";
    let problem = match plugins {
        None => Some("not found".to_owned()),
        Some(found) => crate::host::plugin_problem(found),
    };
    let expected = format!("ABI {PLUGIN_ABI}");
    let found = problem.unwrap_or_else(|| expected.clone());
    compare("plugin library", Outcome::Misfit, &expected, &found, hint)
}

fn gpu_of_recipe(engine: &Engine, recipe: &Recipe) -> Check {
    let describe = |sm: u32, flavour: Flavour| format!("{} with {}", sm_name(sm), library_name(flavour));
    compare(
        "GPU",
        Outcome::Misfit,
        &describe(engine.requires.sm, engine.requires.flavour),
        &describe(recipe.sm, recipe.flavour),
        &format!("build for it: forkcast build BUNDLE --recipe {}", recipe.name),
    )
}

/// The version that this build of forkcast loads, against the one that the plans need.
fn version_of_build(engine: &Engine) -> Check {
    let name = library_name(engine.requires.flavour);
    let expected = crate::build::library_version(engine.requires.flavour);
    compare(
        name,
        Outcome::Misfit,
        expected,
        &engine.requires.tensorrt,
        "build the engine again with this version of forkcast",
    )
}

fn memory(engine: &Engine, place: &Path, recipe: &Recipe) -> Check {
    let Ok(manifest) = manifest::read(place) else {
        return Check {
            what: "memory".to_owned(),
            outcome: Outcome::Skipped,
            expected: format!("{} GiB", recipe.hardware.memory_gib),
            found: "unknown without the bundle".to_owned(),
            hint: None,
        };
    };
    let bytes = if engine.recipe.precision == Precision::F32 {
        4.0
    } else {
        2.0
    };
    let size = ModelSize::of(&manifest, bytes);
    let round = plan_round(
        &size,
        &recipe.hardware,
        engine.limits.rows.saturating_sub(1),
        engine.limits.context,
    );
    let needed = round.weight_bytes + round.cache_bytes + round.state_bytes + round.stash_bytes;
    let gib = needed / f64::from(1 << 30);
    let fits = gib <= f64::from(recipe.hardware.memory_gib);
    Check {
        what: "memory".to_owned(),
        outcome: if fits { Outcome::Ok } else { Outcome::Misfit },
        expected: format!("at most {} GiB", recipe.hardware.memory_gib),
        found: format!("{gib:.2} GiB at {} tokens", engine.limits.context),
        hint: (!fits).then(|| "build with smaller context buckets".to_owned()),
    }
}

/// The limits that the description states are those of its plans.
fn limits(engine: &Engine) -> Check {
    let largest = |stage: &str, symbol: &str| -> usize {
        let plan = engine.plans.get(stage);
        let sizes = plan
            .iter()
            .flat_map(|p| &p.profiles)
            .filter_map(|s| s.get(symbol));
        sizes.map(|[_, _, max]| *max).max().unwrap_or(0)
    };
    let describe = |rows: usize, context: usize, prefill: usize| {
        format!("{rows} rows, {context} tokens, {prefill} rows of prefill")
    };
    let l = engine.limits;
    let context = largest("target", "C").max(if engine.model.drafter.is_some() {
        largest("draft", "C")
    } else {
        0
    });
    // A target without attention layers has no cache to limit it.
    let context = if context == 0 { l.context } else { context };
    compare(
        "limits",
        Outcome::Corrupt,
        &describe(l.rows, l.context, l.prefill_rows),
        &describe(largest("target", "N"), context, largest("prefill", "N")),
        "build the engine again",
    )
}

/// Where the bundle of an engine is.
#[must_use]
pub fn bundle_path(dir: &Path, bundle: &BundleRef) -> PathBuf {
    dir.join(&bundle.path)
}
