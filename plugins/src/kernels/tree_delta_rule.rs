use super::{
    Workspace,
    math::{Mat, Size, axpy, dots, exp, gemm},
    not_a_tree,
    parallel::{Parallel, Shared},
    paths::ColumnLists,
    simd::{Task, dispatch},
};
use crate::{args::DeltaArgs, error::OperatorError, ops};

/// Rows whose products with the state are formed together.
const BLOCK: usize = 64;

/// Where `TreeDeltaRule` writes.
#[derive(Debug)]
pub struct DeltaOutputs<'a> {
    /// [N,HV,DV]
    pub o: &'a mut [f32],
    /// [N,HV,DV]
    pub u: &'a mut [f32],
    /// [N,HV]
    pub gates: &'a mut [f32],
}

struct Rule<'a> {
    args: DeltaArgs<'a>,
    lists: &'a ColumnLists,
    /// [N,HV], sums of g along the paths.
    gates: &'a [f64],
    o: Shared<'a>,
    u: Shared<'a>,
}

/// `TreeDeltaRule`: forward substitution in row order over ancestor lists (`algorithms.md` 5.4).
///
/// # Errors
/// Refuses arguments that do not fit together and ancestors that are not lower triangular.
pub fn tree_delta_rule(
    args: &DeltaArgs<'_>,
    out: DeltaOutputs<'_>,
    workspace: &mut Workspace,
    parallel: &dyn Parallel,
) -> Result<(), OperatorError> {
    let op = ops::TREE_DELTA_RULE;
    args.check()?;
    super::check_output(op, out.o.len(), args.v.len())?;
    super::check_output(op, out.u.len(), args.v.len())?;
    super::check_output(op, out.gates.len(), args.g.len())?;
    let Workspace { lists, gates, .. } = workspace;
    lists.rebuild(args.ancestors, args.rows, |_, _| true);
    if !lists.is_topological() {
        return Err(not_a_tree(op));
    }
    sum_gates(args, lists, gates);
    for (out, gate) in out.gates.iter_mut().zip(&*gates) {
        *out = *gate as f32;
    }
    let task = Rule {
        args: *args,
        lists,
        gates,
        o: Shared::new(out.o),
        u: Shared::new(out.u),
    };
    dispatch(parallel, args.value_heads, &task);
    Ok(())
}

/// G in float64, from parent to child, so that differences of large sums keep their digits.
fn sum_gates(args: &DeltaArgs<'_>, lists: &ColumnLists, gates: &mut Vec<f64>) {
    let heads = args.value_heads;
    gates.clear();
    gates.extend(args.g.iter().map(|g| f64::from(*g)));
    for row in 0..args.rows {
        if let [.., parent, _] = lists.row(row) {
            let parent = *parent as usize;
            let (before, from) = gates.split_at_mut(row * heads);
            for (gate, parent) in from[..heads].iter_mut().zip(&before[parent * heads..]) {
                *gate += parent;
            }
        }
    }
}

impl Task for Rule<'_> {
    fn scratch(&self) -> usize {
        2 * BLOCK * self.args.value_dim
    }

    #[inline(always)]
    fn run<const FMA: bool, const W: usize>(&self, head: usize, scratch: &mut [f32]) {
        let a = &self.args;
        let dv = a.value_dim;
        let state = Mat {
            data: &a.state[head * a.key_dim * dv..][..a.key_dim * dv],
            stride: dv,
        };
        for first in (0..a.rows).step_by(BLOCK) {
            let rows = BLOCK.min(a.rows - first);
            let (ks, rest) = scratch.split_at_mut(BLOCK * dv);
            let qs = &mut rest[..BLOCK * dv];
            self.state_products::<FMA, W>(head, first, rows, state, ks, qs);
            for row in first..first + rows {
                let at = (row - first) * dv;
                self.substitute::<FMA>(head, row, &mut ks[at..at + dv], &mut qs[at..at + dv]);
            }
        }
    }
}

impl Rule<'_> {
    /// `S0^T k` and `S0^T q` of `rows` rows.
    #[inline(always)]
    fn state_products<const FMA: bool, const W: usize>(
        &self,
        head: usize,
        first: usize,
        rows: usize,
        state: Mat<'_>,
        ks: &mut [f32],
        qs: &mut [f32],
    ) {
        let a = &self.args;
        let size = Size {
            rows,
            columns: a.value_dim,
            depth: a.key_dim,
        };
        let key_head = head / (a.value_heads / a.key_heads);
        let stride = a.key_heads * a.key_dim;
        let start = first * stride + key_head * a.key_dim;
        for (source, target) in [(a.k, ks), (a.q, qs)] {
            target[..rows * a.value_dim].fill(0.0);
            let source = Mat {
                data: &source[start..],
                stride,
            };
            gemm::<FMA, W, false>(size, source, state, target, a.value_dim);
        }
    }

    /// `u` and `o` of one row from its ancestors; `ks` and `qs` hold its products with the state.
    #[inline(always)]
    fn substitute<const FMA: bool>(&self, head: usize, row: usize, ks: &mut [f32], qs: &mut [f32]) {
        let a = &self.args;
        let (heads, dk, dv) = (a.value_heads, a.key_dim, a.value_dim);
        let key_head = head / (heads / a.key_heads);
        let key = |row: usize| &a.k[(row * a.key_heads + key_head) * dk..][..dk];
        let k = key(row);
        let q = &a.q[(row * a.key_heads + key_head) * dk..][..dk];
        let gate = self.gates[row * heads + head];
        let from_root = exp::<FMA>(gate as f32);
        ks.iter_mut().for_each(|x| *x *= from_root);
        qs.iter_mut().for_each(|x| *x *= from_root);
        if let Some((_, ancestors)) = self.lists.row(row).split_last() {
            for ancestor in ancestors {
                let ancestor = *ancestor as usize;
                let decay = exp::<FMA>((gate - self.gates[ancestor * heads + head]) as f32);
                let [kk, qk] = dots::<FMA, 2>([k, q], key(ancestor));
                #[expect(unsafe_code, reason = "tasks own heads of one output")]
                // SAFETY: only this task touches this head; the part is dropped before the next.
                let u = unsafe { self.u.part((ancestor * heads + head) * dv, dv) };
                axpy::<FMA>(decay * kk, u, ks);
                axpy::<FMA>(decay * qk, u, qs);
            }
        }
        let at = (row * heads + head) * dv;
        let beta = a.beta[row * heads + head];
        let [qk] = dots::<FMA, 1>([q], k);
        #[expect(unsafe_code, reason = "tasks own heads of one output")]
        // SAFETY: only this task touches this head of `u` and `o`; parts of earlier rows are dropped.
        let (u, o) = unsafe { (self.u.part(at, dv), self.o.part(at, dv)) };
        let v = &a.v[at..at + dv];
        for ((u, v), known) in u.iter_mut().zip(v).zip(&*ks) {
            *u = beta * (v - known);
        }
        o.copy_from_slice(qs);
        axpy::<FMA>(qk, u, o);
    }
}
