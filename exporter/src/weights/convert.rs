//! Conversion of a run of numbers from one type to another, through float32.

use super::{Transform, quantise};
use forkcast_engines::manifest::Dtype;
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
        if from == to && transform == Transform::None {
            output.clear();
            output.extend_from_slice(input);
            return Ok(());
        }
        self.widen(input, from);
        match transform {
            Transform::None => {}
            Transform::AddOne => self.wide.iter_mut().for_each(|v| *v += 1.0),
            // Through float64: the result is then correctly rounded on every machine.
            Transform::NegExp => self
                .wide
                .iter_mut()
                .for_each(|v| *v = -f64::from(*v).exp() as f32),
            // Chunks are whole blocks.
            Transform::Blocks(bits) => {
                quantise::blocks(&self.wide, bits, output);
                return Ok(());
            }
            Transform::Scales(bits) => {
                quantise::scales(&self.wide, bits, output);
                return Ok(());
            }
        }
        match to {
            Dtype::F32 => store(&self.wide, output, f32::to_le_bytes),
            Dtype::Bf16 => store(&self.wide, output, |v| bf16::from_f32(v).to_le_bytes()),
            Dtype::F16 => {
                let lost = |v: &&f32| v.is_finite() && f16::from_f32(**v).is_infinite();
                if let Some(lost) = self.wide.iter().find(lost) {
                    return Err(*lost);
                }
                store(&self.wide, output, |v| f16::from_f32(v).to_le_bytes());
            }
            // Only by a transform.
            Dtype::Int8 | Dtype::Int4 => quantise::blocks(&self.wide, to, output),
        }
        Ok(())
    }

    fn widen(&mut self, input: &[u8], from: Dtype) {
        match from {
            Dtype::F32 => load(input, &mut self.wide, f32::from_le_bytes),
            Dtype::Bf16 => load(input, &mut self.wide, |b| bf16::from_le_bytes(b).to_f32()),
            Dtype::F16 => load(input, &mut self.wide, |b| f16::from_le_bytes(b).to_f32()),
            // No checkpoint holds them.
            Dtype::Int8 | Dtype::Int4 => self.wide.clear(),
        }
    }
}

/// Reads numbers of `N` bytes each; a plain loop over slices, so that it becomes vector code.
fn load<const N: usize>(input: &[u8], wide: &mut Vec<f32>, read: impl Fn([u8; N]) -> f32) {
    let numbers = input.as_chunks::<N>().0;
    wide.resize(numbers.len(), 0.0);
    for (v, b) in wide.iter_mut().zip(numbers) {
        *v = read(*b);
    }
}

/// Writes numbers of `N` bytes each.
fn store<const N: usize>(wide: &[f32], output: &mut Vec<u8>, write: impl Fn(f32) -> [u8; N]) {
    output.resize(wide.len() * N, 0);
    for (b, v) in output.as_chunks_mut::<N>().0.iter_mut().zip(wide) {
        *b = write(*v);
    }
}
