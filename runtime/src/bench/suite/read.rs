//! Reading suite files: JSON lines, or one JSON array.

use super::super::BenchError;
use super::{Format, Prompt, Suite};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Largest suite file that is read, in bytes.
const MAX_BYTES: u64 = 256 << 20;
/// Fields that name a prompt, in the published sets too.
const NAMES: [&str; 6] = [
    "id",
    "task_id",
    "unique_id",
    "question_id",
    "prompt_id",
    "problem_idx",
];

/// Reads a suite. The format of the first line is that of all.
///
/// # Errors
/// The file is unreadable, too large or empty, or a line is not of the format.
pub fn read(path: &Path) -> Result<Suite, BenchError> {
    let bad = |line: usize, reason: String| BenchError::Suite {
        path: path.to_owned(),
        line,
        reason,
    };
    let bytes = bounded(path).map_err(|reason| bad(0, reason))?;
    let lines = split(&bytes).map_err(|(line, reason)| bad(line, reason))?;
    let Some((number, first)) = lines.first() else {
        return Err(bad(0, "there is no prompt in it".to_owned()));
    };
    let format = Format::of(first).ok_or_else(|| {
        let fields: Vec<&str> = first.keys().map(String::as_str).collect();
        bad(
            *number,
            format!("no known format has the fields {}", fields.join(", ")),
        )
    })?;
    let prompt = |(number, line): &(usize, Map<String, Value>)| {
        let ask = format.ask(line).map_err(|reason| bad(*number, reason))?;
        Ok(Prompt {
            id: name(line).unwrap_or_else(|| number.to_string()),
            ask,
        })
    };
    let prompts: Result<Vec<Prompt>, BenchError> = lines.iter().map(prompt).collect();
    let digest = Sha256::digest(&bytes);
    Ok(Suite {
        name: path
            .file_stem()
            .map_or_else(String::new, |s| s.to_string_lossy().into_owned()),
        path: path.to_owned(),
        sha256: digest.iter().map(|b| format!("{b:02x}")).collect(),
        prompts: prompts?,
    })
}

fn bounded(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|f| f.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|e| e.to_string())?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("more than the {MAX_BYTES} bytes that are read"));
    }
    Ok(bytes)
}

type Lines = Vec<(usize, Map<String, Value>)>;

/// Objects with their line (or place in the array) from 1.
fn split(bytes: &[u8]) -> Result<Lines, (usize, String)> {
    let text = std::str::from_utf8(bytes).map_err(|e| (0, format!("not UTF-8: {e}")))?;
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with('[') {
        let values: Vec<Value> =
            serde_json::from_str(text).map_err(|e| (e.line(), format!("not valid JSON: {e}")))?;
        return values.into_iter().zip(1..).map(|(v, i)| object(v, i)).collect();
    }
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    lines
        .map(|(line, number)| {
            let value = serde_json::from_str(line).map_err(|e| (number, format!("not valid JSON: {e}")))?;
            object(value, number)
        })
        .collect()
}

fn object(value: Value, number: usize) -> Result<(usize, Map<String, Value>), (usize, String)> {
    match value {
        Value::Object(fields) => Ok((number, fields)),
        _ => Err((number, "not a JSON object".to_owned())),
    }
}

fn name(line: &Map<String, Value>) -> Option<String> {
    let found = NAMES.into_iter().find_map(|n| line.get(n));
    match found? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
