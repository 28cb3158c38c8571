//! From opened checkpoints to planned graphs: which tensors the models use and where they lie.

use crate::ExportError;
use crate::checkpoint::Checkpoint;
use crate::config::{DrafterConfig, MAX_DRAFT_ROWS, MAX_MODES, TargetConfig};
use crate::graphs::{self, Built, DraftParts};
use crate::weights::{Matrix, Placed, Store, Transform};
use forkcast_engines::manifest::{Dtype, Family};
use std::collections::BTreeMap;

/// Where the text model's names start, in the order in which they are tried (`qwen.md` 2.1).
const PREFIXES: [&str; 4] = ["model.language_model.", "language_model.model.", "model.", ""];
/// Names of an untied head, from the root.
const HEADS: [&str; 2] = ["lm_head.weight", "language_model.lm_head.weight"];
/// Parts of composite Qwen3.5 checkpoints that the text model does not use (`qwen.md` 2.3).
const SKIPPED: [&str; 5] = [
    "model.visual.",
    "visual.",
    "model.vision_tower.",
    "vision_tower.",
    "mtp.",
];

/// Planned graphs by stage.
pub(crate) type Graphs = BTreeMap<String, Built>;

/// Plans the target's graphs. Returns the embedding's place; settles `config.tied`.
pub(crate) fn plan_target(
    config: &mut TargetConfig,
    store: &mut Store<'_>,
    checkpoint: &Checkpoint,
    dtype: Dtype,
    taps: &[usize],
    graphs: &mut Graphs,
) -> Result<Matrix, ExportError> {
    refuse_fused(checkpoint)?;
    let head = HEADS.into_iter().find(|h| checkpoint.tensors.contains_key(*h));
    let tied = *config.tied.get_or_insert(head.is_none());
    let shape = [config.vocab, config.hidden];
    let embedding = store.matrix("embed_tokens.weight", shape, dtype)?;
    let weight = if tied {
        // Some tied checkpoints store the matrix twice; the second copy is not used.
        HEADS.into_iter().for_each(|h| store.ignore(h));
        embedding.clone()
    } else {
        let name = format!("/{}", head.unwrap_or(HEADS[0]));
        store.matrix(&name, shape, dtype)?
    };
    graphs.insert("head".to_owned(), graphs::head(config, &weight, dtype));
    graphs.insert("target".to_owned(), graphs::target(config, store, dtype, taps)?);
    if let Some(commit) = graphs::commit(config, dtype) {
        graphs.insert("commit".to_owned(), commit);
    }
    let hybrid = config.family == Family::Qwen35;
    refuse_leftover(store, checkpoint, "the model", |name| {
        hybrid && SKIPPED.iter().any(|s| name.starts_with(s))
    })?;
    Ok(embedding)
}

/// The prefix of the text model's tensors.
pub(crate) fn prefix(checkpoint: &Checkpoint) -> Result<&'static str, ExportError> {
    let found = PREFIXES.into_iter().find(|p| {
        checkpoint
            .tensors
            .contains_key(&format!("{p}embed_tokens.weight"))
    });
    match found {
        Some(prefix) => Ok(prefix),
        None if checkpoint.tensors.contains_key("fc.weight") => Err(ExportError::tensor(
            checkpoint.place(),
            "fc.weight",
            "these are a drafter's weights, not a target's",
        )
        .with_hint("pass it as --drafter")),
        None => checkpoint.require("model.embed_tokens.weight").map(|_| "model."),
    }
}

/// What a drafter is exported for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draft {
    /// Tapped layers.
    pub(crate) taps: usize,
    /// Modes to keep; all without.
    pub(crate) modes: Option<usize>,
}

/// Plans the drafter's graphs; returns the number of modes.
pub(crate) fn plan_drafter(
    config: &DrafterConfig,
    store: &mut Store<'_>,
    checkpoint: &Checkpoint,
    dtype: Dtype,
    draft: Draft,
    graphs: &mut Graphs,
) -> Result<usize, ExportError> {
    let (mut mode_embed, mut modes) = mode_embedding(config, store, checkpoint, dtype)?;
    if let Some(keep) = draft.modes {
        if keep == 0 || keep > modes {
            return Err(ExportError::Usage {
                reason: format!("--modes {keep}: the drafter has {modes}"),
                hint: Some("without --modes all of them are kept".to_owned()),
            });
        }
        if let Some(placed) = &mut mode_embed {
            // The first rows of the table.
            placed.data.length = placed.data.length / modes as u64 * keep as u64;
            placed.data.shape = vec![keep, config.hidden];
        }
        modes = keep;
    }
    let parts = DraftParts {
        config,
        mode_embed: mode_embed.as_ref(),
        modes,
    };
    let context = graphs::context(config, store, dtype, draft.taps)?;
    let draft = graphs::draft(&parts, store, dtype)?;
    graphs.insert("draft".to_owned(), draft);
    graphs.insert("context".to_owned(), context);
    // The gate weighs modes in training only.
    refuse_leftover(store, checkpoint, "a drafter of the DFlash family", |name| {
        name == "mode_gate" || name.starts_with("mode_gate.")
    })?;
    Ok(modes)
}

/// Mode embeddings, where the checkpoint or its configuration has them, and the number of modes.
fn mode_embedding(
    config: &DrafterConfig,
    store: &mut Store<'_>,
    checkpoint: &Checkpoint,
    dtype: Dtype,
) -> Result<(Option<Placed>, usize), ExportError> {
    let name = ["mode_embed", "mode_embed.weight"]
        .into_iter()
        .find(|n| store.has(n));
    let Some(name) = name else {
        return match config.modes {
            None | Some(1) => Ok((None, 1)),
            Some(_) => checkpoint.require("mode_embed").map(|_| (None, 1)),
        };
    };
    let stored = checkpoint.require(name)?;
    let modes = stored.entry.shape.first().copied().unwrap_or(0);
    let refuse = |reason| Err(ExportError::tensor(checkpoint.path_of(stored), name, reason));
    if modes == 0 || modes > MAX_MODES {
        return refuse(format!("{modes} modes are outside 1..={MAX_MODES}"));
    }
    if let Some(promised) = config.modes
        && promised != modes
    {
        return refuse(format!("{modes} modes, but mfd_config.num_modes says {promised}"));
    }
    if modes * config.block > MAX_DRAFT_ROWS {
        let rows = modes * config.block;
        return refuse(format!(
            "{modes} modes of {} rows make {rows}, more than {MAX_DRAFT_ROWS}",
            config.block
        ));
    }
    let placed = store.place(name, &[modes, config.hidden], dtype, Transform::None)?;
    Ok((Some(placed), modes))
}

/// Qwen3-Next fuses and re-orders the projections of linear layers; read as Qwen3.5 they would be wrong.
fn refuse_fused(checkpoint: &Checkpoint) -> Result<(), ExportError> {
    let fused = ["linear_attn.in_proj_qkvz.weight", "linear_attn.in_proj_ba.weight"];
    match checkpoint
        .tensors
        .iter()
        .find(|(name, _)| fused.iter().any(|f| name.ends_with(f)))
    {
        None => Ok(()),
        Some((name, stored)) => Err(ExportError::tensor(
            checkpoint.path_of(stored),
            name,
            "fused projections of Qwen3-Next are not supported",
        )),
    }
}

fn refuse_leftover(
    store: &Store<'_>,
    checkpoint: &Checkpoint,
    whose: &str,
    skip: impl Fn(&str) -> bool,
) -> Result<(), ExportError> {
    match store.leftover(skip) {
        None => Ok(()),
        Some(stored) => Err(ExportError::tensor(
            checkpoint.path_of(stored),
            &stored.entry.name,
            format!("is not part of {whose} that config.json describes"),
        )),
    }
}
