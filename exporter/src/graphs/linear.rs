//! Linear layers: projections that share an input, the MLP, norm weights.

use super::net::Net;
use crate::ExportError;
use crate::weights::{Store, Transform};
use forkcast_engines::manifest::Dtype;
use forkcast_plugins::ops::fused;

/// Projections of one input: a layer's tensors `{prefix}{name}.weight`, `[rows, inputs]` each.
pub(super) struct Projections<'a> {
    /// What stands before the names.
    pub(super) prefix: &'a str,
    /// Name of the stack, where the tensors are stacked.
    pub(super) stacked: &'a str,
    /// Name and rows of each projection.
    pub(super) parts: &'a [(&'a str, usize)],
    /// Width of the input.
    pub(super) inputs: usize,
    /// Name of the first result where it is a graph output.
    pub(super) output: Option<&'a str>,
}

/// Applies projections to `x` `[N, inputs]`. Tensors that are written anyway are stacked into one `Gemm`.
pub(super) fn project(
    net: &mut Net,
    store: &mut Store<'_>,
    x: &str,
    p: &Projections<'_>,
) -> Result<Vec<String>, ExportError> {
    match project_stacked(net, store, x, p)? {
        Some(y) => {
            let sizes: Vec<usize> = p.parts.iter().map(|(_, rows)| *rows).collect();
            Ok(net.split_named(&y, &sizes, 1, p.output))
        }
        None => project_singly(net, store, x, p),
    }
}

impl Projections<'_> {
    /// Tensors with their rows.
    fn tensors(&self) -> Vec<(String, usize)> {
        let parts = self.parts.iter();
        parts
            .map(|(name, rows)| (format!("{}{name}.weight", self.prefix), *rows))
            .collect()
    }
}

/// All projections side by side, `[N, sum of rows]`, where the tensors can be stacked.
fn project_stacked(
    net: &mut Net,
    store: &mut Store<'_>,
    x: &str,
    p: &Projections<'_>,
) -> Result<Option<String>, ExportError> {
    let Some(placed) = store.stack(&p.tensors(), p.inputs, net.dtype)? else {
        return Ok(None);
    };
    let name = format!("{}{}.weight", p.prefix, p.stacked);
    Ok(Some(net.matmul(x, &name, &placed, None, None)))
}

/// Every projection by itself.
fn project_singly(
    net: &mut Net,
    store: &mut Store<'_>,
    x: &str,
    p: &Projections<'_>,
) -> Result<Vec<String>, ExportError> {
    let mut output = p.output;
    p.tensors()
        .iter()
        .map(|(name, rows)| {
            let matrix = store.matrix(name, [*rows, p.inputs], net.dtype)?;
            Ok(net.matmul(x, name, &matrix, None, output.take()))
        })
        .collect()
}

/// One linear layer `x Wᵀ (+ residual)`; `shape` is `[out, in]`.
pub(super) fn linear(
    net: &mut Net,
    store: &mut Store<'_>,
    x: &str,
    name: &str,
    shape: [usize; 2],
    residual: Option<&str>,
) -> Result<String, ExportError> {
    let matrix = store.matrix(name, shape, net.dtype)?;
    Ok(net.matmul(x, name, &matrix, residual, None))
}

/// Weight of a norm, float32 `[width]`; with `add_one` as `1 + w`.
pub(super) fn norm_weight(
    net: &mut Net,
    store: &mut Store<'_>,
    name: &str,
    width: usize,
    add_one: bool,
) -> Result<String, ExportError> {
    let transform = if add_one {
        Transform::AddOne
    } else {
        Transform::None
    };
    let placed = store.place(name, &[width], Dtype::F32, transform)?;
    Ok(net.weight(name, &placed))
}

/// `x + down(silu(gate(n)) * up(n))`, where `n` is the normed `x`: `[N, hidden] -> [N, hidden]`.
pub(super) fn mlp(
    net: &mut Net,
    store: &mut Store<'_>,
    prefix: &str,
    x: &str,
    n: &str,
    [hidden, intermediate]: [usize; 2],
) -> Result<String, ExportError> {
    let projections = Projections {
        prefix: &format!("{prefix}mlp."),
        stacked: "gate_up_proj",
        parts: &[("gate_proj", intermediate), ("up_proj", intermediate)],
        inputs: hidden,
        output: None,
    };
    let y = match project_stacked(net, store, n, &projections)? {
        Some(both) if net.fuses() => {
            let y = net.fresh("swi_glu");
            net.fused(fused::SWI_GLU, &[&both], &[&y], Vec::new());
            y
        }
        stacked => {
            let parts = match stacked {
                Some(both) => net.split(&both, &[intermediate, intermediate], 1),
                None => project_singly(net, store, n, &projections)?,
            };
            let gate = net.silu(&parts[0]);
            net.op("Mul", &[&gate, &parts[1]])
        }
    };
    let name = format!("{prefix}mlp.down_proj.weight");
    linear(net, store, &y, &name, [hidden, intermediate], Some(x))
}
