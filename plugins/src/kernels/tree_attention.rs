use super::{
    Workspace,
    math::{axpy, dots, exp},
    parallel::{Parallel, Shared},
    paths::ColumnLists,
    simd::{Task, dispatch},
};
use crate::{args::AttentionArgs, error::OperatorError, ops};

struct Attention<'a> {
    args: AttentionArgs<'a>,
    lists: &'a ColumnLists,
    o: Shared<'a>,
}

/// `TreeAttention` into `o` [N,QH,D].
///
/// # Errors
/// Refuses arguments that do not fit together.
pub fn tree_attention(
    args: &AttentionArgs<'_>,
    o: &mut [f32],
    workspace: &mut Workspace,
    parallel: &dyn Parallel,
) -> Result<(), OperatorError> {
    args.check()?;
    super::check_output(ops::TREE_ATTENTION, o.len(), args.q.len())?;
    let Workspace { lists, .. } = workspace;
    lists.rebuild(args.visible, args.rows, |row, column| {
        args.window == 0 || args.positions[row] - args.positions[column] < args.window
    });
    let task = Attention {
        args: *args,
        lists,
        o: Shared::new(o),
    };
    dispatch(parallel, args.rows * args.heads, &task);
    Ok(())
}

impl Task for Attention<'_> {
    fn scratch(&self) -> usize {
        0
    }

    #[inline(always)]
    fn run<const FMA: bool, const W: usize>(&self, index: usize, _scratch: &mut [f32]) {
        let a = &self.args;
        let (row, head) = (index / a.heads, index % a.heads);
        let d = a.head_dim;
        let kv_head = head / (a.heads / a.kv_heads);
        let q = &a.q[index * d..][..d];
        #[expect(unsafe_code, reason = "tasks own heads of one output")]
        // SAFETY: only this task writes this row and head.
        let o = unsafe { self.o.part(index * d, d) };
        o.fill(0.0);
        let first = if a.window == 0 {
            0
        } else {
            usize::try_from(a.positions[row] - a.window + 1).unwrap_or(0)
        };
        let at = |row: usize| (row * a.kv_heads + kv_head) * d;
        let past = (first..a.past_len).map(|c| (&a.past_k[at(c)..][..d], &a.past_v[at(c)..][..d]));
        let own = self.lists.row(row).iter().map(|c| {
            let c = *c as usize;
            (&a.k[at(c)..][..d], &a.v[at(c)..][..d])
        });
        let (mut max, mut sum) = (-1e30f32, 0.0f32);
        for (key, value) in past.chain(own) {
            let [score] = dots::<FMA, 1>([q], key);
            let score = score * a.scale;
            if score > max {
                let factor = exp::<FMA>(max - score);
                max = score;
                sum *= factor;
                o.iter_mut().for_each(|o| *o *= factor);
            }
            let weight = exp::<FMA>(score - max);
            sum += weight;
            axpy::<FMA>(weight, value, o);
        }
        if sum > 0.0 {
            o.iter_mut().for_each(|o| *o /= sum);
        }
    }
}
