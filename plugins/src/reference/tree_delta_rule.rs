use super::parent;
use crate::args::DeltaArgs;

/// Outputs of [`tree_delta_rule`].
#[derive(Clone, Debug)]
pub struct DeltaResult {
    /// [N,HV,DV]
    pub o: Vec<f64>,
    /// [N,HV,DV]
    pub u: Vec<f64>,
    /// [N,HV]
    pub gates: Vec<f64>,
    /// State after every row, [N,HV,DK,DV]: what committing the path that ends there must give.
    pub states: Vec<f64>,
}

/// `TreeDeltaRule`: the recurrence of `algorithms.md` 5.2, one state per row, a child starts from a copy
/// of its parent's state.
#[must_use]
pub fn tree_delta_rule(a: &DeltaArgs<'_>) -> DeltaResult {
    let (dk, dv) = (a.key_dim, a.value_dim);
    let size = dk * dv;
    let mut o = vec![0.0; a.rows * a.value_heads * dv];
    let mut u = o.clone();
    let mut gates = vec![0.0; a.rows * a.value_heads];
    let mut states = vec![0.0; a.rows * a.value_heads * size];
    for i in 0..a.rows {
        for h in 0..a.value_heads {
            let key_head = h / (a.value_heads / a.key_heads);
            let q = &a.q[(i * a.key_heads + key_head) * dk..][..dk];
            let k = &a.k[(i * a.key_heads + key_head) * dk..][..dk];
            let v = &a.v[(i * a.value_heads + h) * dv..][..dv];
            let g = f64::from(a.g[i * a.value_heads + h]);
            let beta = f64::from(a.beta[i * a.value_heads + h]);
            let (mut state, gate): (Vec<f64>, f64) = match parent(a.ancestors, a.rows, i) {
                Some(p) => (
                    states[(p * a.value_heads + h) * size..][..size].to_vec(),
                    gates[p * a.value_heads + h],
                ),
                None => (
                    a.state[h * size..][..size]
                        .iter()
                        .map(|s| f64::from(*s))
                        .collect(),
                    0.0,
                ),
            };
            state.iter_mut().for_each(|s| *s *= g.exp());
            let mut delta = vec![0.0; dv];
            for (column, delta) in delta.iter_mut().enumerate() {
                let predicted: f64 = (0..dk)
                    .map(|row| f64::from(k[row]) * state[row * dv + column])
                    .sum();
                *delta = beta * (f64::from(v[column]) - predicted);
            }
            for row in 0..dk {
                for column in 0..dv {
                    state[row * dv + column] += f64::from(k[row]) * delta[column];
                }
            }
            let at = (i * a.value_heads + h) * dv;
            for column in 0..dv {
                o[at + column] = (0..dk)
                    .map(|row| f64::from(q[row]) * state[row * dv + column])
                    .sum();
            }
            u[at..at + dv].copy_from_slice(&delta);
            gates[i * a.value_heads + h] = gate + g;
            states[(i * a.value_heads + h) * size..][..size].copy_from_slice(&state);
        }
    }
    DeltaResult { o, u, gates, states }
}
