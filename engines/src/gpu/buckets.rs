//! Sizes that passes come in: few, so that a recorded graph exists for each.

use super::stage::Mode;
use crate::backend::{BackendError, RowBatch};

/// Sizes that passes come in, so that few graphs serve all of them.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    /// Rows of a verify pass, ascending.
    pub(super) rows: Vec<usize>,
    /// Rows of a prefill pass.
    pub(super) prefill: usize,
    /// Cache rows that a pass reads, ascending.
    pub(super) contexts: Vec<usize>,
    /// Rows of a root path of a tree at most.
    pub(super) depth: usize,
}

/// The smallest of ascending `buckets` that holds `size`.
pub(super) fn holding(buckets: &[usize], size: usize) -> Option<usize> {
    buckets.iter().copied().find(|b| *b >= size)
}

impl Buckets {
    pub(super) fn of(engine: &crate::engine::Engine) -> Self {
        let most = engine.limits.context;
        let mut contexts: Vec<usize> = engine.recipe.context.iter().map(|c| (*c).min(most)).collect();
        contexts.dedup();
        Self {
            rows: engine.recipe.rows.clone(),
            prefill: engine.limits.prefill_rows,
            contexts,
            depth: engine.limits.depth,
        }
    }

    /// Cache rows that a pass over `committed` rows reads.
    pub(super) fn context(&self, committed: usize) -> usize {
        let last = self.contexts.last().copied().unwrap_or(1);
        holding(&self.contexts, committed.max(1)).unwrap_or(last)
    }

    /// Chooses the plan for a batch: chains that are longer than a tree's paths go through `prefill`.
    pub(super) fn choose(&self, batch: &RowBatch<'_>) -> Result<Rows, BackendError> {
        let live = batch.len();
        let limit = |text: String| Err(BackendError::Limit(text));
        let lines = || batch.ancestors.chunks_exact(live);
        let depth = lines()
            .map(|l| l.iter().filter(|b| **b).count())
            .max()
            .unwrap_or(0);
        if depth <= self.depth
            && let Some(bucket) = holding(&self.rows, live)
        {
            return Ok(Rows {
                live,
                bucket,
                prefill: false,
            });
        }
        let chain = lines().enumerate().all(|(i, line)| line[..=i].iter().all(|b| *b));
        let (most, longest) = (self.prefill, self.depth);
        if chain && live <= most {
            return Ok(Rows {
                live,
                bucket: most,
                prefill: true,
            });
        }
        if chain {
            return limit(format!(
                "a chain of {live} rows; the engine takes prompts in passes of {most}"
            ));
        }
        if depth > longest {
            return limit(format!(
                "a tree with a path of {depth} rows; the engine verifies paths of at most {longest}"
            ));
        }
        limit(format!(
            "{live} rows in one pass are more than the engine's largest bucket"
        ))
    }
}

/// Rows that the last pass made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    /// Rows of the batch.
    pub(super) live: usize,
    /// Rows of the plan's bucket.
    pub(super) bucket: usize,
    /// Whether it was a prefill pass, of which few rows are asked for.
    pub(super) prefill: bool,
}

impl Rows {
    /// Variant of a run of `commit` or `context` for a path of `length` rows, and how it is queued. The length of a
    /// tree's path is part of the variant; that of a prompt's chunk takes too many values for that.
    pub(super) fn path(self, length: usize, side: usize, mode: Mode) -> (usize, Mode) {
        if self.prefill {
            return (side, Mode::Varying);
        }
        ((self.bucket * 2048 + length) * 2 + side, mode)
    }
}

#[cfg(test)]
mod tests {
    use super::holding;

    #[test]
    fn the_smallest_bucket_that_holds_the_rows() {
        let found = [0, 1, 128, 129, 512, 513].map(|rows| holding(&[128, 512], rows));
        assert_eq!(
            found,
            [Some(128), Some(128), Some(128), Some(512), Some(512), None]
        );
    }
}
