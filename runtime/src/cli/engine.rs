//! Opening a model for a command.

use super::output;
use super::parse::positive;
use crate::exit::{Exit, Failure};
use forkcast::bench::frequent;
use forkcast::decode::DecodeError;
use forkcast::text::TextModel;
use forkcast_engines::backend::Backend;
use forkcast_engines::bundle::{Bundle, OpenError};
use forkcast_engines::gpu::Progress;
use forkcast_engines::manifest::{FILE_NAME, Manifest, read};
use forkcast_engines::model::{self, ModelError, ModelOptions, Place};
use std::path::{Path, PathBuf};

/// Flags about the engine.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[command(next_help_heading = "Engine")]
pub(super) struct EngineArgs {
    /// Upper bound of prompt plus answer in tokens; the model's own without.
    #[arg(long, value_name = "N", env = "FORKCAST_MAX_CONTEXT", value_parser = positive)]
    pub(super) max_context: Option<usize>,
    /// Threads on the CPU; all cores without.
    #[arg(long, value_name = "N", env = "FORKCAST_THREADS", value_parser = positive)]
    pub(super) threads: Option<usize>,
}

/// Flags about the model's parts.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Engine")]
pub(super) struct ModelArgs {
    #[command(flatten)]
    pub(super) engine: EngineArgs,
    /// Bundle with the weights for an engine directory; the one that it names without.
    #[arg(long, value_name = "DIR", env = "FORKCAST_BUNDLE")]
    pub(super) bundle: Option<PathBuf>,
    /// Bundle whose drafter is used instead, of the same shape.
    #[arg(long, value_name = "DIR", env = "FORKCAST_DRAFTER")]
    pub(super) drafter: Option<PathBuf>,
    /// Tokens that drafting chooses among: the N most frequent ones of --draft-vocab-text. The text stays the same.
    #[arg(long, value_name = "N", env = "FORKCAST_DRAFT_VOCAB", value_parser = positive)]
    pub(super) draft_vocab: Option<usize>,
    /// Text, or a suite of prompts, whose tokens are counted for --draft-vocab.
    #[arg(long, value_name = "FILE", env = "FORKCAST_DRAFT_VOCAB_TEXT")]
    pub(super) draft_vocab_text: Option<PathBuf>,
}

/// Finds the parts of a model.
pub(super) fn locate(model: &Path, args: &ModelArgs) -> Result<Place, Failure> {
    let place = model::locate(model, args.bundle.as_deref()).map_err(failure)?;
    if place.engine.is_some() && args.engine.threads.is_some() {
        output::note("--threads does not act on an engine directory");
    }
    Ok(place)
}

/// Reads the manifest of a bundle, so that requests can be refused before anything is loaded.
pub(super) fn manifest(bundle: &Path) -> Result<Manifest, Failure> {
    if !bundle.join(FILE_NAME).is_file() {
        // The engine says what the place is instead.
        return Err(match Bundle::open(bundle) {
            Err(error) => failure(error.into()),
            Ok(_) => Failure::input(
                format!("{}: changed while it was read", bundle.display()),
                "try again",
            ),
        });
    }
    Ok(read(bundle)?)
}

/// Opens the engine of a model.
pub(super) fn open(place: &Place, args: &ModelArgs) -> Result<Box<dyn Backend>, Failure> {
    let options = ModelOptions {
        threads: args.engine.threads,
        max_context: args.engine.max_context,
        drafter: args.drafter.clone(),
    };
    let bar = output::spinner();
    let opened = model::open(place, &options, &mut |progress| match progress {
        Progress::Plan { stage, number, of } => bar.set_message(format!("plan {stage} ({number} of {of})")),
        Progress::Weights { done, total } => bar.set_message(format!(
            "weights: {} of {}",
            output::size(*done),
            output::size(*total)
        )),
    });
    bar.finish_and_clear();
    opened.map_err(failure)
}

/// Lets drafting choose among the most frequent tokens, if the flags say so; `learned` are suites that are counted where
/// no text is named.
pub(super) fn shorten(
    engine: &mut dyn Backend,
    args: &ModelArgs,
    text: &TextModel,
    manifest: &Manifest,
    learned: &[PathBuf],
) -> Result<(), Failure> {
    let Some(n) = args.draft_vocab else {
        if args.draft_vocab_text.is_some() {
            output::note("--draft-vocab-text does not act without --draft-vocab");
        }
        return Ok(());
    };
    let named: Vec<PathBuf> = args.draft_vocab_text.iter().cloned().collect();
    let paths = if named.is_empty() { learned } else { &named };
    if paths.is_empty() {
        return Err(Failure::input(
            "--draft-vocab: nothing says which tokens are frequent",
            "name a text like the answers with --draft-vocab-text FILE",
        ));
    }
    let ids = frequent(text, paths, n, &manifest.stop_ids, manifest.target.vocab)?;
    engine
        .shorten_draft(&ids)
        .map_err(|e| DecodeError::Backend(e).into())
}

/// Most tokens of prompt and answer.
pub(super) fn context(place: &Place, manifest: &Manifest, args: &ModelArgs) -> usize {
    let engine = place.engine.as_ref().map_or(usize::MAX, |e| e.limits.context);
    args.engine
        .max_context
        .unwrap_or(usize::MAX)
        .min(manifest.max_context)
        .min(engine)
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

fn failure(error: ModelError) -> Failure {
    let exit = Exit::of(error.exit_code());
    match (error.hint(), error) {
        (Some(hint), error) => Failure::new(exit, error, hint),
        (None, ModelError::Bundle(OpenError::Manifest(error))) => error.into(),
        (None, ModelError::Bundle(error)) => {
            Failure::new(exit, error, "export the bundle again, or see `forkcast inspect`")
        }
        (None, error) => Failure::with(exit, error, None),
    }
}
