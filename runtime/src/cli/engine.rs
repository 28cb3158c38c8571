//! Opening a model for a command.

use super::parse::positive;
use crate::exit::{Exit, Failure};
use forkcast::decode::DecodeError;
use forkcast_engines::bundle::OpenError;
use forkcast_engines::manifest::{FILE_NAME, Manifest, read};
use forkcast_engines::ort::{OpenOptions, OrtBackend};
use std::path::Path;

/// Flags about the engine.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[command(next_help_heading = "Engine")]
pub(super) struct EngineArgs {
    /// Upper bound of prompt plus answer in tokens; the model's own without.
    #[arg(long, value_name = "N", env = "FORKCAST_MAX_CONTEXT", value_parser = positive)]
    pub(super) max_context: Option<usize>,
    /// Threads; all cores without.
    #[arg(long, value_name = "N", env = "FORKCAST_THREADS", value_parser = positive)]
    pub(super) threads: Option<usize>,
}

/// Reads the manifest of a model, so that requests can be refused before anything is loaded.
pub(super) fn manifest(model: &Path) -> Result<Manifest, Failure> {
    if !model.join(FILE_NAME).is_file() {
        // The engine says what the place is instead.
        return Err(match forkcast_engines::bundle::Bundle::open(model) {
            Err(error) => failure(error),
            Ok(_) => Failure::input(
                format!("{}: changed while it was read", model.display()),
                "try again",
            ),
        });
    }
    Ok(read(model)?)
}

/// Opens the engine of a model.
pub(super) fn open(model: &Path, args: EngineArgs) -> Result<OrtBackend, Failure> {
    let options = OpenOptions {
        threads: args.threads,
        max_context: args.max_context,
        library: None,
    };
    OrtBackend::open(model, &options).map_err(failure)
}

/// Most tokens of prompt and answer.
pub(super) fn context(manifest: &Manifest, args: EngineArgs) -> usize {
    args.max_context.unwrap_or(usize::MAX).min(manifest.max_context)
}

/// Refuses prompts that no engine of this model could answer, before one is loaded.
pub(super) fn check_prompt(prompt: &[u32], manifest: &Manifest, context: usize) -> Result<(), DecodeError> {
    if prompt.is_empty() {
        return Err(DecodeError::EmptyPrompt);
    }
    if prompt.len() >= context {
        return Err(DecodeError::PromptTooLong {
            prompt: prompt.len(),
            context,
        });
    }
    let vocab = manifest.target.vocab;
    match prompt.iter().position(|id| *id as usize >= vocab) {
        Some(place) => Err(DecodeError::TokenOutside {
            id: prompt[place],
            place,
            vocab,
        }),
        None => Ok(()),
    }
}

fn failure(error: OpenError) -> Failure {
    let exit = Exit::of(error.exit_code());
    match error.hint() {
        Some(hint) => Failure::new(exit, error, hint),
        None => match error {
            OpenError::Manifest(error) => error.into(),
            error => Failure::new(exit, error, "export the bundle again, or see `forkcast inspect`"),
        },
    }
}
