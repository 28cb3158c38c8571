//! The fused operators, number by number in float64 ([`crate::ops::fused`]).

use crate::args::{
    BLOCK, BlockMatMulArgs, DeltaInputsArgs, GatedNormArgs, HeadNormRopeArgs, SigmoidGateArgs, SwiGluArgs,
};

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|x| f64::from(*x)).collect()
}

/// `w * x / sqrt(mean(x²) + epsilon)`
fn rms_norm(x: &[f32], w: &[f32], epsilon: f32) -> Vec<f64> {
    let square = wide(x).iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
    let scale = 1.0 / (square + f64::from(epsilon)).sqrt();
    wide(x).iter().zip(wide(w)).map(|(x, w)| x * w * scale).collect()
}

/// `SwiGlu` -> y [N,I].
#[must_use]
pub fn swi_glu(a: &SwiGluArgs<'_>) -> Vec<f64> {
    let at = |row: usize, column: usize| f64::from(a.x[row * 2 * a.width + column]);
    let places = (0..a.rows).flat_map(|row| (0..a.width).map(move |i| (row, i)));
    let y = places.map(|(row, i)| at(row, i) * sigmoid(at(row, i)) * at(row, a.width + i));
    y.collect()
}

/// Outputs of `DeltaInputs`: q, k, v, g, beta.
#[must_use]
pub fn delta_inputs(a: &DeltaInputsArgs<'_>) -> [Vec<f64>; 5] {
    let [mut q, mut k, mut v] = [const { Vec::new() }; 3];
    let keys = a.key_heads * a.key_dim;
    for row in a.c.chunks(a.channels()) {
        for head in 0..2 * a.key_heads {
            let x = wide(&row[head * a.key_dim..][..a.key_dim]);
            let length = (x.iter().map(|x| x * x).sum::<f64>() + 1e-6).sqrt();
            if head < a.key_heads {
                q.extend(x.iter().map(|x| x / length / (a.key_dim as f64).sqrt()));
            } else {
                k.extend(x.iter().map(|x| x / length));
            }
        }
        v.extend(wide(&row[2 * keys..]));
    }
    let (mut g, mut beta) = (Vec::new(), Vec::new());
    for (i, (step, gate)) in a.a.iter().zip(a.b).enumerate() {
        let head = i % a.value_heads;
        let x = f64::from(*step) + f64::from(a.dt_bias[head]);
        g.push(f64::from(a.decay[head]) * x.exp().ln_1p());
        beta.push(sigmoid(f64::from(*gate)));
    }
    [q, k, v, g, beta]
}

/// `GatedNorm` -> y [N,H*D].
#[must_use]
pub fn gated_norm(a: &GatedNormArgs<'_>) -> Vec<f64> {
    let normed = a.o.chunks(a.head_dim).flat_map(|o| rms_norm(o, a.w, a.epsilon));
    let z = wide(a.z);
    normed.zip(z).map(|(o, z)| o * z * sigmoid(z)).collect()
}

/// `HeadNormRope` -> y [N,H,D].
#[must_use]
pub fn head_norm_rope(a: &HeadNormRopeArgs<'_>) -> Vec<f64> {
    let half = a.rotary / 2;
    let mut y = Vec::new();
    for (i, head) in a.x.chunks(a.stride).enumerate() {
        let row = i / a.heads;
        let x = rms_norm(&head[..a.head_dim], a.w, a.epsilon);
        let mut rotated = x.clone();
        for j in 0..half {
            let (cos, sin) = (f64::from(a.cos[row * half + j]), f64::from(a.sin[row * half + j]));
            rotated[j] = x[j] * cos - x[j + half] * sin;
            rotated[j + half] = x[j + half] * cos + x[j] * sin;
        }
        y.extend(rotated);
    }
    y
}

/// `SigmoidGate` -> y [N,H*D].
#[must_use]
pub fn sigmoid_gate(a: &SigmoidGateArgs<'_>) -> Vec<f64> {
    let gates =
        a.x.chunks(2 * a.head_dim)
            .flat_map(|head| wide(&head[a.head_dim..]));
    wide(a.o)
        .into_iter()
        .zip(gates)
        .map(|(o, x)| o * sigmoid(x))
        .collect()
}

/// `BlockMatMul` -> y [N,M].
#[must_use]
pub fn block_matmul(a: &BlockMatMulArgs<'_>) -> Vec<f64> {
    let number = |at: usize| {
        let q = match a.bits {
            4 => f64::from((a.w[at / 2] >> (4 * (at % 2))) & 15) - 8.0,
            _ => f64::from(a.w[at].cast_signed()),
        };
        q * f64::from(a.scales[at / BLOCK])
    };
    let places = (0..a.rows).flat_map(|row| (0..a.columns).map(move |column| (row, column)));
    let y = places.map(|(row, column)| {
        let products = (0..a.depth).map(|k| f64::from(a.x[row * a.depth + k]) * number(column * a.depth + k));
        products.sum()
    });
    y.collect()
}
