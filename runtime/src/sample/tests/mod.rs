mod draws;
mod refusals;
mod rows;

use super::Sampling;

fn settings(temperature: f32, top_k: usize, top_p: f32, min_p: f32) -> Sampling {
    Sampling {
        temperature,
        top_k,
        top_p,
        min_p,
        ..Sampling::default()
    }
}
