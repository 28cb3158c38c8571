//! The best tokens of a row without sorting the row.

use std::cmp::Ordering;

/// A token with its logit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scored {
    pub(super) logit: f32,
    pub(super) id: u32,
}

/// Higher logit first, equal ones by smaller id.
pub(super) fn order(a: &Scored, b: &Scored) -> Ordering {
    b.logit
        .partial_cmp(&a.logit)
        .unwrap_or(Ordering::Equal)
        .then(a.id.cmp(&b.id))
}

/// Puts the `n` best tokens of `logits` into `best`, best first. Negative infinity is never among them.
///
/// Collects what exceeds the n-th best value seen so far and throws out the rest whenever the list has doubled:
/// linear in the row, since in most blocks nothing exceeds it.
pub(super) fn top(logits: &[f32], n: usize, best: &mut Vec<Scored>) {
    const BLOCK: usize = 64;
    best.clear();
    let n = n.min(logits.len());
    if n == 0 {
        return;
    }
    let full = n + n.max(128);
    let mut floor = f32::NEG_INFINITY;
    for (at, block) in logits.chunks(BLOCK).enumerate() {
        // Later tokens lose against earlier ones with the same logit, so only a higher one counts.
        if !block.iter().fold(false, |any, v| any | (*v > floor)) {
            continue;
        }
        for (offset, logit) in block.iter().enumerate() {
            if *logit > floor {
                best.push(Scored {
                    logit: *logit,
                    id: (at * BLOCK + offset) as u32,
                });
                if best.len() == full {
                    floor = cut(best, n);
                }
            }
        }
    }
    if best.len() > n {
        cut(best, n);
    }
    best.sort_unstable_by(order);
}

/// Keeps the `n` best of a longer list, in any order, and returns the least logit among them.
fn cut(best: &mut Vec<Scored>, n: usize) -> f32 {
    best.select_nth_unstable_by(n - 1, order);
    best.truncate(n);
    best[n - 1].logit
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sorted(logits: &[f32], n: usize) -> Vec<Scored> {
        let mut all: Vec<Scored> = (0..logits.len() as u32)
            .map(|id| Scored {
                logit: logits[id as usize],
                id,
            })
            .filter(|s| s.logit > f32::NEG_INFINITY)
            .collect();
        all.sort_by(order);
        all.truncate(n);
        all
    }

    proptest! {
        #[test]
        fn equal_to_sorting(
            steps in prop::collection::vec(0u16..300, 0..2000),
            rising in any::<bool>(),
            n in 0usize..400,
        ) {
            let mut row: Vec<f32> = steps.iter().map(|s| f32::from(*s) / 7.0 - 20.0).collect();
            if rising {
                row.sort_by(f32::total_cmp);
            }
            if let Some(first) = row.first_mut() {
                *first = f32::NEG_INFINITY;
            }
            let mut best = Vec::new();
            top(&row, n, &mut best);
            prop_assert_eq!(best, sorted(&row, n));
        }
    }
}
