//! Recurrent and conv states of the DeltaNet layers.

use super::graph::{Call, Port};
use super::memory::{Element, Tensor};
use crate::manifest::DeltaNet;
use half::f16;

/// Conv rows `[K-1, CH]` and recurrent state `[HV, DK, DV]` (float32) of one layer, twice: a commit reads one side
/// and writes the other.
#[derive(Debug)]
struct Sides {
    recurrent: [Tensor; 2],
    conv: [Tensor; 2],
}

/// States of all DeltaNet layers.
#[derive(Debug)]
pub(super) struct States {
    layers: Vec<Sides>,
    now: usize,
}

impl States {
    /// Zero states.
    pub(super) fn new(
        element: Element,
        shapes: impl IntoIterator<Item = DeltaNet>,
    ) -> Result<Self, ort::Error> {
        let recurrent = |d: &DeltaNet| Tensor::new(Element::F32, &[d.value_heads, d.key_dim, d.value_dim]);
        let conv = |d: &DeltaNet| Tensor::new(element, &[d.kernel - 1, d.channels()]);
        let layers = shapes.into_iter().map(|d| {
            Ok(Sides {
                recurrent: [recurrent(&d)?, recurrent(&d)?],
                conv: [conv(&d)?, conv(&d)?],
            })
        });
        Ok(Self {
            layers: layers.collect::<Result<_, ort::Error>>()?,
            now: 0,
        })
    }

    /// State and conv rows as graph values.
    pub(super) fn ports(names: [String; 2], element: Element, d: &DeltaNet) -> [Port; 2] {
        let [state, conv] = names;
        [
            Port::new(
                state,
                Element::F32,
                &[Some(d.value_heads), Some(d.key_dim), Some(d.value_dim)],
            ),
            Port::new(conv, element, &[Some(d.kernel - 1), Some(d.channels())]),
        ]
    }

    pub(super) fn len(&self) -> usize {
        self.layers.len()
    }

    /// Gives state and conv rows of `layer` to a call that reads them.
    pub(super) fn bind<'a>(&'a self, layer: usize, call: &mut Call<'a>) {
        let sides = &self.layers[layer];
        call.input(&sides.recurrent[self.now])
            .input(&sides.conv[self.now]);
    }

    /// Pairs of present and next side of every layer: `([state, conv], [state, conv])`.
    pub(super) fn sides(&mut self) -> impl Iterator<Item = ([&Tensor; 2], [&mut Tensor; 2])> {
        let now = self.now;
        self.layers.iter_mut().map(move |s| {
            let (state, next_state) = split(&mut s.recurrent, now);
            let (conv, next_conv) = split(&mut s.conv, now);
            ([state, conv], [next_state, next_conv])
        })
    }

    /// Makes the next side the present one.
    pub(super) fn flip(&mut self) {
        self.now ^= 1;
    }

    /// All zero.
    pub(super) fn clear(&mut self) {
        for sides in &mut self.layers {
            sides.recurrent[self.now].bytes_mut().fill(0);
            sides.conv[self.now].bytes_mut().fill(0);
        }
    }

    /// Copies as float32: conv rows, then state, of each layer.
    pub(super) fn copy(&self) -> Vec<Vec<f32>> {
        let tensors = self
            .layers
            .iter()
            .flat_map(|s| [&s.conv[self.now], &s.recurrent[self.now]]);
        tensors.map(to_f32).collect()
    }

    /// Loads what [`Self::copy`] gave; false when it is of another shape.
    pub(super) fn load(&mut self, states: &[Vec<f32>]) -> bool {
        let now = self.now;
        let sizes = self.layers.iter().flat_map(|s| [&s.conv[now], &s.recurrent[now]]);
        if !sizes
            .map(|t| t.rows() * t.width())
            .eq(states.iter().map(Vec::len))
        {
            return false;
        }
        let tensors = self
            .layers
            .iter_mut()
            .flat_map(|s| [&mut s.conv[now], &mut s.recurrent[now]]);
        for (tensor, numbers) in tensors.zip(states) {
            match tensor.element() {
                Element::F16 => {
                    for (to, from) in tensor.numbers_mut::<f16>().iter_mut().zip(numbers) {
                        *to = f16::from_f32(*from);
                    }
                }
                _ => tensor.numbers_mut::<f32>().copy_from_slice(numbers),
            }
        }
        true
    }
}

fn split(pair: &mut [Tensor; 2], now: usize) -> (&Tensor, &mut Tensor) {
    let [a, b] = pair;
    if now == 0 { (a, b) } else { (b, a) }
}

/// The numbers of a float tensor as float32.
pub(super) fn to_f32(tensor: &Tensor) -> Vec<f32> {
    let mut out = Vec::new();
    append_f32(tensor, &mut out);
    out
}

/// Appends the numbers of a float tensor as float32.
pub(super) fn append_f32(tensor: &Tensor, out: &mut Vec<f32>) {
    match tensor.element() {
        Element::F16 => out.extend(tensor.numbers::<f16>().iter().map(|v| v.to_f32())),
        _ => out.extend_from_slice(tensor.numbers()),
    }
}
