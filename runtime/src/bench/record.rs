//! What a bench keeps: `bench.json`, with every raw sample.

use super::settings::{Cell, Settings};
use super::summary::Row;
use super::{BenchError, Host};
use crate::decode::StageSeconds;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Layout of the file; other numbers are refused.
pub const SCHEMA: u32 = 1;
/// Largest record that is read, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// A whole bench.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of forkcast.
    pub version: String,
    /// Commit that the program was built from.
    pub commit: String,
    /// When it began, seconds since 1970.
    pub began: u64,
    /// The machine.
    pub host: Host,
    /// The model.
    pub model: Model,
    /// How it ran.
    pub settings: Settings,
    /// Whether texts mean anything: not with synthetic acceptance.
    pub synthetic: bool,
    /// Suites.
    pub suites: Vec<SuiteInfo>,
    /// Cells.
    pub cells: Vec<Cell>,
    /// One entry for every suite, prompt, turn and cell.
    pub responses: Vec<Response>,
    /// What the tables show.
    pub summary: Vec<Row>,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// As named on the command line.
    pub path: String,
    /// Description of the engine: `cpu` or what was built.
    pub engine: String,
    /// Number type of the bundle.
    pub dtype: String,
    /// SHA-256 of the manifest, hexadecimal.
    pub manifest: String,
}

/// A suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuiteInfo {
    /// Name.
    pub name: String,
    /// SHA-256 of the file.
    pub sha256: String,
    /// Prompts that were asked.
    pub prompts: usize,
}

/// One answer of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// Place in [`Record::suites`].
    pub suite: usize,
    /// Identifier of the prompt.
    pub prompt: String,
    /// Turn, from 0.
    pub turn: usize,
    /// Place in [`Record::cells`].
    pub cell: usize,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens of the answer, the stop token included.
    pub tokens: usize,
    /// Accepted rows of each round.
    pub accepted: Vec<usize>,
    /// Nodes drafted in all rounds.
    pub drafted: usize,
    /// First token that differs from plain's at the same temperature and seed; absent where none does.
    pub differs_at: Option<usize>,
    /// One entry a repeat.
    pub samples: Vec<Sample>,
}

impl Response {
    /// Acceptance length: mean over rounds (`algorithms.md` 2.2); absent for an answer without rounds.
    #[must_use]
    pub fn tau(&self) -> Option<f64> {
        let rounds = self.accepted.len();
        (rounds > 0).then(|| self.accepted.iter().sum::<usize>() as f64 / rounds as f64)
    }

    /// Seconds of decoding per token in one repeat, the first token included as in `algorithms.md` 2.2.
    #[must_use]
    pub fn per_token(&self, sample: &Sample) -> f64 {
        sample.decode / self.tokens.max(1) as f64
    }
}

/// Times of one answer, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// From the start to the first token.
    pub first_token: f64,
    /// From the first token to the end: the first draft is included.
    pub decode: f64,
    /// Stages.
    pub stages: StageSeconds,
}

/// Reads a record.
///
/// # Errors
/// The file is unreadable or no record of this layout.
pub fn read(path: &Path) -> Result<Record, BenchError> {
    let bad = |reason: String| BenchError::Record {
        path: path.to_owned(),
        reason,
    };
    let meta = std::fs::metadata(path).map_err(|e| bad(e.to_string()))?;
    if meta.len() > MAX_BYTES {
        return Err(bad(format!("more than the {MAX_BYTES} bytes that are read")));
    }
    let bytes = std::fs::read(path).map_err(|e| bad(e.to_string()))?;
    let value: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|e| bad(format!("not valid JSON: {e}")))?;
    match value.get("schema").and_then(serde_json::Value::as_u64) {
        Some(found) if found == u64::from(SCHEMA) => {}
        Some(found) => return Err(bad(format!("schema {found}, and this version reads {SCHEMA}"))),
        None => return Err(bad("no record of a bench: `schema` is missing".to_owned())),
    }
    let record: Record = serde_json::from_value(value).map_err(|e| bad(e.to_string()))?;
    let outside = |r: &&Response| {
        r.suite >= record.suites.len()
            || r.cell >= record.cells.len()
            || r.samples.is_empty()
            || r.tokens == 0
    };
    match record.responses.iter().position(|r| outside(&r)) {
        Some(place) => Err(bad(format!(
            "responses[{place}] names a suite or cell that is not there, or has no sample or token"
        ))),
        None => Ok(record),
    }
}
