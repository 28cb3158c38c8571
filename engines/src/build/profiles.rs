//! Optimisation profiles: the sizes that a plan is compiled for.
//!
//! Each row bucket is a profile of one exact size; dead rows see only themselves. Within a profile the capacity of the
//! caches takes the sizes of the context buckets: a profile costs seconds and megabytes (18 s and 11 MB for the verify
//! graph of a 4B model, the same for every further one), and TensorRT-RTX specialises its kernels for the shapes
//! that it meets. What only picks rows (`commit`, `context`) has one profile for trees and one for prompts.

use crate::engine::{Model, PATH_ROWS, PREFILL_ROWS, Sizes};
use crate::recipe::Recipe;

fn exactly(symbol: &str, size: usize) -> (String, [usize; 3]) {
    (symbol.to_owned(), [size; 3])
}

/// Context buckets of a model: those of the recipe, cut where the model's context ends.
pub(super) fn contexts(recipe: &Recipe, model: &Model) -> Vec<usize> {
    let mut list: Vec<usize> = recipe
        .context
        .iter()
        .map(|c| (*c).min(model.max_context))
        .collect();
    list.dedup();
    list
}

/// Rows of a prefill pass of a model.
pub(super) fn prefill_rows(recipe: &Recipe, model: &Model) -> usize {
    contexts(recipe, model)
        .first()
        .map_or(PREFILL_ROWS, |c| PREFILL_ROWS.min(*c))
}

/// Profiles of the plan of `stage`.
pub(super) fn of(stage: &str, recipe: &Recipe, model: &Model) -> Vec<Sizes> {
    let contexts = contexts(recipe, model);
    let (first, last) = (
        contexts.first().copied().unwrap_or(1),
        contexts.last().copied().unwrap_or(1),
    );
    let capacity = ("C".to_owned(), [first, first, last]);
    let prefill = prefill_rows(recipe, model);
    let pass = |rows: &usize| Sizes::from([capacity.clone(), exactly("N", *rows)]);
    match stage {
        "target" => recipe.rows.iter().map(pass).collect(),
        "prefill" => vec![pass(&prefill)],
        "draft" => vec![Sizes::from([capacity])],
        "commit" | "context" => picked(recipe, prefill),
        _ => head(recipe, model),
    }
}

fn picked(recipe: &Recipe, prefill: usize) -> Vec<Sizes> {
    let most = recipe.rows.last().copied().unwrap_or(1);
    let path = most.min(PATH_ROWS);
    let range = |symbol: &str, max: usize, usual: usize| (symbol.to_owned(), [1, usual.min(max), max]);
    let trees = Sizes::from([range("N", most, most), range("P", path, PATH_ROWS / 2)]);
    let prompts = Sizes::from([exactly("N", prefill), range("P", prefill, prefill)]);
    vec![trees, prompts]
}

/// The head runs over the rows of a pass and over the drafted rows.
fn head(recipe: &Recipe, model: &Model) -> Vec<Sizes> {
    let drafted = model.drafter.as_ref().map(|d| d.modes * (d.block - 1));
    let mut rows: Vec<usize> = recipe.rows.iter().copied().chain(drafted).collect();
    rows.sort_unstable();
    rows.dedup();
    rows.into_iter().map(|r| Sizes::from([exactly("R", r)])).collect()
}
