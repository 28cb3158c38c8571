use super::{
    Workspace,
    math::{exp, fma},
    not_a_tree,
    parallel::{Parallel, Shared},
    simd::{Task, dispatch},
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

/// `TreeCausalConv` into `y` [N,CH]: the window of a row is its parent's window moved on by one
/// (`algorithms.md` 5.3), then K multiply-adds a channel and SiLU.
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
    lists.rebuild(args.ancestors, args.rows, |_, _| true);
    if !lists.is_topological() {
        return Err(not_a_tree(ops::TREE_CAUSAL_CONV));
    }
    indices.clear();
    let history = args.taps - 1;
    for row in 0..args.rows {
        let seen = lists.row(row);
        let own = seen.len().min(args.taps);
        let missing = args.taps - own;
        indices.extend((history - missing..history).map(|c| c as u32));
        indices.extend(seen[seen.len() - own..].iter().map(|c| c + history as u32));
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
    fn scratch(&self) -> usize {
        self.args.taps * CHANNELS
    }

    #[inline(always)]
    fn run<const FMA: bool, const W: usize>(&self, index: usize, scratch: &mut [f32]) {
        let a = &self.args;
        let first = index * CHANNELS;
        let count = CHANNELS.min(a.channels - first);
        let weight = &a.weight[first * a.taps..][..count * a.taps];
        let taps = &mut scratch[..a.taps * CHANNELS];
        for (channel, weight) in weight.chunks_exact(a.taps).enumerate() {
            for (tap, weight) in weight.iter().enumerate() {
                taps[tap * CHANNELS + channel] = *weight;
            }
        }
        let history = a.taps - 1;
        for (row, window) in self.windows.chunks_exact(a.taps).enumerate() {
            #[expect(unsafe_code, reason = "tasks own channels, rows are interleaved")]
            // SAFETY: only this task writes these channels, and one row at a time.
            let y = unsafe { self.y.part(row * a.channels + first, count) };
            for (tap, at) in window.iter().enumerate() {
                let at = *at as usize;
                let source = if at < history {
                    &a.past[at * a.channels + first..][..count]
                } else {
                    &a.x[(at - history) * a.channels + first..][..count]
                };
                let taps = &taps[tap * CHANNELS..][..count];
                if tap == 0 {
                    for ((y, x), w) in y.iter_mut().zip(source).zip(taps) {
                        *y = x * w;
                    }
                } else {
                    for ((y, x), w) in y.iter_mut().zip(source).zip(taps) {
                        *y = fma::<FMA>(*x, *w, *y);
                    }
                }
            }
            for y in y.iter_mut() {
                *y /= 1.0 + exp::<FMA>(-*y);
            }
        }
    }
}
