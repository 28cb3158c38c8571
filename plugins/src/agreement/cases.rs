//! Random calls of every operator.

use super::Geometry;
use crate::args::BLOCK;
use crate::onnx::{attr_f, attr_i, proto::AttributeProto};
use crate::ops;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A tensor on its way into a session.
#[derive(Clone, Debug)]
pub(super) enum Data {
    F32(Vec<usize>, Vec<f32>),
    U8(Vec<usize>, Vec<u8>),
    I64(Vec<usize>, Vec<i64>),
    Bool(Vec<usize>, Vec<bool>),
}

/// A call of one operator.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) operator: &'static str,
    pub(super) feeds: Vec<(&'static str, Data)>,
    /// Names and ranks.
    pub(super) outputs: &'static [(&'static str, usize)],
    pub(super) attributes: Vec<AttributeProto>,
    /// Parent of each row; row 0 is the root.
    parents: Vec<usize>,
}

impl Case {
    /// Largest cumulative gate of the call: `G` among its outputs or inputs; 0 without gates.
    pub(super) fn gates(&self, outputs: &[Vec<f32>]) -> f64 {
        let out = self.outputs.iter().position(|(name, _)| *name == "G");
        let inside = self.feeds.iter().find_map(|(name, data)| match data {
            Data::F32(_, values) if *name == "G" => Some(values),
            _ => None,
        });
        let values = out.and_then(|i| outputs.get(i)).or(inside);
        values.map_or(0.0, |v| v.iter().fold(0.0f64, |m, g| m.max(f64::from(g.abs()))))
    }

    fn feed(&self, name: &str) -> Option<&Data> {
        self.feeds.iter().find(|(n, _)| *n == name).map(|(_, d)| d)
    }
}

/// Numbers that a seed decides.
pub(super) struct Dice(ChaCha8Rng);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n.max(1) as u64) as usize
    }

    /// Uniform in [low, low + width).
    fn between(&mut self, low: f32, width: f32, len: usize) -> Vec<f32> {
        (0..len)
            .map(|_| low + width * (self.0.next_u32() >> 8) as f32 / (1 << 24) as f32)
            .collect()
    }

    fn uniform(&mut self, len: usize) -> Vec<f32> {
        self.between(-1.0, 2.0, len)
    }

    /// Parents of a tree; paths have at most 16 rows, or the tree is one chain.
    fn tree(&mut self, rows: usize) -> Vec<usize> {
        if self.below(4) == 0 {
            return (0..rows).map(|i: usize| i.saturating_sub(1)).collect();
        }
        let (mut parents, mut depths) = (vec![0], vec![1]);
        while parents.len() < rows {
            let newest = parents.len();
            let low = newest.saturating_sub(6);
            let mut parent = low + self.below(newest - low);
            while depths[parent] >= 16 {
                parent = parents[parent];
            }
            depths.push(depths[parent] + 1);
            parents.push(parent);
        }
        parents
    }
}

/// Rows from the root to `row`.
fn path(parents: &[usize], row: usize) -> Vec<usize> {
    let mut path = vec![row];
    let mut at = row;
    while at != 0 {
        at = parents[at];
        path.push(at);
    }
    path.reverse();
    path
}

fn ancestors(parents: &[usize]) -> Data {
    let n = parents.len();
    let mut mask = vec![false; n * n];
    for row in 0..n {
        path(parents, row)
            .iter()
            .for_each(|seen| mask[row * n + seen] = true);
    }
    Data::Bool(vec![n, n], mask)
}

/// Calls of a layer's operators that need no other's results.
pub(super) fn first(dice: &mut Dice, geometry: Geometry, rows: usize) -> Vec<Case> {
    match geometry {
        Geometry::Attention {
            heads,
            kv_heads,
            head_dim,
        } => vec![
            attention(dice, rows, heads, kv_heads, head_dim),
            head_norm_rope(dice, rows, heads, head_dim),
            sigmoid_gate(dice, rows, heads, head_dim),
            swi_glu(dice, rows, heads * head_dim),
        ],
        Geometry::Delta {
            key_heads,
            value_heads,
            key_dim,
            value_dim,
            taps,
        } => {
            let channels = 2 * key_heads * key_dim + value_heads * value_dim;
            vec![
                conv(dice, rows, channels, taps),
                delta(dice, rows, [key_heads, value_heads, key_dim, value_dim]),
                delta_inputs(dice, rows, [key_heads, value_heads, key_dim, value_dim]),
                gated_norm(dice, rows, value_heads, value_dim),
            ]
        }
        Geometry::Blocks { depth, columns, bits } => vec![block_matmul(dice, rows, [depth, columns, bits])],
    }
}

fn attention(dice: &mut Dice, rows: usize, heads: usize, kv_heads: usize, dim: usize) -> Case {
    let parents = dice.tree(rows);
    let past = dice.below(100);
    let capacity = past + dice.below(8);
    let window = [0, 0, 5, 64][dice.below(4)];
    let kv = kv_heads * dim;
    let q = dice.between(-3.0, 6.0, rows * heads * dim);
    let cache = |dice: &mut Dice| {
        let mut values = dice.uniform(capacity * kv);
        // Rows that are not committed may hold anything.
        values[past * kv..].fill(f32::NAN);
        Data::F32(vec![capacity, kv_heads, dim], values)
    };
    let (past_k, past_v) = (cache(dice), cache(dice));
    let positions = (0..rows).map(|row| (past + path(&parents, row).len() - 1) as i64);
    Case {
        operator: ops::TREE_ATTENTION,
        feeds: vec![
            ("q", Data::F32(vec![rows, heads, dim], q)),
            ("k", Data::F32(vec![rows, kv_heads, dim], dice.uniform(rows * kv))),
            ("v", Data::F32(vec![rows, kv_heads, dim], dice.uniform(rows * kv))),
            ("past_k", past_k),
            ("past_v", past_v),
            ("past_len", Data::I64(vec![1], vec![past as i64])),
            ("positions", Data::I64(vec![rows], positions.collect())),
            ("visible", ancestors(&parents)),
        ],
        outputs: &[("o", 3)],
        attributes: vec![attr_f("scale", (dim as f32).powf(-0.5)), attr_i("window", window)],
        parents,
    }
}

fn conv(dice: &mut Dice, rows: usize, channels: usize, taps: usize) -> Case {
    let parents = dice.tree(rows);
    Case {
        operator: ops::TREE_CAUSAL_CONV,
        feeds: vec![
            (
                "x",
                Data::F32(vec![rows, channels], dice.between(-4.0, 8.0, rows * channels)),
            ),
            (
                "past",
                Data::F32(vec![taps - 1, channels], dice.uniform((taps - 1) * channels)),
            ),
            (
                "weight",
                Data::F32(vec![channels, taps], dice.uniform(channels * taps)),
            ),
            ("ancestors", ancestors(&parents)),
        ],
        outputs: &[("y", 2)],
        attributes: vec![],
        parents,
    }
}

fn delta(dice: &mut Dice, rows: usize, [hk, hv, dk, dv]: [usize; 4]) -> Case {
    let parents = dice.tree(rows);
    // Normalised as the graphs do: q also by 1/sqrt(DK).
    let mut unit = |scale: f32| {
        let mut values = dice.uniform(rows * hk * dk);
        for head in values.chunks_mut(dk) {
            let norm = (head.iter().map(|x| x * x).sum::<f32>() + 1e-6).sqrt();
            head.iter_mut().for_each(|x| *x *= scale / norm);
        }
        Data::F32(vec![rows, hk, dk], values)
    };
    let (q, k) = (unit((dk as f32).powf(-0.5)), unit(1.0));
    Case {
        operator: ops::TREE_DELTA_RULE,
        feeds: vec![
            ("q", q),
            ("k", k),
            ("v", Data::F32(vec![rows, hv, dv], dice.uniform(rows * hv * dv))),
            ("g", Data::F32(vec![rows, hv], dice.between(-1.0, 1.0, rows * hv))),
            (
                "beta",
                Data::F32(vec![rows, hv], dice.between(0.0, 1.0, rows * hv)),
            ),
            ("state", Data::F32(vec![hv, dk, dv], dice.uniform(hv * dk * dv))),
            ("ancestors", ancestors(&parents)),
        ],
        outputs: &[("o", 3), ("u", 3), ("G", 2)],
        attributes: vec![],
        parents,
    }
}

fn fused(
    operator: &'static str,
    feeds: Vec<(&'static str, Data)>,
    outputs: &'static [(&'static str, usize)],
    attributes: Vec<AttributeProto>,
) -> Case {
    Case {
        operator,
        feeds,
        outputs,
        attributes,
        parents: Vec::new(),
    }
}

impl Dice {
    /// A tensor of numbers in [-6, 6): beyond where sigmoids are straight.
    fn wide(&mut self, shape: &[usize]) -> Data {
        Data::F32(shape.to_vec(), self.between(-6.0, 12.0, shape.iter().product()))
    }
}

fn head_norm_rope(dice: &mut Dice, rows: usize, heads: usize, dim: usize) -> Case {
    let angles = dice.between(-6.0, 12.0, rows * dim / 2);
    let table = |f: fn(f32) -> f32| Data::F32(vec![rows, 1, dim / 2], angles.iter().map(|a| f(*a)).collect());
    let feeds = vec![
        ("x", dice.wide(&[rows, heads * dim])),
        ("w", Data::F32(vec![dim], dice.uniform(dim))),
        ("cos", table(f32::cos)),
        ("sin", table(f32::sin)),
    ];
    let attributes = vec![
        attr_i("heads", heads as i64),
        attr_i("rotary", 0),
        attr_f("epsilon", 1e-6),
    ];
    fused(ops::fused::HEAD_NORM_ROPE, feeds, &[("y", 3)], attributes)
}

fn sigmoid_gate(dice: &mut Dice, rows: usize, heads: usize, dim: usize) -> Case {
    let feeds = vec![
        ("o", dice.wide(&[rows, heads, dim])),
        ("x", dice.wide(&[rows, 2 * heads * dim])),
    ];
    fused(ops::fused::SIGMOID_GATE, feeds, &[("y", 2)], vec![])
}

fn swi_glu(dice: &mut Dice, rows: usize, width: usize) -> Case {
    let feeds = vec![("x", dice.wide(&[rows, 2 * width]))];
    fused(ops::fused::SWI_GLU, feeds, &[("y", 2)], vec![])
}

fn delta_inputs(dice: &mut Dice, rows: usize, [hk, hv, dk, dv]: [usize; 4]) -> Case {
    let feeds = vec![
        ("c", dice.wide(&[rows, 2 * hk * dk + hv * dv])),
        ("a", dice.wide(&[rows, hv])),
        ("b", dice.wide(&[rows, hv])),
        ("dt_bias", dice.wide(&[hv])),
        ("decay", Data::F32(vec![hv], dice.between(-2.0, 2.0, hv))),
    ];
    let attributes = vec![attr_i("key_heads", hk as i64), attr_i("key_dim", dk as i64)];
    let outputs = &[("q", 3), ("k", 3), ("v", 3), ("g", 2), ("beta", 2)];
    fused(ops::fused::DELTA_INPUTS, feeds, outputs, attributes)
}

fn block_matmul(dice: &mut Dice, rows: usize, [depth, columns, bits]: [usize; 3]) -> Case {
    let blocks = depth / BLOCK;
    let mut codes = vec![0; columns * blocks * BLOCK * bits / 8];
    dice.0.fill_bytes(&mut codes);
    // As small as makes results of about 1.
    let scale = 2.0 / (depth as f32).sqrt() / (1 << (bits - 1)) as f32;
    let scales = dice.between(-scale, 2.0 * scale, columns * blocks);
    let feeds = vec![
        ("x", Data::F32(vec![rows, depth], dice.uniform(rows * depth))),
        ("w", Data::U8(vec![columns, blocks, BLOCK * bits / 8], codes)),
        ("scales", Data::F32(vec![columns, blocks], scales)),
    ];
    let sizes = [("K", depth), ("N", columns), ("bits", bits)];
    let attributes = sizes.map(|(name, size)| attr_i(name, size as i64)).to_vec();
    fused(ops::fused::BLOCK_MAT_MUL, feeds, &[("y", 2)], attributes)
}

fn gated_norm(dice: &mut Dice, rows: usize, heads: usize, dim: usize) -> Case {
    let feeds = vec![
        ("o", dice.wide(&[rows, heads, dim])),
        ("z", dice.wide(&[rows, heads * dim])),
        ("w", Data::F32(vec![dim], dice.uniform(dim))),
    ];
    fused(
        ops::fused::GATED_NORM,
        feeds,
        &[("y", 2)],
        vec![attr_f("epsilon", 1e-6)],
    )
}

/// The commit of a random path after a call of the delta rule; `None` after another operator.
pub(super) fn update(dice: &mut Dice, delta: &Case, found: &[Vec<f32>]) -> Option<Case> {
    if delta.operator != ops::TREE_DELTA_RULE {
        return None;
    }
    let (Some(state), Some(k), [_, u, gates]) = (delta.feed("state"), delta.feed("k"), found) else {
        return None;
    };
    let Some(Data::F32(value_shape, _)) = delta.feed("v") else {
        return None;
    };
    let accepted = path(&delta.parents, dice.below(delta.parents.len()));
    let accepted: Vec<i64> = accepted.iter().map(|row| *row as i64).collect();
    let gate_shape = value_shape[..2].to_vec();
    Some(Case {
        operator: ops::DELTA_BRANCH_UPDATE,
        feeds: vec![
            ("state", state.clone()),
            ("k", k.clone()),
            ("u", Data::F32(value_shape.clone(), u.clone())),
            ("G", Data::F32(gate_shape, gates.clone())),
            ("path", Data::I64(vec![accepted.len()], accepted)),
        ],
        outputs: &[("state_out", 3)],
        attributes: vec![],
        parents: delta.parents.clone(),
    })
}
