use super::{
    Workspace,
    math::exp,
    not_a_tree,
    parallel::{Parallel, Shared},
    simd::{Isa, Task, dispatch},
};
use crate::{args::ConvArgs, error::OperatorError, ops};

/// Channels of one task: their transposed taps stay in the first-level cache.
const CHANNELS: usize = 256;

struct Conv<'a> {
    args: ConvArgs<'a>,
    /// [N,K] rows of [past; x], oldest first.
    windows: &'a [u32],
    y: Shared<'a>,
}

/// `TreeCausalConv` into `y` [N,CH]: the last K visible columns of [past; x] are a row's window, then
/// come K multiply-adds a channel and SiLU.
///
/// # Errors
/// Refuses arguments that do not fit together and ancestors that are not lower triangular.
pub fn tree_causal_conv(
    args: &ConvArgs<'_>,
    y: &mut [f32],
    workspace: &mut Workspace,
    parallel: &dyn Parallel,
) -> Result<(), OperatorError> {
    args.check()?;
    super::check_output(ops::TREE_CAUSAL_CONV, y.len(), args.x.len())?;
    let Workspace { lists, indices, .. } = workspace;
    lists.rebuild(args.ancestors, args.rows);
    if !lists.is_topological() {
        return Err(not_a_tree(ops::TREE_CAUSAL_CONV));
    }
    indices.clear();
    let history = (args.taps - 1) as u32;
    for row in 0..args.rows {
        let seen = lists.row(row);
        let own = seen.len().min(args.taps);
        let committed = (args.taps - own) as u32;
        indices.extend(history - committed..history);
        indices.extend(seen[seen.len() - own..].iter().map(|column| column + history));
    }
    let task = Conv {
        args: *args,
        windows: indices,
        y: Shared::new(y),
    };
    dispatch(parallel, args.channels.div_ceil(CHANNELS), &task);
    Ok(())
}

impl Task for Conv<'_> {
    fn scratch(&self, _lanes: usize) -> usize {
        self.args.taps * CHANNELS
    }

    fn work(&self) -> usize {
        // SiLU costs about as much as eight taps.
        self.args.x.len() * (self.args.taps + 8)
    }

    #[inline(always)]
    fn run<I: Isa>(&self, isa: I, index: usize, scratch: &mut [f32]) {
        let a = &self.args;
        let first = index * CHANNELS;
        let count = CHANNELS.min(a.channels - first);
        let weight = &a.weight[first * a.taps..][..count * a.taps];
        for (channel, weight) in weight.chunks_exact(a.taps).enumerate() {
            for (tap, weight) in weight.iter().enumerate() {
                scratch[tap * CHANNELS + channel] = *weight;
            }
        }
        for (row, window) in self.windows.chunks_exact(a.taps).enumerate() {
            #[expect(unsafe_code, reason = "tasks own channels, rows are interleaved")]
            // SAFETY: only this task writes these channels, and one row at a time.
            let y = unsafe { self.y.part(row * a.channels + first, count) };
            let mut at = 0;
            while at + I::LANES <= count {
                let mut sum = isa.splat(0.0);
                for (tap, source) in window.iter().enumerate() {
                    let x = isa.load(self.source(*source, first + at, I::LANES));
                    sum = isa.fma(x, isa.load(&scratch[tap * CHANNELS + at..]), sum);
                }
                isa.store(&mut y[at..], silu(isa, sum));
                at += I::LANES;
            }
            // The last channels, one by one in the first lane.
            for at in at..count {
                let sum: f32 = (window.iter().enumerate())
                    .map(|(tap, source)| {
                        self.source(*source, first + at, 1)[0] * scratch[tap * CHANNELS + at]
                    })
                    .sum();
                let mut lanes = [0.0; 16];
                isa.store(&mut lanes, silu(isa, isa.splat(sum)));
                y[at] = lanes[0];
            }
        }
    }
}

impl Conv<'_> {
    /// `len` channels from `first` on of row `source` of [past; x].
    #[inline(always)]
    fn source(&self, source: u32, first: usize, len: usize) -> &[f32] {
        let a = &self.args;
        let source = source as usize;
        let history = a.taps - 1;
        if source < history {
            &a.past[source * a.channels + first..][..len]
        } else {
            &a.x[(source - history) * a.channels + first..][..len]
        }
    }
}

/// `x / (1 + exp(-x))`
#[inline(always)]
fn silu<I: Isa>(isa: I, x: I::V) -> I::V {
    let e = exp(isa, isa.sub(isa.splat(0.0), x));
    isa.div(x, isa.add(isa.splat(1.0), e))
}
