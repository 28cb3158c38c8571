//! Random arguments of every operator.

use super::{
    Tree,
    session::{Data, Take, one_node, run, session},
    uniform,
};
use forkcast_plugins::{
    args::{AttentionArgs, ConvArgs, DeltaArgs, UpdateArgs},
    bodies,
    kernels::{self, DeltaOutputs, Serial, Workspace},
    onnx::{
        attr_f, attr_i,
        proto::{AttributeProto, FunctionProto},
    },
    ops,
};
use ort::session::Session;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// Names of inputs with their data.
pub type Feeds = Vec<(&'static str, Data)>;

fn open(
    op: &str,
    feeds: &Feeds,
    outputs: &[(&str, usize)],
    attributes: Vec<AttributeProto>,
    functions: Vec<FunctionProto>,
    take: Take,
) -> Session {
    let model = one_node(op, feeds, outputs, attributes, functions);
    session(&model, take).expect("the model loads")
}

#[derive(Clone, Debug)]
pub struct AttentionCase {
    pub rows: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub capacity: usize,
    pub past_len: usize,
    pub window: i64,
    pub q: Vec<f32>,
    pub k: Vec<f32>,
    pub v: Vec<f32>,
    pub past_k: Vec<f32>,
    pub past_v: Vec<f32>,
    pub positions: Vec<i64>,
    pub visible: Vec<bool>,
}

impl AttentionCase {
    /// `past` is (capacity, committed rows), `heads` is (query heads, key heads).
    pub fn new(
        rng: &mut ChaCha8Rng,
        tree: &Tree,
        heads: (usize, usize),
        head_dim: usize,
        past: (usize, usize),
        window: i64,
    ) -> Self {
        let rows = tree.rows();
        let kv = heads.1 * head_dim;
        let mut case = Self {
            rows,
            heads: heads.0,
            kv_heads: heads.1,
            head_dim,
            capacity: past.0,
            past_len: past.1,
            window,
            // Scores spread over several units, so that the softmax is neither flat nor one-hot.
            q: uniform(rng, rows * heads.0 * head_dim)
                .iter()
                .map(|x| 3.0 * x)
                .collect(),
            k: uniform(rng, rows * kv),
            v: uniform(rng, rows * kv),
            past_k: uniform(rng, past.0 * kv),
            past_v: uniform(rng, past.0 * kv),
            positions: tree.depths().iter().map(|d| (past.1 + d) as i64).collect(),
            visible: tree.ancestors(),
        };
        // Rows that are not committed may hold anything.
        case.past_k[past.1 * kv..].fill(f32::NAN);
        case.past_v[past.1 * kv..].fill(f32::NAN);
        case
    }

    pub fn scale(&self) -> f32 {
        (self.head_dim as f32).powf(-0.5)
    }

    pub fn args(&self) -> AttentionArgs<'_> {
        AttentionArgs {
            rows: self.rows,
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            past_len: self.past_len,
            scale: self.scale(),
            window: self.window,
            q: &self.q,
            k: &self.k,
            v: &self.v,
            past_k: &self.past_k,
            past_v: &self.past_v,
            positions: &self.positions,
            visible: &self.visible,
        }
    }

    pub fn feeds(&self) -> Feeds {
        let kv = |rows: usize| vec![rows, self.kv_heads, self.head_dim];
        vec![
            (
                "q",
                Data::F32(vec![self.rows, self.heads, self.head_dim], self.q.clone()),
            ),
            ("k", Data::F32(kv(self.rows), self.k.clone())),
            ("v", Data::F32(kv(self.rows), self.v.clone())),
            ("past_k", Data::F32(kv(self.capacity), self.past_k.clone())),
            ("past_v", Data::F32(kv(self.capacity), self.past_v.clone())),
            ("past_len", Data::I64(vec![1], vec![self.past_len as i64])),
            ("positions", Data::I64(vec![self.rows], self.positions.clone())),
            (
                "visible",
                Data::Bool(vec![self.rows, self.rows], self.visible.clone()),
            ),
        ]
    }

    pub fn attributes(&self) -> Vec<AttributeProto> {
        vec![attr_f("scale", self.scale()), attr_i("window", self.window)]
    }

    pub fn kernel(&self) -> Vec<f32> {
        let mut o = vec![f32::NAN; self.q.len()];
        kernels::tree_attention(&self.args(), &mut o, &mut Workspace::default(), &Serial).expect("a fit");
        o
    }

    pub fn in_session(&self, functions: Vec<FunctionProto>, take: Take) -> Vec<f32> {
        let mut session = open(
            ops::TREE_ATTENTION,
            &self.feeds(),
            &[("o", 3)],
            self.attributes(),
            functions,
            take,
        );
        run(&mut session, &self.feeds()).expect("a run").remove(0)
    }
}

#[derive(Clone, Debug)]
pub struct ConvCase {
    pub rows: usize,
    pub channels: usize,
    pub taps: usize,
    pub x: Vec<f32>,
    pub past: Vec<f32>,
    pub weight: Vec<f32>,
    pub ancestors: Vec<bool>,
}

impl ConvCase {
    pub fn new(rng: &mut ChaCha8Rng, tree: &Tree, channels: usize, taps: usize) -> Self {
        Self {
            rows: tree.rows(),
            channels,
            taps,
            x: uniform(rng, tree.rows() * channels)
                .iter()
                .map(|x| 4.0 * x)
                .collect(),
            past: uniform(rng, (taps - 1) * channels),
            weight: uniform(rng, channels * taps),
            ancestors: tree.ancestors(),
        }
    }

    pub fn args(&self) -> ConvArgs<'_> {
        ConvArgs {
            rows: self.rows,
            channels: self.channels,
            taps: self.taps,
            x: &self.x,
            past: &self.past,
            weight: &self.weight,
            ancestors: &self.ancestors,
        }
    }

    pub fn feeds(&self) -> Feeds {
        let ch = self.channels;
        vec![
            ("x", Data::F32(vec![self.rows, ch], self.x.clone())),
            ("past", Data::F32(vec![self.taps - 1, ch], self.past.clone())),
            ("weight", Data::F32(vec![ch, self.taps], self.weight.clone())),
            (
                "ancestors",
                Data::Bool(vec![self.rows, self.rows], self.ancestors.clone()),
            ),
        ]
    }

    pub fn kernel(&self) -> Vec<f32> {
        let mut y = vec![f32::NAN; self.x.len()];
        kernels::tree_causal_conv(&self.args(), &mut y, &mut Workspace::default(), &Serial).expect("a fit");
        y
    }

    pub fn in_session(&self, functions: Vec<FunctionProto>, take: Take) -> Vec<f32> {
        let mut session = open(
            ops::TREE_CAUSAL_CONV,
            &self.feeds(),
            &[("y", 2)],
            vec![],
            functions,
            take,
        );
        run(&mut session, &self.feeds()).expect("a run").remove(0)
    }
}

/// How the numbers of a [`DeltaCase`] are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regime {
    /// Random keys, beta and decay.
    Random,
    /// Nearly identical keys, beta near 1, no decay: the hardest case for a solver.
    AlikeKeys,
    /// Strong decay: cumulative gates of many units.
    StrongDecay,
}

#[derive(Clone, Debug)]
pub struct DeltaCase {
    pub rows: usize,
    pub key_heads: usize,
    pub value_heads: usize,
    pub key_dim: usize,
    pub value_dim: usize,
    pub q: Vec<f32>,
    pub k: Vec<f32>,
    pub v: Vec<f32>,
    pub g: Vec<f32>,
    pub beta: Vec<f32>,
    pub state: Vec<f32>,
    pub ancestors: Vec<bool>,
}

/// o, u and G.
#[derive(Clone, Debug)]
pub struct DeltaFound {
    pub o: Vec<f32>,
    pub u: Vec<f32>,
    pub gates: Vec<f32>,
}

impl DeltaCase {
    /// `heads` is (key heads, value heads), `dims` is (DK, DV).
    pub fn new(
        rng: &mut ChaCha8Rng,
        tree: &Tree,
        heads: (usize, usize),
        dims: (usize, usize),
        regime: Regime,
    ) -> Self {
        let rows = tree.rows();
        let (dk, dv) = dims;
        let mut q = uniform(rng, rows * heads.0 * dk);
        let mut k = uniform(rng, rows * heads.0 * dk);
        if regime == Regime::AlikeKeys {
            let common = uniform(rng, heads.0 * dk);
            for k in k.chunks_mut(heads.0 * dk) {
                for (k, common) in k.iter_mut().zip(&common) {
                    *k = common + 1e-3 * *k;
                }
            }
        }
        for (values, scale) in [(&mut q, (dk as f32).powf(-0.5)), (&mut k, 1.0)] {
            for row in values.chunks_mut(dk) {
                let norm = (row.iter().map(|x| x * x).sum::<f32>() + 1e-6).sqrt();
                row.iter_mut().for_each(|x| *x *= scale / norm);
            }
        }
        let mut gate = |lowest: f32| -> Vec<f32> {
            (0..rows * heads.1)
                .map(|_| rng.random_range(lowest..=0.0))
                .collect()
        };
        let (g, beta) = match regime {
            Regime::Random => (gate(-1.0), gate(-1.0).iter().map(|b| b + 1.0).collect()),
            Regime::AlikeKeys => (
                vec![0.0; rows * heads.1],
                gate(-0.01).iter().map(|b| b + 1.0).collect(),
            ),
            Regime::StrongDecay => (gate(-30.0), gate(-1.0).iter().map(|b| b + 1.0).collect()),
        };
        Self {
            rows,
            key_heads: heads.0,
            value_heads: heads.1,
            key_dim: dk,
            value_dim: dv,
            q,
            k,
            v: uniform(rng, rows * heads.1 * dv),
            g,
            beta,
            state: uniform(rng, heads.1 * dk * dv),
            ancestors: tree.ancestors(),
        }
    }

    pub fn args(&self) -> DeltaArgs<'_> {
        DeltaArgs {
            rows: self.rows,
            key_heads: self.key_heads,
            value_heads: self.value_heads,
            key_dim: self.key_dim,
            value_dim: self.value_dim,
            q: &self.q,
            k: &self.k,
            v: &self.v,
            g: &self.g,
            beta: &self.beta,
            state: &self.state,
            ancestors: &self.ancestors,
        }
    }

    pub fn feeds(&self) -> Feeds {
        let (n, hk, hv) = (self.rows, self.key_heads, self.value_heads);
        let (dk, dv) = (self.key_dim, self.value_dim);
        vec![
            ("q", Data::F32(vec![n, hk, dk], self.q.clone())),
            ("k", Data::F32(vec![n, hk, dk], self.k.clone())),
            ("v", Data::F32(vec![n, hv, dv], self.v.clone())),
            ("g", Data::F32(vec![n, hv], self.g.clone())),
            ("beta", Data::F32(vec![n, hv], self.beta.clone())),
            ("state", Data::F32(vec![hv, dk, dv], self.state.clone())),
            ("ancestors", Data::Bool(vec![n, n], self.ancestors.clone())),
        ]
    }

    pub fn kernel(&self) -> DeltaFound {
        let mut found = DeltaFound {
            o: vec![f32::NAN; self.v.len()],
            u: vec![f32::NAN; self.v.len()],
            gates: vec![f32::NAN; self.g.len()],
        };
        let out = DeltaOutputs {
            o: &mut found.o,
            u: &mut found.u,
            gates: &mut found.gates,
        };
        kernels::tree_delta_rule(&self.args(), out, &mut Workspace::default(), &Serial).expect("a fit");
        found
    }

    pub fn in_session(&self, functions: Vec<FunctionProto>, take: Take) -> DeltaFound {
        let outputs = [("o", 3), ("u", 3), ("G", 2)];
        let feeds = self.feeds();
        let mut session = open(ops::TREE_DELTA_RULE, &feeds, &outputs, vec![], functions, take);
        let mut values = run(&mut session, &feeds).expect("a run").into_iter();
        let mut next = || values.next().expect("three outputs");
        DeltaFound {
            o: next(),
            u: next(),
            gates: next(),
        }
    }
}

/// The commit of `path` after a [`DeltaCase`].
#[derive(Clone, Debug)]
pub struct UpdateCase<'a> {
    pub delta: &'a DeltaCase,
    pub u: Vec<f32>,
    pub gates: Vec<f32>,
    pub path: Vec<i64>,
}

impl<'a> UpdateCase<'a> {
    pub fn new(delta: &'a DeltaCase, found: &DeltaFound, path: &[usize]) -> Self {
        Self {
            delta,
            u: found.u.clone(),
            gates: found.gates.clone(),
            path: path.iter().map(|row| *row as i64).collect(),
        }
    }

    pub fn args(&self) -> UpdateArgs<'_> {
        UpdateArgs {
            rows: self.delta.rows,
            key_heads: self.delta.key_heads,
            value_heads: self.delta.value_heads,
            key_dim: self.delta.key_dim,
            value_dim: self.delta.value_dim,
            state: &self.delta.state,
            k: &self.delta.k,
            u: &self.u,
            gates: &self.gates,
            path: &self.path,
        }
    }

    pub fn feeds(&self) -> Feeds {
        let d = self.delta;
        let (n, hk, hv) = (d.rows, d.key_heads, d.value_heads);
        let (dk, dv) = (d.key_dim, d.value_dim);
        vec![
            ("state", Data::F32(vec![hv, dk, dv], d.state.clone())),
            ("k", Data::F32(vec![n, hk, dk], d.k.clone())),
            ("u", Data::F32(vec![n, hv, dv], self.u.clone())),
            ("G", Data::F32(vec![n, hv], self.gates.clone())),
            ("path", Data::I64(vec![self.path.len()], self.path.clone())),
        ]
    }

    pub fn kernel(&self) -> Vec<f32> {
        let mut state = vec![f32::NAN; self.delta.state.len()];
        kernels::delta_branch_update(&self.args(), &mut state, &Serial).expect("a fit");
        state
    }

    pub fn in_session(&self, functions: Vec<FunctionProto>, take: Take) -> Vec<f32> {
        let feeds = self.feeds();
        let outputs = [("state_out", 3)];
        let mut session = open(
            ops::DELTA_BRANCH_UPDATE,
            &feeds,
            &outputs,
            vec![],
            functions,
            take,
        );
        run(&mut session, &feeds).expect("a run").remove(0)
    }
}

/// The CPU bodies.
pub fn cpu() -> Vec<FunctionProto> {
    bodies::functions()
}
