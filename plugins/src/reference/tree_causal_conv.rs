use super::parent;
use crate::args::ConvArgs;

/// `TreeCausalConv` -> y [N,CH]: every row keeps its own window of the last K raw rows; a child starts
/// from a copy of its parent's window (`qwen.md` 3.6: correlation, newest row at the last tap).
#[must_use]
pub fn tree_causal_conv(a: &ConvArgs<'_>) -> Vec<f64> {
    let past: Vec<&[f32]> = a.past.chunks(a.channels.max(1)).collect();
    let mut windows: Vec<Vec<&[f32]>> = Vec::new();
    let mut y = Vec::with_capacity(a.x.len());
    for i in 0..a.rows {
        let mut window = match parent(a.ancestors, a.rows, i) {
            Some(parent) => windows[parent][1..].to_vec(),
            None => past.clone(),
        };
        window.push(&a.x[i * a.channels..][..a.channels]);
        for channel in 0..a.channels {
            let weight = &a.weight[channel * a.taps..][..a.taps];
            let sum: f64 = (weight.iter().zip(&window))
                .map(|(weight, row)| f64::from(*weight) * f64::from(row[channel]))
                .sum();
            y.push(sum / (1.0 + (-sum).exp()));
        }
        windows.push(window);
    }
    y
}
