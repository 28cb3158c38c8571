//! The walk: descend from the anchor while the drawn token is a child of the present row.
//!
//! At each visited row one token is drawn from the target's distribution after exactly the emitted prefix; draws at
//! other rows never happen. So the emitted text has the target's distribution whatever the tree
//! holds (`algorithms.md` 3.5). The accepted rows are those whose token was drawn, row 0 included; the
//! last draw is the next anchor.

mod walker;

pub use walker::{Step, Walker};

use crate::tree::Tree;

/// Walks `tree` with a function that draws the token after a row. Puts the accepted rows into `path` and
/// returns the next token.
///
/// This is the whole rule; [`Walker`] is the same walk for callers that read logits in batches.
///
/// # Errors
/// The first error of `choose`.
pub fn walk<E>(
    tree: &Tree,
    path: &mut Vec<u32>,
    mut choose: impl FnMut(u32) -> Result<u32, E>,
) -> Result<u32, E> {
    path.clear();
    let mut row = 0;
    loop {
        path.push(row);
        let token = choose(row)?;
        match tree.child(row, token) {
            Some(child) => row = child,
            None => return Ok(token),
        }
    }
}

#[cfg(test)]
mod tests;
