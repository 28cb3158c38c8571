//! Linear layers: projections that share an input, the MLP, norm weights.

use super::net::Net;
use crate::ExportError;
use crate::weights::{Store, Transform};
use forkcast_engines::manifest::Dtype;
use forkcast_plugins::onnx::attr_i;

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
    let names: Vec<(String, usize)> = p
        .parts
        .iter()
        .map(|(name, rows)| (format!("{}{name}.weight", p.prefix), *rows))
        .collect();
    if let Some(placed) = store.stack(&names, p.inputs, net.dtype)? {
        let w = net.weight(&format!("{}{}.weight", p.prefix, p.stacked), &placed);
        let y = net.gemm(x, &w, None);
        let sizes: Vec<usize> = p.parts.iter().map(|(_, rows)| *rows).collect();
        return Ok(net.split_named(&y, &sizes, 1, p.output));
    }
    let mut output = p.output;
    names
        .iter()
        .map(|(name, rows)| {
            let placed = store.place(name, &[*rows, p.inputs], net.dtype, Transform::None)?;
            let w = net.weight(name, &placed);
            Ok(match output.take() {
                Some(output) => {
                    net.named("Gemm", &[x, &w], output, vec![attr_i("transB", 1)]);
                    output.to_owned()
                }
                None => net.gemm(x, &w, None),
            })
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
    let placed = store.place(name, &shape, net.dtype, Transform::None)?;
    let w = net.weight(name, &placed);
    Ok(net.gemm(x, &w, residual))
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
    let parts = project(
        net,
        store,
        n,
        &Projections {
            prefix: &format!("{prefix}mlp."),
            stacked: "gate_up_proj",
            parts: &[("gate_proj", intermediate), ("up_proj", intermediate)],
            inputs: hidden,
            output: None,
        },
    )?;
    let [gate, up] = parts.as_slice() else {
        unreachable!("two projections were asked for");
    };
    let gate = net.silu(gate);
    let y = net.op("Mul", &[&gate, up]);
    let name = format!("{prefix}mlp.down_proj.weight");
    linear(net, store, &y, &name, [hidden, intermediate], Some(x))
}
