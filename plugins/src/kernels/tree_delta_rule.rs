use super::{
    Workspace,
    math::{Mat, Size, combine, dots, exp, exp1, gemm, gemm_transposed},
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
    lists.rebuild(args.ancestors, args.rows);
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

/// Scratch memory of one piece. Rows are copied together: in the inputs the rows of a head lie a power of
/// two apart and would share few cache sets. The copies hold `span` rows.
struct Buffers<'s> {
    /// Rows of k and q, alternating: [2 span, DK].
    keys: &'s mut [f32],
    /// Rows of u: [span, DV].
    deltas: &'s mut [f32],
    /// Products of k and q of a block with the state: [2 BLOCK, DV].
    products: &'s mut [f32],
    /// Decays of the ancestors of one row, then their factors for u and for o: [3, span + vector].
    factors: &'s mut [f32],
    /// The state carried along a chain: [DK, DV].
    state: &'s mut [f32],
    /// See [`gemm_transposed`].
    pack: &'s mut [f32],
}

/// The rows that are worked on together.
#[derive(Clone, Copy)]
struct Block {
    head: usize,
    first: usize,
    rows: usize,
    /// Ancestors before this row are in the state already, together with the gates up to `base`; copies of
    /// rows start here.
    origin: usize,
    base: f64,
}

impl Task for Rule<'_> {
    fn scratch(&self, lanes: usize) -> usize {
        let a = &self.args;
        self.span() * (2 * a.key_dim + a.value_dim)
            + 2 * BLOCK * a.value_dim
            + 3 * (self.span() + lanes)
            + a.key_dim * a.value_dim
            + BLOCK * 4 * lanes
    }

    fn work(&self) -> usize {
        let a = &self.args;
        let pairs = self.lists.pairs() * (a.key_dim + a.value_dim);
        2 * a.value_heads * (a.rows * a.key_dim * a.value_dim + pairs)
    }

    #[inline(always)]
    fn run<I: Isa>(&self, isa: I, head: usize, scratch: &mut [f32]) {
        let a = &self.args;
        let (span, size) = (self.span(), a.key_dim * a.value_dim);
        let (keys, rest) = scratch.split_at_mut(2 * span * a.key_dim);
        let (deltas, rest) = rest.split_at_mut(span * a.value_dim);
        let (products, rest) = rest.split_at_mut(2 * BLOCK * a.value_dim);
        let (factors, rest) = rest.split_at_mut(3 * (span + I::LANES));
        let (state, pack) = rest.split_at_mut(size);
        let mut buffers = Buffers {
            keys,
            deltas,
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
                    Some(before) if self.chain => self.gate(head, before),
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
    /// Rows of which copies are kept.
    fn span(&self) -> usize {
        if self.chain { BLOCK } else { self.args.rows }
    }

    #[inline(always)]
    fn gate(&self, head: usize, row: usize) -> f64 {
        self.gates[row * self.args.value_heads + head]
    }

    /// Copies k and q of the rows of a block and multiplies them with the state.
    #[inline(always)]
    fn state_products<I: Isa>(&self, isa: I, block: Block, committed: &[f32], buffers: &mut Buffers<'_>) {
        let a = &self.args;
        let (dk, dv) = (a.key_dim, a.value_dim);
        let key_head = block.head / (a.value_heads / a.key_heads);
        let start = 2 * (block.first - block.origin) * dk;
        let pairs = buffers.keys[start..].chunks_exact_mut(2 * dk);
        for (pair, row) in pairs.zip(block.first..block.first + block.rows) {
            let at = (row * a.key_heads + key_head) * dk;
            pair[..dk].copy_from_slice(&a.k[at..][..dk]);
            pair[dk..].copy_from_slice(&a.q[at..][..dk]);
        }
        let size = Size {
            rows: 2 * block.rows,
            columns: dv,
            depth: dk,
        };
        let keys = Mat {
            data: &buffers.keys[start..],
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
        let (head, dk, dv) = (block.head, a.key_dim, a.value_dim);
        let own = row - block.origin;
        let gate = self.gate(head, row);
        let from_state = exp1(isa, (gate - block.base) as f32);
        let pair = 2 * (row - block.first) * dv;
        let sums = &mut buffers.products[pair..pair + 2 * dv];
        sums.iter_mut().for_each(|x| *x *= from_state);

        let ancestors = self.lists.row(row);
        // A chain's list is 0, 1, .., so that the ancestors inside the block start at its origin.
        let ancestors = &ancestors[block.origin..ancestors.len() - 1];
        let count = ancestors.len();
        let stride = self.span() + I::LANES;
        let (decays, factors) = buffers.factors.split_at_mut(stride);
        let padded = count.next_multiple_of(I::LANES);
        decays[count..padded].fill(0.0);
        for (decay, ancestor) in decays.iter_mut().zip(ancestors) {
            *decay = (gate - self.gate(head, *ancestor as usize)) as f32;
        }
        for decay in decays[..padded].chunks_exact_mut(I::LANES) {
            let e = exp(isa, isa.load(decay));
            isa.store(decay, e);
        }
        let (k, q) = buffers.keys[2 * own * dk..][..2 * dk].split_at(dk);
        let key = |at: usize| &buffers.keys[2 * (ancestors[at] as usize - block.origin) * dk..][..dk];
        let mut at = 0;
        while at + 4 <= count {
            let keys = [key(at), key(at + 1), key(at + 2), key(at + 3)];
            let found = dots(isa, [k, q], keys);
            for (b, decay) in decays[at..at + 4].iter().enumerate() {
                factors[at + b] = -decay * found[0][b];
                factors[stride + at + b] = decay * found[1][b];
            }
            at += 4;
        }
        while at < count {
            let [[kk], [qk]] = dots(isa, [k, q], [key(at)]);
            factors[at] = -decays[at] * kk;
            factors[stride + at] = decays[at] * qk;
            at += 1;
        }
        // Everything known of v is subtracted: negate the state's part, the factors are negative already.
        sums[..dv].iter_mut().for_each(|x| *x = -*x);
        let factors = Mat {
            data: factors,
            stride,
        };
        let (before, from) = buffers.deltas.split_at_mut(own * dv);
        let u = |at: usize| &before[(ancestors[at] as usize - block.origin) * dv..][..dv];
        combine::<I, 2>(isa, factors, count, u, sums, dv);
        let (unknown, o_sum) = sums.split_at(dv);

        let at = (row * a.value_heads + head) * dv;
        let beta = a.beta[row * a.value_heads + head];
        let [[qk]] = dots(isa, [q], [k]);
        #[expect(unsafe_code, reason = "tasks own heads of one output")]
        // SAFETY: only this task touches this head, and takes this row of `o` and `u` once.
        let (o, u) = unsafe { (self.o.part(at, dv), self.u.part(at, dv)) };
        for ((delta, v), unknown) in from[..dv].iter_mut().zip(&a.v[at..]).zip(unknown) {
            *delta = beta * (v + unknown);
        }
        u.copy_from_slice(&from[..dv]);
        for ((o, o_sum), delta) in o.iter_mut().zip(o_sum).zip(&*from) {
            *o = o_sum + qk * delta;
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
        for (at, delta) in buffers.deltas.chunks_exact_mut(dv).enumerate() {
            let weight = exp1(isa, (last - self.gate(head, block.first + at)) as f32);
            delta.iter_mut().for_each(|x| *x *= weight);
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
            data: buffers.deltas,
            stride: dv,
        };
        gemm_transposed(isa, size, keys, deltas, buffers.state, dv, buffers.pack);
    }
}
