//! Which tokens are frequent: what drafting may be confined to.

use super::BenchError;
use super::suite::{Ask, Suite, read};
use crate::text::{TextError, TextModel};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Largest text that is read, in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// The `n` most frequent tokens of `paths` (suites, or plain text), `always` among them, ascending. Of equally frequent
/// tokens, and where the texts have fewer, the ones with smaller ids.
///
/// # Errors
/// A file is unreadable, or there is no tokenizer for its text.
pub fn frequent(
    text: &TextModel,
    paths: &[PathBuf],
    n: usize,
    always: &[u32],
    vocab: usize,
) -> Result<Vec<u32>, BenchError> {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for path in paths {
        for id in tokens(text, path)? {
            *counts.entry(id).or_default() += 1;
        }
    }
    counts.extend(always.iter().map(|id| (*id, u64::MAX)));
    let inside = |id: &u32| (*id as usize) < vocab;
    let mut ranked: Vec<u32> = (0..vocab as u32).collect();
    ranked.sort_by_key(|id| (Reverse(counts.get(id).copied().unwrap_or(0)), *id));
    let mut ids: Vec<u32> = ranked.into_iter().filter(inside).take(n).collect();
    ids.sort_unstable();
    Ok(ids)
}

/// All tokens of a file.
fn tokens(text: &TextModel, path: &Path) -> Result<Vec<u32>, BenchError> {
    if let Ok(suite) = read(path) {
        return of_suite(text, &suite);
    }
    let bad = |reason: String| BenchError::Suite {
        path: path.to_owned(),
        line: 0,
        reason,
    };
    let size = std::fs::metadata(path).map_err(|e| bad(e.to_string()))?.len();
    if size > MAX_BYTES {
        return Err(bad(format!("more than the {MAX_BYTES} bytes that are read")));
    }
    let plain = std::fs::read_to_string(path).map_err(|e| bad(e.to_string()))?;
    text.encode(&plain).map_err(|e| bad(e.to_string()))
}

fn of_suite(text: &TextModel, suite: &Suite) -> Result<Vec<u32>, BenchError> {
    let mut ids = Vec::new();
    for prompt in &suite.prompts {
        let failed = |source: TextError| BenchError::Prompt {
            suite: suite.name.clone(),
            prompt: prompt.id.clone(),
            source,
        };
        match &prompt.ask {
            Ask::Ids(given) => ids.extend(given),
            Ask::Text(given) => ids.extend(text.encode(given).map_err(failed)?),
            Ask::Turns(turns) => {
                let contents = turns.iter().flatten().filter_map(|m| m.get("content")?.as_str());
                for content in contents {
                    ids.extend(text.encode(content).map_err(failed)?);
                }
            }
        }
    }
    Ok(ids)
}
