//! Rotary embedding: base and number of rotated dimensions; scaled kinds are refused.

use super::Fields;
use crate::ExportError;

/// Rotary embedding of one model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rope {
    /// Base of the frequencies.
    pub(crate) theta: f64,
    /// Rotated dimensions at the start of each head; even.
    pub(crate) dims: usize,
}

impl Rope {
    /// Reads `rope_parameters`, then the top level, then defaults. Older files say the same with
    /// `rope_theta` and `rope_scaling`.
    pub(crate) fn read(fields: &Fields, head_dim: usize, default_factor: f64) -> Result<Self, ExportError> {
        let parameters = fields.object("rope_parameters")?;
        for name in ["rope_parameters", "rope_scaling"] {
            if let Some(object) = fields.object(name)? {
                refuse_scaling(&object)?;
            }
        }
        let lookup = |name: &str| -> Result<Option<f64>, ExportError> {
            match parameters
                .as_ref()
                .map(|p| p.positive(name))
                .transpose()?
                .flatten()
            {
                Some(value) => Ok(Some(value)),
                None => fields.positive(name),
            }
        };
        let theta = lookup("rope_theta")?.unwrap_or(10_000.0);
        let factor = lookup("partial_rotary_factor")?.unwrap_or(default_factor);
        // Floor, as in the reference; the factor is positive, so the cast cannot wrap.
        let dims = (head_dim as f64 * factor) as usize;
        if dims == 0 || dims > head_dim || !dims.is_multiple_of(2) {
            return Err(fields.error(
                "partial_rotary_factor",
                format!("{factor} of head_dim {head_dim} gives {dims} rotated dimensions"),
            ));
        }
        Ok(Self { theta, dims })
    }

    /// Frequencies `theta^(-2j / dims)`, `[dims / 2]`.
    pub(crate) fn frequencies(&self) -> Vec<f32> {
        (0..self.dims / 2)
            .map(|j| self.theta.powf(-2.0 * j as f64 / self.dims as f64) as f32)
            .collect()
    }
}

/// Fields of a rope object that leave the default kind what it is. The sections of multimodal rope
/// distribute three position rows over the frequencies; for text all three are equal.
const KNOWN: [&str; 7] = [
    "rope_type",
    "type",
    "rope_theta",
    "partial_rotary_factor",
    "mrope_section",
    "mrope_interleaved",
    "original_max_position_embeddings",
];

/// Anything but the default kind changes frequencies or the attention scale.
fn refuse_scaling(object: &Fields) -> Result<(), ExportError> {
    for name in ["rope_type", "type"] {
        match object.text(name)? {
            None | Some("default") => {}
            Some(kind) => {
                return Err(object.error(name, format!("rope scaling {kind:?} is not supported")));
            }
        }
    }
    // Per-layer-type objects, factors and their kin: any other field means another kind of rope.
    match object.names().find(|name| !KNOWN.contains(name)) {
        Some(name) => Err(object.error(name, "rope scaling is not supported")),
        None => Ok(()),
    }
}
