//! `tune.json` beside a model: what was measured, and what was chosen.

use super::acceptance::Acceptance;
use super::choose::Choice;
use super::host::Rates;
use super::measure::Costs;
use super::{CostError, CostModel};
use crate::bench::{Host, host};
use crate::decode::{Adaptive, DEFAULT_BUDGET, Method, Plan};
use forkcast_engines::engine::manifest_hash;
use forkcast_engines::model::Place;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

/// Name of the file in a bundle or an engine directory.
pub const FILE_NAME: &str = forkcast_engines::model::TUNE_NAME;
/// Version of the schema that this build writes and reads.
pub const SCHEMA: u32 = 1;
/// Largest file that is read, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// Tokens per second that were measured with the choice in place: medians of interleaved repeats over all prompts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Of the choice.
    pub choice: f64,
    /// Of plain decoding.
    pub plain: f64,
}

/// The file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tune {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of forkcast that wrote it.
    pub forkcast: String,
    /// The machine.
    pub host: Host,
    /// SHA-256 of the bundle's manifest.
    pub manifest: String,
    /// Threads that were asked for; none for all cores.
    pub threads: Option<usize>,
    /// Names of the suites that acceptance was measured on.
    pub suites: Vec<String>,
    /// Whether these were random ids, whose acceptance says little about real text.
    pub random_prompts: bool,
    /// What the host allows; none for a GPU.
    pub rates: Option<Rates>,
    /// Costs of the stages.
    pub costs: Costs,
    /// Acceptance by method.
    pub acceptance: Vec<Acceptance>,
    /// Committed rows that the choice is for.
    pub context: usize,
    /// Every method at its best budget, the best first; never empty.
    pub best: Vec<Choice>,
    /// The choice and plain, measured.
    pub measured: Measured,
}

impl Tune {
    /// The chosen method and budget.
    #[must_use]
    pub fn choice(&self) -> Option<&Choice> {
        self.best.first()
    }

    /// The best budget of a method.
    #[must_use]
    pub fn budget(&self, method: Method) -> Option<usize> {
        let found = self.best.iter().find(|c| c.method == method.name());
        found.map(|c| c.budget)
    }

    /// Decisions round by round for `plan`, whose budget bounds the trees. Begins plain where plain is what was chosen.
    #[must_use]
    pub fn adaptive(&self, plan: Plan) -> Adaptive {
        let rests = self.choice().is_some_and(|c| c.method() == Method::Plain);
        Adaptive::new(Arc::new(self.costs.model.clone()), plan, rests)
    }

    /// Method and largest budget for [`Self::adaptive`] where flags may say nothing: the best method that drafts, with
    /// four times its best budget, at least 16, as far as was measured. Plain when no drafting method was measured.
    #[must_use]
    pub fn adaptive_defaults(&self, method: Option<Method>, budget: Option<usize>) -> (Method, usize) {
        let drafting = self.best.iter().map(Choice::method).find(|m| *m != Method::Plain);
        let method = method.or(drafting).unwrap_or(Method::Plain);
        let most = self.costs.model.rows.last().map_or(0, |r| r - 1);
        let best = self.budget(method).unwrap_or(DEFAULT_BUDGET);
        (method, budget.unwrap_or((4 * best).max(16).min(most)))
    }

    /// The costs, for decisions per round.
    #[must_use]
    pub fn model(&self) -> &CostModel {
        &self.costs.model
    }

    fn validate(&self) -> Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!("schema {}, this build reads {SCHEMA}", self.schema));
        }
        self.costs.model.validate()?;
        if self.best.is_empty() {
            return Err("best: empty".to_owned());
        }
        for choice in &self.best {
            choice
                .method
                .parse::<Method>()
                .map_err(|e| format!("best: {e}"))?;
            if choice.budget > crate::decode::MAX_BUDGET {
                return Err(format!("best: budget {}", choice.budget));
            }
        }
        Ok(())
    }
}

/// Method and budget where flags may say nothing: what was tuned, else the best method that a drafter of `modes` modes
/// allows with the usual budget.
#[must_use]
pub fn defaults(
    method: Option<Method>,
    budget: Option<usize>,
    modes: usize,
    tune: Option<&Tune>,
) -> (Method, usize) {
    let tuned = tune.and_then(Tune::choice).map(Choice::method);
    let method = method.or(tuned).unwrap_or_else(|| Method::best(modes));
    let tuned = tune.and_then(|t| t.budget(method));
    (method, budget.or(tuned).unwrap_or(DEFAULT_BUDGET))
}

/// What lies beside a model.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A file that is for this model and host.
    Tune(Box<Tune>),
    /// A file that cannot be used, and why.
    Unfit(String),
}

impl Found {
    /// The file, if it can be used.
    #[must_use]
    pub fn tune(&self) -> Option<&Tune> {
        match self {
            Self::Tune(tune) => Some(tune),
            _ => None,
        }
    }
}

/// Looks for the file beside a model that is run on this host. It is for the model's own drafter (`other_drafter` tells that
/// another one is used).
#[must_use]
pub fn beside(place: &Place, other_drafter: bool, threads: Option<usize>) -> Found {
    if !place.dir.join(FILE_NAME).exists() {
        return Found::Nothing;
    }
    if other_drafter {
        return Found::Unfit("is for the model's own drafter".to_owned());
    }
    match manifest_hash(&place.bundle) {
        Ok(hash) => find(&place.dir, &hash, &host(), threads),
        Err(e) => Found::Unfit(format!("cannot be compared with the bundle: {e}")),
    }
}

/// Looks for the file in `dir`. It is for the bundle whose manifest has this hash, for this host and this number of threads.
#[must_use]
pub fn find(dir: &Path, manifest: &str, host: &Host, threads: Option<usize>) -> Found {
    let path = dir.join(FILE_NAME);
    let mut bytes = Vec::new();
    match std::fs::File::open(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Found::Nothing,
        Err(e) => return Found::Unfit(format!("cannot be read: {e}")),
        Ok(file) => {
            if !file.metadata().is_ok_and(|m| m.is_file()) {
                return Found::Unfit("is no file".to_owned());
            }
            if let Err(e) = file.take(MAX_BYTES + 1).read_to_end(&mut bytes) {
                return Found::Unfit(format!("cannot be read: {e}"));
            }
        }
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Found::Unfit(format!("holds more than the {MAX_BYTES} bytes that are read"));
    }
    let tune: Tune = match serde_json::from_slice(&bytes) {
        Ok(tune) => tune,
        Err(e) => return Found::Unfit(format!("cannot be read: {e}")),
    };
    if let Err(reason) = tune.validate() {
        return Found::Unfit(format!("is damaged: {reason}"));
    }
    if tune.manifest != manifest {
        return Found::Unfit("is of another bundle".to_owned());
    }
    if (&tune.host.cpu, tune.host.cores) != (&host.cpu, host.cores) {
        let (cpu, cores) = (&tune.host.cpu, tune.host.cores);
        return Found::Unfit(format!("was measured on another machine ({cpu}, {cores} cores)"));
    }
    if tune.threads != threads {
        return Found::Unfit("was measured with another number of threads".to_owned());
    }
    Found::Tune(Box::new(tune))
}

/// Writes the file into `dir`, whole or not at all.
///
/// # Errors
/// The system refuses.
pub fn write(dir: &Path, tune: &Tune) -> Result<(), CostError> {
    let path = dir.join(FILE_NAME);
    let refused = |source| CostError::Write {
        path: path.clone(),
        source,
    };
    let mut text = serde_json::to_vec_pretty(tune).map_err(|e| refused(e.into()))?;
    text.push(b'\n');
    let temporary = dir.join(format!(".{FILE_NAME}.part"));
    let written = std::fs::File::create(&temporary)
        .and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&temporary, &path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written.map_err(refused)
}
