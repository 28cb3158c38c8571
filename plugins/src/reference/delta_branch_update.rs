use crate::args::UpdateArgs;

/// `DeltaBranchUpdate` -> state' [HV,DK,DV]: walks the path, decaying the state and adding `k u^T` row by
/// row. The decay of a row is the step of `G` along the path, the first one counted from 0.
#[must_use]
pub fn delta_branch_update(a: &UpdateArgs<'_>) -> Vec<f64> {
    let (dk, dv) = (a.key_dim, a.value_dim);
    let mut state: Vec<f64> = a.state.iter().map(|s| f64::from(*s)).collect();
    for h in 0..a.value_heads {
        let key_head = h / (a.value_heads / a.key_heads);
        let state = &mut state[h * dk * dv..][..dk * dv];
        let mut before = 0.0;
        for row in a.path {
            let row = usize::try_from(*row).expect("checked path");
            let gate = f64::from(a.gates[row * a.value_heads + h]);
            let k = &a.k[(row * a.key_heads + key_head) * dk..][..dk];
            let u = &a.u[(row * a.value_heads + h) * dv..][..dv];
            for (x, k) in k.iter().enumerate() {
                for (y, u) in u.iter().enumerate() {
                    let s = &mut state[x * dv + y];
                    *s = *s * (gate - before).exp() + f64::from(*k) * f64::from(*u);
                }
            }
            before = gate;
        }
    }
    state
}
