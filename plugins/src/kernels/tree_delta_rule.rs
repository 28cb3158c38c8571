use super::{
    Workspace,
    math::{Mat, Size, combine, dots, exp1, gemm, gemm_transposed},
    not_a_tree,
    parallel::{Parallel, Shared},
    paths::ColumnLists,
    simd::{Isa, Task, dispatch},
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
    /// The rows are a chain longer than a block.
    chain: bool,
    o: Shared<'a>,
    u: Shared<'a>,
}

/// `TreeDeltaRule`: forward substitution in row order over ancestor lists (`algorithms.md` 5.4). A chain
/// (a prompt) is processed in blocks of [`BLOCK`] rows with the state carried from block to block and
/// the gates restarted (`qwen.md` 3.8), which costs N * 64 instead of N^2.
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
        chain: args.rows > BLOCK && lists.is_chain(),
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

/// Scratch memory of one piece.
struct Buffers<'s> {
    /// Rows of k and q of a block, alternating: [2 BLOCK, DK].
    keys: &'s mut [f32],
    /// Their products with the state: [2 BLOCK, DV].
    products: &'s mut [f32],
    /// Factors of the ancestors of one row, for u and for o: [2, N].
    factors: &'s mut [f32],
    /// The state carried along a chain: [DK, DV].
    state: &'s mut [f32],
    /// See [`gemm_transposed`].
    pack: &'s mut [f32],
}

/// The part of a path that a block of rows works on.
#[derive(Clone, Copy)]
struct Block {
    head: usize,
    first: usize,
    rows: usize,
    /// Ancestors before this row are in the state already, together with the gates up to `base`.
    origin: usize,
    base: f64,
}

impl Task for Rule<'_> {
    fn scratch(&self, lanes: usize) -> usize {
        let a = &self.args;
        2 * BLOCK * (a.key_dim + a.value_dim + lanes) + 2 * a.rows + a.key_dim * a.value_dim
    }

    #[inline(always)]
    fn run<I: Isa>(&self, isa: I, head: usize, scratch: &mut [f32]) {
        let a = &self.args;
        let size = a.key_dim * a.value_dim;
        let (keys, rest) = scratch.split_at_mut(2 * BLOCK * a.key_dim);
        let (products, rest) = rest.split_at_mut(2 * BLOCK * a.value_dim);
        let (factors, rest) = rest.split_at_mut(2 * a.rows);
        let (state, pack) = rest.split_at_mut(size);
        let mut buffers = Buffers {
            keys,
            products,
            factors,
            state,
            pack,
        };
        let committed = &a.state[head * size..][..size];
        if self.chain {
            buffers.state.copy_from_slice(committed);
        }
        for first in (0..a.rows).step_by(BLOCK) {
            let block = Block {
                head,
                first,
                rows: BLOCK.min(a.rows - first),
                origin: if self.chain { first } else { 0 },
                base: match first.checked_sub(1) {
                    Some(before) if self.chain => self.gates[before * a.value_heads + head],
                    _ => 0.0,
                },
            };
            self.state_products(isa, block, committed, &mut buffers);
            for row in first..first + block.rows {
                self.substitute(isa, block, row, &mut buffers);
            }
            if self.chain && first + block.rows < a.rows {
                self.carry(isa, block, &mut buffers);
            }
        }
    }
}

impl Rule<'_> {
    #[inline(always)]
    fn key_head(&self, head: usize) -> usize {
        head / (self.args.value_heads / self.args.key_heads)
    }

    /// Row of `k` or `q`.
    #[inline(always)]
    fn key_row<'k>(&self, keys: &'k [f32], head: usize, row: usize) -> &'k [f32] {
        let a = &self.args;
        &keys[(row * a.key_heads + self.key_head(head)) * a.key_dim..][..a.key_dim]
    }

    #[inline(always)]
    fn gate(&self, head: usize, row: usize) -> f64 {
        self.gates[row * self.args.value_heads + head]
    }

    /// A finished row of `u`.
    #[inline(always)]
    fn u_row(&self, head: usize, row: usize) -> &[f32] {
        let a = &self.args;
        #[expect(unsafe_code, reason = "tasks own heads of one output")]
        // SAFETY: only this task touches this head, and it writes a row before it reads that row.
        unsafe {
            self.u
                .part((row * a.value_heads + head) * a.value_dim, a.value_dim)
        }
    }

    /// Products of the state with k and q of the rows of a block.
    #[inline(always)]
    fn state_products<I: Isa>(&self, isa: I, block: Block, committed: &[f32], buffers: &mut Buffers<'_>) {
        let a = &self.args;
        let (dk, dv) = (a.key_dim, a.value_dim);
        for (pair, row) in (block.first..block.first + block.rows).enumerate() {
            let (k, q) = buffers.keys[2 * pair * dk..][..2 * dk].split_at_mut(dk);
            k.copy_from_slice(self.key_row(a.k, block.head, row));
            q.copy_from_slice(self.key_row(a.q, block.head, row));
        }
        let size = Size {
            rows: 2 * block.rows,
            columns: dv,
            depth: dk,
        };
        let keys = Mat {
            data: buffers.keys,
            stride: dk,
        };
        let state = Mat {
            data: if self.chain { buffers.state } else { committed },
            stride: dv,
        };
        buffers.products[..size.rows * dv].fill(0.0);
        gemm(isa, size, keys, state, buffers.products, dv);
    }

    /// `u` and `o` of one row from its ancestors and its products with the state.
    #[inline(always)]
    fn substitute<I: Isa>(&self, isa: I, block: Block, row: usize, buffers: &mut Buffers<'_>) {
        let a = &self.args;
        let (head, dv) = (block.head, a.value_dim);
        let k = self.key_row(a.k, head, row);
        let q = self.key_row(a.q, head, row);
        let gate = self.gate(head, row);
        let pair = 2 * (row - block.first) * dv;
        let sums = &mut buffers.products[pair..pair + 2 * dv];
        let from_state = exp1(isa, (gate - block.base) as f32);
        sums.iter_mut().for_each(|x| *x *= from_state);

        let ancestors = self.lists.row(row);
        let ancestors = &ancestors[..ancestors.len() - 1];
        // A chain's list is 0, 1, .., so that the ancestors inside the block start at its origin.
        let ancestors = &ancestors[block.origin..];
        let (for_u, for_o) = buffers.factors.split_at_mut(a.rows);
        let mut at = 0;
        let ancestor_key = |at: usize| self.key_row(a.k, head, ancestors[at] as usize);
        while at + 4 <= ancestors.len() {
            let keys = [
                ancestor_key(at),
                ancestor_key(at + 1),
                ancestor_key(at + 2),
                ancestor_key(at + 3),
            ];
            let [kk, qk] = dots(isa, [k, q], keys);
            for_u[at..at + 4].copy_from_slice(&kk);
            for_o[at..at + 4].copy_from_slice(&qk);
            at += 4;
        }
        for at in at..ancestors.len() {
            let [[kk], [qk]] = dots(isa, [k, q], [ancestor_key(at)]);
            for_u[at] = kk;
            for_o[at] = qk;
        }
        for (at, ancestor) in ancestors.iter().enumerate() {
            let decay = exp1(isa, (gate - self.gate(head, *ancestor as usize)) as f32);
            for_u[at] *= decay;
            for_o[at] *= decay;
        }
        let factors = Mat {
            data: buffers.factors,
            stride: a.rows,
        };
        let u = |at: usize| self.u_row(head, ancestors[at] as usize);
        combine::<I, 2>(isa, factors, ancestors.len(), u, sums, dv);
        let (known, o_sum) = sums.split_at(dv);

        let at = (row * a.value_heads + head) * dv;
        let beta = a.beta[row * a.value_heads + head];
        let [[qk]] = dots(isa, [q], [k]);
        #[expect(unsafe_code, reason = "tasks own heads of one output")]
        // SAFETY: only this task touches this head; it takes this row of `o` and `u` once to write, and
        // the parts of `u` that were read are other rows.
        let (o, u) = unsafe { (self.o.part(at, dv), self.u.part(at, dv)) };
        for ((u, o), (known, (o_sum, v))) in
            (u.iter_mut().zip(o)).zip(known.iter().zip(o_sum.iter().zip(&a.v[at..])))
        {
            *u = beta * (v - known);
            *o = o_sum + qk * *u;
        }
    }

    /// Moves the carried state behind the block: `exp(G_last) S + sum_j exp(G_last - G_j) k_j u_j^T`.
    #[inline(always)]
    fn carry<I: Isa>(&self, isa: I, block: Block, buffers: &mut Buffers<'_>) {
        let a = &self.args;
        let (head, dk, dv) = (block.head, a.key_dim, a.value_dim);
        let last = self.gate(head, block.first + block.rows - 1);
        let decay = exp1(isa, (last - block.base) as f32);
        buffers.state.iter_mut().for_each(|s| *s *= decay);
        for (at, row) in (block.first..block.first + block.rows).enumerate() {
            let weight = exp1(isa, (last - self.gate(head, row)) as f32);
            let u = self.u_row(head, row);
            for (weighted, u) in buffers.products[at * dv..][..dv].iter_mut().zip(u) {
                *weighted = weight * u;
            }
        }
        let size = Size {
            rows: dk,
            columns: dv,
            depth: block.rows,
        };
        let keys = Mat {
            // Every second row is q.
            data: buffers.keys,
            stride: 2 * dk,
        };
        let deltas = Mat {
            data: buffers.products,
            stride: dv,
        };
        gemm_transposed(isa, size, keys, deltas, buffers.state, dv, buffers.pack);
    }
}
