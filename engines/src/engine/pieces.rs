//! Where the bytes of a binding lie in a bundle.
//!
//! Exports of checkpoints of different types lay projections out differently: side by side in one stack where they
//! had to be converted, one by one where the checkpoint's own bytes are used. An engine built from one must run the
//! other, so a binding is found by the checkpoint tensors that it is made of.

use super::{EMBEDDING, graph_of};
use crate::bundle::Bundle;
use crate::manifest::{Initializer, TensorData};

/// The parts of `bundle` that, one after another, are input `weight` of plan `stage`; `list` is all weights of
/// that plan.
///
/// # Errors
/// Something is missing or of another shape; the text names it.
pub(crate) fn pieces(
    bundle: &Bundle,
    stage: &str,
    weight: &Initializer,
    list: &[Initializer],
) -> Result<Vec<TensorData>, String> {
    let wrong = |what: String| format!("{stage}: weight {:?} {what}", weight.name);
    if weight.name == EMBEDDING {
        let table = &bundle.manifest.embedding;
        return if table.shape == weight.data.shape {
            Ok(vec![table.clone()])
        } else {
            Err(wrong(format!("has shape {:?}", table.shape)))
        };
    }
    let graph = bundle.manifest.graphs.get(graph_of(stage));
    let there = graph.map_or(&[][..], |g| &g.initializers);
    let found = find(there, weight, list).ok_or_else(|| wrong("is not in it".to_owned()))?;
    let rows: usize = found.iter().filter_map(|t| t.shape.first()).sum();
    let inner = |shape: &[usize]| shape.get(1..).unwrap_or_default().to_vec();
    let same = found.iter().all(|t| inner(&t.shape) == inner(&weight.data.shape));
    if !same || weight.data.shape.first().copied().unwrap_or(1) != rows.max(1) {
        let shapes: Vec<&[usize]> = found.iter().map(|t| t.shape.as_slice()).collect();
        return Err(wrong(format!(
            "has shape {shapes:?}, the engine takes {:?}",
            weight.data.shape
        )));
    }
    Ok(found)
}

fn find(there: &[Initializer], weight: &Initializer, list: &[Initializer]) -> Option<Vec<TensorData>> {
    let plain = |i: &Initializer| matches!(i.transform.as_str(), "none" | "stack");
    let twin = there.iter().find(|i| i.source == weight.source);
    if let Some(twin) = twin {
        return (twin.transform == weight.transform || (plain(twin) && plain(weight)))
            .then(|| vec![twin.data.clone()]);
    }
    if !plain(weight) {
        return None;
    }
    weight
        .source
        .iter()
        .map(|source| {
            part(there, source, list)
                .filter(|(_, i)| plain(i))
                .map(|(t, _)| t)
        })
        .collect()
}

/// Checkpoint tensor `source`: by itself, or as rows of a stack.
fn part<'a>(
    there: &'a [Initializer],
    source: &str,
    list: &[Initializer],
) -> Option<(TensorData, &'a Initializer)> {
    let own = there
        .iter()
        .find(|i| i.source.len() == 1 && i.source[0] == source);
    if let Some(own) = own {
        return Some((own.data.clone(), own));
    }
    let stack = there.iter().find(|i| i.source.iter().any(|s| s == source))?;
    let before = stack.source.iter().take_while(|s| *s != source);
    let first: usize = before.map(|s| rows_of(s, list)).sum::<Option<usize>>()?;
    let rows = rows_of(source, list)?;
    let total = *stack.data.shape.first()?;
    let row_bytes = stack.data.length.checked_div(total as u64)?;
    if first + rows > total {
        return None;
    }
    let mut data = stack.data.clone();
    data.offset += first as u64 * row_bytes;
    data.length = rows as u64 * row_bytes;
    data.shape[0] = rows;
    Some((data, stack))
}

/// Rows of a checkpoint tensor that the engine takes by itself.
fn rows_of(source: &str, list: &[Initializer]) -> Option<usize> {
    let own = list
        .iter()
        .find(|i| i.source.len() == 1 && i.source[0] == source)?;
    own.data.shape.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Dtype;

    fn weight(name: &str, source: &[&str], transform: &str, offset: u64, rows: usize) -> Initializer {
        Initializer {
            name: name.to_owned(),
            source: source.iter().map(|s| (*s).to_owned()).collect(),
            transform: transform.to_owned(),
            data: TensorData {
                file: "w".to_owned(),
                offset,
                length: rows as u64 * 8,
                dtype: Dtype::Bf16,
                shape: vec![rows, 4],
            },
        }
    }

    fn places(found: Option<Vec<TensorData>>) -> Vec<(u64, u64)> {
        found
            .unwrap_or_default()
            .iter()
            .map(|t| (t.offset, t.length))
            .collect()
    }

    #[test]
    fn stacks_and_single_tensors_stand_for_each_other() {
        let apart = [
            weight("q", &["q"], "none", 0, 3),
            weight("k", &["k"], "none", 100, 2),
            weight("v", &["v"], "none", 200, 2),
        ];
        let stacked = [weight("qkv", &["q", "k", "v"], "stack", 1000, 7)];
        assert_eq!(
            places(find(&apart, &stacked[0], &stacked)),
            [(0, 24), (100, 16), (200, 16)]
        );
        let one = |i: usize| places(find(&stacked, &apart[i], &apart));
        assert_eq!(
            (one(0), one(1), one(2)),
            (vec![(1000, 24)], vec![(1024, 16)], vec![(1040, 16)])
        );
        assert_eq!(places(find(&apart, &apart[1], &apart)), [(100, 16)]);
    }

    #[test]
    fn what_was_computed_is_no_piece() {
        let made = [weight("n", &["n"], "add-one", 0, 3)];
        let plain = weight("n", &["n"], "none", 0, 3);
        assert!(find(&made, &plain, &[]).is_none());
        assert!(find(&[plain], &made[0], &[]).is_none());
        assert!(find(&made, &weight("x", &["x"], "none", 0, 1), &[]).is_none());
    }
}
