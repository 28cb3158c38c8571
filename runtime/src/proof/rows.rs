//! The slow and obvious way: tokens committed one after another, and the row that follows.

use crate::decode::DecodeError;
use forkcast_engines::backend::{Backend, LogitNeeds, RowBatch};

/// Commits one token by a pass of one row.
pub(super) fn push(backend: &mut dyn Backend, token: u32) -> Result<(), DecodeError> {
    verify(backend, token)?;
    backend.commit(&[0])?;
    Ok(())
}

/// Logits `[V]` of the row of `token` after what is committed; nothing is committed.
pub(super) fn peek(backend: &mut dyn Backend, token: u32, out: &mut Vec<f32>) -> Result<(), DecodeError> {
    verify(backend, token)?;
    backend.logits(&[0], out)?;
    Ok(())
}

fn verify(backend: &mut dyn Backend, token: u32) -> Result<(), DecodeError> {
    let committed = backend.committed();
    backend.reserve(committed + 1)?;
    backend.verify(&RowBatch {
        tokens: &[token],
        positions: &[committed as i64],
        ancestors: &[true],
    })?;
    Ok(())
}

/// Logits after `prefix`, decoded row by row from nothing; empty for an empty prefix.
pub(super) fn after(backend: &mut dyn Backend, prefix: &[u32]) -> Result<Vec<f32>, DecodeError> {
    backend.reset()?;
    backend.set_drafting(false);
    backend.set_needs(LogitNeeds::Full);
    let mut logits = Vec::new();
    if let Some((last, before)) = prefix.split_last() {
        for token in before {
            push(backend, *token)?;
        }
        peek(backend, *last, &mut logits)?;
    }
    Ok(logits)
}
