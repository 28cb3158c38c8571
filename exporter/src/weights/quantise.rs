//! Quantisation by blocks of a row, in the layout of `BlockMatMul`: `w ~ scale * q` with 8 bits, `scale * (q - 8)` with 4.

use forkcast_engines::manifest::{Dtype, QUANT_BLOCK};

/// Scale of a block. Eight bits: the largest magnitude becomes 127. Four bits: the number of largest magnitude becomes -8, the
/// end that reaches further.
fn scale(block: &[f32], bits: Dtype) -> f32 {
    let largest = block
        .iter()
        .fold(0.0f32, |m, x| if x.abs() > m.abs() { *x } else { m });
    match bits {
        Dtype::Int4 => largest / -8.0,
        _ => largest.abs() / 127.0,
    }
}

/// Scales of all blocks, float32, little endian.
pub(super) fn scales(numbers: &[f32], bits: Dtype, output: &mut Vec<u8>) {
    output.clear();
    for block in numbers.chunks(QUANT_BLOCK) {
        output.extend_from_slice(&scale(block, bits).to_le_bytes());
    }
}

/// Bytes of all blocks: one signed number a byte, or two a byte, the first in the low half, with zero at 8.
pub(super) fn blocks(numbers: &[f32], bits: Dtype, output: &mut Vec<u8>) {
    output.clear();
    for block in numbers.chunks(QUANT_BLOCK) {
        let scale = scale(block, bits);
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        let code = |x: &f32, zero: f32, most: f32| (x * inverse + zero).round().clamp(0.0, most) as u8;
        match bits {
            Dtype::Int4 => output.extend(block.chunks(2).map(|pair| {
                let low = code(&pair[0], 8.0, 15.0);
                let high = pair.get(1).map_or(8, |x| code(x, 8.0, 15.0));
                low | (high << 4)
            })),
            _ => output.extend(
                block
                    .iter()
                    .map(|x| (x * inverse).round().clamp(-128.0, 127.0) as i8 as u8),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(seed: u32, len: usize) -> Vec<f32> {
        let mut x = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
        (0..len)
            .map(|_| {
                x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (x >> 8) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect()
    }

    /// The obvious reading of a block.
    fn read(bytes: &[u8], scale: f32, bits: Dtype) -> Vec<f32> {
        let number = |q: u8, zero: f32| scale * (f32::from(q) - zero);
        match bits {
            Dtype::Int4 => bytes
                .iter()
                .flat_map(|b| [number(b & 15, 8.0), number(b >> 4, 8.0)])
                .collect(),
            _ => bytes.iter().map(|b| scale * f32::from(b.cast_signed())).collect(),
        }
    }

    #[test]
    fn every_number_comes_back_within_half_a_step() {
        for (bits, width) in [(Dtype::Int8, 32), (Dtype::Int4, 16)] {
            for seed in 0..200 {
                let block = numbers(seed, QUANT_BLOCK);
                let (mut bytes, mut scaled) = (Vec::new(), Vec::new());
                blocks(&block, bits, &mut bytes);
                scales(&block, bits, &mut scaled);
                assert_eq!((bytes.len(), scaled.len()), (width, 4));
                let scale = f32::from_le_bytes([scaled[0], scaled[1], scaled[2], scaled[3]]);
                let largest = block.iter().fold(0.0f32, |m, x| m.max(x.abs()));
                for (x, back) in block.iter().zip(read(&bytes, scale, bits)) {
                    // With four bits the end opposite to the largest number reaches to 7 steps only.
                    let clipped = bits == Dtype::Int4 && x / scale > 7.5;
                    let allowed = if clipped { scale.abs() } else { 0.5 * scale.abs() };
                    assert!(
                        (x - back).abs() <= allowed + 1e-6 * largest,
                        "{bits:?}: {x} became {back}"
                    );
                }
            }
        }
    }

    #[test]
    fn zeros_stay_zeros() {
        for bits in [Dtype::Int8, Dtype::Int4] {
            let mut bytes = Vec::new();
            blocks(&[0.0; QUANT_BLOCK], bits, &mut bytes);
            assert!(read(&bytes, 1.0, bits).iter().all(|x| *x == 0.0), "{bits:?}");
        }
    }
}
