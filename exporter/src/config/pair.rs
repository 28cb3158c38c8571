//! Whether a drafter fits a target.

use super::{DrafterConfig, TargetConfig};
use crate::ExportError;

/// Refuses a drafter that was made for another target; returns the target layers it reads.
pub(crate) fn check_pair(target: &TargetConfig, drafter: &DrafterConfig) -> Result<Vec<usize>, ExportError> {
    let fields = &drafter.fields;
    let layers = target.layers.len();
    let sizes = [
        ("hidden_size", Some(drafter.hidden), target.hidden),
        ("vocab_size", Some(drafter.vocab), target.vocab),
        ("num_target_layers", drafter.target_layers, layers),
    ];
    for (name, own, expected) in sizes {
        if let Some(own) = own
            && own != expected
        {
            return Err(fields
                .error(name, format!("{own} does not fit the target's {expected}"))
                .with_hint("use the drafter that was trained for this target"));
        }
    }
    if drafter.mask_id >= target.vocab {
        return Err(fields.error(
            "mask_token_id",
            format!(
                "{} is outside the vocabulary of {}",
                drafter.mask_id, target.vocab
            ),
        ));
    }
    let taps = drafter.taps(layers);
    if taps.is_empty() {
        return Err(fields.error("target_layer_ids", "is empty"));
    }
    if let Some(id) = taps.iter().find(|id| **id >= layers) {
        return Err(fields.error(
            "target_layer_ids",
            format!(
                "layer {id} is outside the target's {layers} layers (0..={})",
                layers - 1
            ),
        ));
    }
    Ok(taps)
}
