//! A graph under construction: nodes, shared constants, and initializers with their places.

use super::Built;
use crate::weights::{Matrix, Placed};
use forkcast_engines::manifest::{Dtype, Initializer};
use forkcast_plugins::onnx::{self, Dim, ElementType, ExternalData, GraphBuilder, attr_f, attr_i};
use forkcast_plugins::ops::fused;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};

/// The element type of stored numbers.
pub(super) fn element(dtype: Dtype) -> ElementType {
    match dtype {
        Dtype::F32 => ElementType::F32,
        Dtype::Bf16 => ElementType::Bf16,
        Dtype::F16 => ElementType::F16,
        Dtype::Int8 | Dtype::Int4 => ElementType::U8,
    }
}

/// Cosines and sines of all rows, `[N, 1, rot / 2]`, in the type of the activations.
pub(super) struct RopeTables {
    pub(super) cos: String,
    pub(super) sin: String,
    /// Rotated dimensions.
    pub(super) dims: usize,
}

/// Builder of one graph.
pub(super) struct Net {
    b: GraphBuilder,
    /// Type of activations and linear layers.
    pub(super) dtype: Dtype,
    ints: BTreeMap<Vec<i64>, String>,
    fills: BTreeMap<(usize, u32), String>,
    initializers: Vec<Initializer>,
    custom: BTreeSet<String>,
}

impl Net {
    /// An empty graph.
    pub(super) fn new(name: &str, dtype: Dtype) -> Self {
        Self {
            b: GraphBuilder::new(name),
            dtype,
            ints: BTreeMap::new(),
            fills: BTreeMap::new(),
            initializers: Vec::new(),
            custom: BTreeSet::new(),
        }
    }

    /// Declares a graph input.
    pub(super) fn input(&mut self, name: &str, element: ElementType, dims: &[Dim<'_>]) -> String {
        self.b.input(name, element, dims)
    }

    /// Declares a graph input of the activations' type.
    pub(super) fn activation(&mut self, name: &str, dims: &[Dim<'_>]) -> String {
        let element = element(self.dtype);
        self.b.input(name, element, dims)
    }

    /// Declares a graph output that a node called `name` produces.
    pub(super) fn output(&mut self, name: &str, element: ElementType, dims: &[Dim<'_>]) {
        self.b.output(name, element, dims);
    }

    /// Declares a graph output of the activations' type.
    pub(super) fn activation_output(&mut self, name: &str, dims: &[Dim<'_>]) {
        let element = element(self.dtype);
        self.b.output(name, element, dims);
    }

    /// A standard node with one output.
    pub(super) fn op(&mut self, op: &str, inputs: &[&str]) -> String {
        self.b.node(op, inputs, Vec::new())
    }

    /// A standard node whose output is called `output`.
    pub(super) fn op_named(&mut self, op: &str, inputs: &[&str], output: &str) {
        self.b.named(op, inputs, &[output], Vec::new());
    }

    /// A standard node with attributes whose output is called `output`.
    pub(super) fn named(
        &mut self,
        op: &str,
        inputs: &[&str],
        output: &str,
        attributes: Vec<onnx::proto::AttributeProto>,
    ) {
        self.b.named(op, inputs, &[output], attributes);
    }

    /// A custom node.
    pub(super) fn custom(
        &mut self,
        op: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: Vec<onnx::proto::AttributeProto>,
    ) {
        self.custom.insert(op.to_owned());
        self.b.custom(op, inputs, outputs, attributes);
    }

    /// A fused node: a chain of standard nodes that the CPU runs as one.
    pub(super) fn fused(
        &mut self,
        op: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: Vec<onnx::proto::AttributeProto>,
    ) {
        self.custom.insert(op.to_owned());
        self.b.fused(op, inputs, outputs, attributes);
    }

    /// Whether chains of nodes are written as fused ones: their kernels are float32, and elsewhere the compiler fuses.
    pub(super) fn fuses(&self) -> bool {
        self.dtype == Dtype::F32
    }

    /// A fresh name for an output of [`Self::custom`].
    pub(super) fn fresh(&mut self, stem: &str) -> String {
        self.b.fresh_name(stem)
    }

    /// The initializer `name` for a placed tensor; asking again gives the same one.
    pub(super) fn weight(&mut self, name: &str, placed: &Placed) -> String {
        if self.initializers.iter().any(|i| i.name == name) {
            return name.to_owned();
        }
        let data = ExternalData {
            location: placed.data.file.clone(),
            offset: placed.data.offset,
            length: placed.data.length,
        };
        self.initializers.push(Initializer {
            name: name.to_owned(),
            source: placed.parts.iter().map(|(n, _)| n.clone()).collect(),
            transform: placed.transform.to_owned(),
            data: placed.data.clone(),
        });
        self.b
            .external(name, element(placed.data.dtype), &placed.data.shape, &data)
    }

    /// A constant list of integers, shared within the graph.
    pub(super) fn ints(&mut self, values: &[i64]) -> String {
        if let Some(name) = self.ints.get(values) {
            return name.clone();
        }
        let name = self.b.const_i64(values, &[values.len() as i64]);
        self.ints.insert(values.to_vec(), name.clone());
        name
    }

    /// A constant vector of `n` equal float32 numbers, shared within the graph.
    pub(super) fn fill(&mut self, n: usize, value: f32) -> String {
        let key = (n, value.to_bits());
        if let Some(name) = self.fills.get(&key) {
            return name.clone();
        }
        let name = self.b.const_f32(&vec![value; n], &[n as i64]);
        self.fills.insert(key, name.clone());
        name
    }

    /// A constant of float32 numbers.
    pub(super) fn floats(&mut self, values: &[f32], dims: &[i64]) -> String {
        self.b.const_f32(values, dims)
    }

    /// A constant of truth values.
    pub(super) fn bools(&mut self, values: &[bool], dims: &[i64]) -> String {
        self.b.const_bool(values, dims)
    }

    /// `x` as float32; nothing to do when activations are float32.
    pub(super) fn widen(&mut self, x: &str) -> String {
        self.cast(x, Dtype::F32)
    }

    /// float32 `x` in the type of the activations.
    pub(super) fn narrow(&mut self, x: &str) -> String {
        self.cast(x, self.dtype)
    }

    fn cast(&mut self, x: &str, to: Dtype) -> String {
        if self.dtype == Dtype::F32 {
            return x.to_owned();
        }
        let to = i64::from(element(to).onnx());
        self.b.node("Cast", &[x], vec![attr_i("to", to)])
    }

    /// `x Wᵀ`, plus `residual` where given (its shape is the result's): `[N, in] -> [N, out]`.
    pub(super) fn gemm(&mut self, x: &str, w: &str, residual: Option<&str>) -> String {
        let attributes = vec![attr_i("transB", 1)];
        match residual {
            None => self.b.node("Gemm", &[x, w], attributes),
            Some(c) => self.b.node("Gemm", &[x, w, c], attributes),
        }
    }

    /// `x Wᵀ`, plus `residual` where given: `[N, in] -> [N, out]`, called `output` where given. Activations stay float32 also
    /// where the matrix is quantised.
    pub(super) fn matmul(
        &mut self,
        x: &str,
        name: &str,
        matrix: &Matrix,
        residual: Option<&str>,
        output: Option<&str>,
    ) -> String {
        let (data, scales, cols) = match matrix {
            Matrix::Plain(placed) => {
                let w = self.weight(name, placed);
                return match output {
                    Some(output) => {
                        self.named("Gemm", &[x, &w], output, vec![attr_i("transB", 1)]);
                        output.to_owned()
                    }
                    None => self.gemm(x, &w, residual),
                };
            }
            Matrix::Blocks { data, scales, cols } => (data, scales, *cols),
        };
        let rows = data.data.shape.first().copied().unwrap_or(0);
        let bits = if data.data.dtype == Dtype::Int4 { 4 } else { 8 };
        let w = self.weight(name, data);
        let s = self.weight(&format!("{name}.scales"), scales);
        let attributes = [("K", cols), ("N", rows), ("bits", bits)];
        let attributes = attributes.map(|(n, v)| attr_i(n, v as i64)).to_vec();
        let y = output.map_or_else(|| self.b.fresh_name(fused::BLOCK_MAT_MUL), str::to_owned);
        self.b
            .fused(fused::BLOCK_MAT_MUL, &[x, &w, &s], &[&y], attributes);
        match residual {
            Some(c) => self.op("Add", &[&y, c]),
            None => y,
        }
    }

    /// Splits `x` along `axis`.
    pub(super) fn split(&mut self, x: &str, sizes: &[usize], axis: i64) -> Vec<String> {
        self.split_named(x, sizes, axis, None)
    }

    /// Splits `x` along `axis`; the first part is called `first` where given.
    pub(super) fn split_named(
        &mut self,
        x: &str,
        sizes: &[usize],
        axis: i64,
        first: Option<&str>,
    ) -> Vec<String> {
        let sizes: Vec<i64> = sizes.iter().map(|s| *s as i64).collect();
        let lengths = self.ints(&sizes);
        let mut names: Vec<String> = sizes.iter().map(|_| self.b.fresh_name("Split")).collect();
        if let (Some(name), Some(slot)) = (first, names.first_mut()) {
            name.clone_into(slot);
        }
        let refs: Vec<&str> = names.iter().map(String::as_str).collect();
        self.b
            .named("Split", &[x, &lengths], &refs, vec![attr_i("axis", axis)]);
        names
    }

    /// `x` with other dimensions; 0 keeps a dimension.
    pub(super) fn reshape(&mut self, x: &str, dims: &[i64]) -> String {
        let dims = self.ints(dims);
        self.op("Reshape", &[x, &dims])
    }

    /// `x` with other dimensions, called `name`.
    pub(super) fn reshape_named(&mut self, x: &str, dims: &[i64], name: &str) {
        let dims = self.ints(dims);
        self.op_named("Reshape", &[x, &dims], name);
    }

    /// Joins along `axis`.
    pub(super) fn concat_named(&mut self, parts: &[&str], axis: i64, name: &str) {
        self.b.named("Concat", parts, &[name], vec![attr_i("axis", axis)]);
    }

    /// RMS norm over the last axis in float32: `x` of the activations' type, float32 scale and result.
    pub(super) fn norm_wide(&mut self, x: &str, scale: &str, eps: f32) -> String {
        let wide = self.widen(x);
        self.norm_f32(&wide, scale, eps)
    }

    /// RMS norm over the last axis of float32 `x`.
    pub(super) fn norm_f32(&mut self, x: &str, scale: &str, eps: f32) -> String {
        self.b
            .node("RMSNormalization", &[x, scale], vec![attr_f("epsilon", eps)])
    }

    /// RMS norm over the last axis, called `name`; float32 result.
    pub(super) fn norm_named(&mut self, x: &str, scale: &str, eps: f32, name: &str) {
        let wide = self.widen(x);
        self.norm_f32_named(&wide, scale, eps, name);
    }

    /// RMS norm over the last axis of float32 `x`, called `name`.
    pub(super) fn norm_f32_named(&mut self, x: &str, scale: &str, eps: f32, name: &str) {
        self.b.named(
            "RMSNormalization",
            &[x, scale],
            &[name],
            vec![attr_f("epsilon", eps)],
        );
    }

    /// RMS norm over the last axis; computed in float32, result of the activations' type.
    pub(super) fn norm(&mut self, x: &str, scale: &str, eps: f32) -> String {
        let y = self.norm_wide(x, scale, eps);
        self.narrow(&y)
    }

    /// `x * sigmoid(x)`.
    pub(super) fn silu(&mut self, x: &str) -> String {
        let s = self.op("Sigmoid", &[x]);
        self.op("Mul", &[x, &s])
    }

    /// Cosines and sines for `positions` i64 `[N]`, once per graph, in float32.
    pub(super) fn rope_tables(&mut self, positions: &str, rope: crate::config::Rope) -> RopeTables {
        let frequencies = rope.frequencies();
        let f = self.floats(&frequencies, &[1, 1, frequencies.len() as i64]);
        let to = i64::from(ElementType::F32.onnx());
        let p = self.b.node("Cast", &[positions], vec![attr_i("to", to)]);
        let p = self.reshape(&p, &[-1, 1, 1]);
        let angle = self.op("Mul", &[&p, &f]);
        let (cos, sin) = (self.op("Cos", &[&angle]), self.op("Sin", &[&angle]));
        RopeTables {
            cos: self.narrow(&cos),
            sin: self.narrow(&sin),
            dims: rope.dims,
        }
    }

    /// Rotates `x` `[N, heads, 1, D]` (rows stand for the operator's batch, so no transposition is needed).
    pub(super) fn rotate(&mut self, x: &str, tables: &RopeTables, head_dim: usize) -> String {
        let mut attributes = Vec::new();
        if tables.dims != head_dim {
            attributes.push(attr_i("rotary_embedding_dim", tables.dims as i64));
        }
        self.b
            .node("RotaryEmbedding", &[x, &tables.cos, &tables.sin], attributes)
    }

    /// The finished model file, with the bodies of the custom operators it uses.
    pub(super) fn finish(self) -> Built {
        let functions = forkcast_plugins::bodies::functions()
            .into_iter()
            .chain(forkcast_plugins::bodies::fused::functions())
            .filter(|f| self.custom.contains(f.name()))
            .collect();
        Built {
            model: onnx::model(self.b.finish(), functions).encode_to_vec(),
            initializers: self.initializers,
        }
    }
}
