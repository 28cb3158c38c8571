//! Conversion of a run of numbers from one type to another, through float32.

use super::Transform;
use forkcast_engines::manifest::Dtype;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// Numbers converted at a time.
pub(super) const CHUNK: usize = 1 << 18;

/// Buffers of a conversion, reused from chunk to chunk.
#[derive(Debug, Default)]
pub(super) struct Converter {
    wide: Vec<f32>,
}

impl Converter {
    /// Converts the little-endian numbers `input` of type `from` into `output` of type `to`, which is
    /// overwritten. The error is a finite number that `to` cannot hold.
    pub(super) fn run(
        &mut self,
        input: &[u8],
        from: Dtype,
        transform: Transform,
        to: Dtype,
        output: &mut Vec<u8>,
    ) -> Result<(), f32> {
        output.clear();
        if from == to && transform == Transform::None {
            output.extend_from_slice(input);
            return Ok(());
        }
        self.widen(input, from);
        match transform {
            Transform::None => {}
            Transform::AddOne => self.wide.iter_mut().for_each(|v| *v += 1.0),
            // Through float64: the result is then correctly rounded on every machine.
            Transform::NegExp => self.wide.iter_mut().for_each(|v| *v = -f64::from(*v).exp() as f32),
        }
        match to {
            Dtype::F32 => output.extend(self.wide.iter().flat_map(|v| v.to_le_bytes())),
            Dtype::Bf16 => output.extend(self.wide.iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes())),
            Dtype::F16 => {
                if let Some(lost) = self.wide.iter().find(|v| v.is_finite() && f16::from_f32(**v).is_infinite())
                {
                    return Err(*lost);
                }
                output.extend(self.wide.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()));
            }
        }
        Ok(())
    }

    fn widen(&mut self, input: &[u8], from: Dtype) {
        self.wide.clear();
        match from {
            Dtype::F32 => self
                .wide
                .extend(input.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b))),
            Dtype::Bf16 => self.wide.extend(
                input
                    .as_chunks::<2>()
                    .0
                    .iter()
                    .map(|b| bf16::from_le_bytes(*b).to_f32()),
            ),
            Dtype::F16 => {
                let narrow: Vec<f16> = input
                    .as_chunks::<2>()
                    .0
                    .iter()
                    .map(|b| f16::from_le_bytes(*b))
                    .collect();
                self.wide.resize(narrow.len(), 0.0);
                narrow.convert_to_f32_slice(&mut self.wide);
            }
        }
    }
}
