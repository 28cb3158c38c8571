use crate::args::AttentionArgs;

/// `TreeAttention` -> o [N,QH,D]: for every row and head a plain softmax over the keys it may see.
/// A row that sees no key at all gives zeros.
#[must_use]
pub fn tree_attention(a: &AttentionArgs<'_>) -> Vec<f64> {
    let d = a.head_dim;
    let kv_row = a.kv_heads * d;
    let mut o = vec![0.0; a.rows * a.heads * d];
    for i in 0..a.rows {
        for h in 0..a.heads {
            let kv_head = h / (a.heads / a.kv_heads);
            let q = &a.q[(i * a.heads + h) * d..][..d];
            let mut keys: Vec<(&[f32], &[f32])> = Vec::new();
            let near = |position: i64| a.window == 0 || a.positions[i] - position < a.window;
            for c in (0..a.past_len).filter(|c| near(*c as i64)) {
                let at = c * kv_row + kv_head * d;
                keys.push((&a.past_k[at..][..d], &a.past_v[at..][..d]));
            }
            for j in (0..a.rows).filter(|j| a.visible[i * a.rows + j] && near(a.positions[*j])) {
                let at = j * kv_row + kv_head * d;
                keys.push((&a.k[at..][..d], &a.v[at..][..d]));
            }
            let score = |key: &[f32]| {
                let dot: f64 = q
                    .iter()
                    .zip(key)
                    .map(|(x, y)| f64::from(*x) * f64::from(*y))
                    .sum();
                dot * f64::from(a.scale)
            };
            let scores: Vec<f64> = keys.iter().map(|(key, _)| score(key)).collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let out = &mut o[(i * a.heads + h) * d..][..d];
            for (weight, (_, value)) in weights.iter().zip(&keys) {
                for (out, value) in out.iter_mut().zip(*value) {
                    *out += weight / sum * f64::from(*value);
                }
            }
        }
    }
    o
}
