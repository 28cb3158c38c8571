//! Prompts of commands that run a model on a few of them.

use super::engine::check_prompt;
use super::names::Switch;
use crate::exit::Failure;
use forkcast::bench::suite;
use forkcast::proof::Sample;
use forkcast::text::TextModel;
use forkcast_engines::manifest::Manifest;
use std::path::PathBuf;

/// Seed of prompts where there is no suite.
const SEED: u64 = 1;

/// Which prompts.
pub(super) struct Wanted<'a> {
    /// Files; seeded token ids without any.
    pub(super) suites: &'a [PathBuf],
    /// Prompts of each file.
    pub(super) count: usize,
    /// Tokens of a prompt where there is no file.
    pub(super) length: usize,
    /// Whether the chat template lets the model think first.
    pub(super) thinking: Option<Switch>,
}

/// Names of the suites, and the first turns of their prompts, which fit the model.
pub(super) fn read(
    wanted: &Wanted<'_>,
    manifest: &Manifest,
    text: &TextModel,
    context: usize,
) -> Result<(Vec<String>, Vec<Sample>), Failure> {
    let mut suites = Vec::new();
    for path in wanted.suites {
        let mut suite = suite::read(path)?;
        suite.select(Some(wanted.count), None);
        suites.push(suite);
    }
    if suites.is_empty() {
        let length = wanted.length.min(context / 2).max(1);
        suites.push(suite::random(manifest.target.vocab, wanted.count, length, SEED));
    }
    let thinking = wanted.thinking.map(|s| s == Switch::On);
    let mut samples = Vec::new();
    for suite in &suites {
        for prompt in &suite.prompts {
            let tokens = prompt.ask.tokens(0, &mut Vec::new(), text, thinking)?;
            check_prompt(&tokens, manifest, context)?;
            let id = format!("{} {}", suite.name, prompt.id);
            samples.push(Sample { id, tokens });
        }
    }
    Ok((suites.into_iter().map(|s| s.name).collect(), samples))
}
