use super::{
    math::{Mat, Size, exp1, gemm_transposed},
    parallel::{Parallel, Shared},
    simd::{Isa, Task, dispatch},
};
use crate::{args::UpdateArgs, error::OperatorError, ops};

struct Update<'a> {
    args: UpdateArgs<'a>,
    state: Shared<'a>,
}

/// `DeltaBranchUpdate` into `state` [HV,DK,DV]: one pass over the state, which is decayed and updated with
/// all rows of the path at once (`algorithms.md` 5.5).
///
/// # Errors
/// Refuses arguments that do not fit together.
pub fn delta_branch_update(
    args: &UpdateArgs<'_>,
    state: &mut [f32],
    parallel: &dyn Parallel,
) -> Result<(), OperatorError> {
    args.check()?;
    super::check_output(ops::DELTA_BRANCH_UPDATE, state.len(), args.state.len())?;
    let task = Update {
        args: *args,
        state: Shared::new(state),
    };
    dispatch(parallel, args.value_heads, &task);
    Ok(())
}

impl Task for Update<'_> {
    fn scratch(&self, lanes: usize) -> usize {
        self.args.path.len() * (self.args.key_dim + self.args.value_dim + 4 * lanes)
    }

    fn work(&self) -> usize {
        self.args.state.len() * (1 + self.args.path.len())
    }

    #[inline(always)]
    fn run<I: Isa>(&self, isa: I, head: usize, scratch: &mut [f32]) {
        let a = &self.args;
        let (dk, dv) = (a.key_dim, a.value_dim);
        let key_head = head / (a.value_heads / a.key_heads);
        let (keys, rest) = scratch.split_at_mut(a.path.len() * dk);
        let (deltas, pack) = rest.split_at_mut(a.path.len() * dv);
        let gate = |row: usize| a.gates[row * a.value_heads + head];
        let rows = || a.path.iter().map(|row| *row as usize);
        let last = rows().next_back().map_or(0.0, gate);
        for (at, row) in rows().enumerate() {
            let weight = exp1(isa, last - gate(row));
            keys[at * dk..][..dk].copy_from_slice(&a.k[(row * a.key_heads + key_head) * dk..][..dk]);
            let u = &a.u[(row * a.value_heads + head) * dv..][..dv];
            for (delta, u) in deltas[at * dv..][..dv].iter_mut().zip(u) {
                *delta = weight * u;
            }
        }
        #[expect(unsafe_code, reason = "tasks own heads of one output")]
        // SAFETY: only this task writes this head, and takes it once.
        let state = unsafe { self.state.part(head * dk * dv, dk * dv) };
        let decay = exp1(isa, last);
        for (new, old) in state.iter_mut().zip(&a.state[head * dk * dv..][..dk * dv]) {
            *new = decay * old;
        }
        let size = Size {
            rows: dk,
            columns: dv,
            depth: a.path.len(),
        };
        let keys = Mat {
            data: keys,
            stride: dk,
        };
        let deltas = Mat {
            data: deltas,
            stride: dv,
        };
        gemm_transposed(isa, size, keys, deltas, state, dv, pack);
    }
}
