//! Values of flags: parsed and bounded where they are read, so that a refusal names the flag.

use forkcast::decode::MAX_BUDGET;
use std::str::FromStr;

/// A list of token ids: `1,2,3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ids(pub(super) Vec<u32>);

impl FromStr for Ids {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        list(text, "token id").map(Self)
    }
}

/// Parents of rows: `-1,0,0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parents(pub(super) Vec<i64>);

impl FromStr for Parents {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        list(text, "row").map(Self)
    }
}

/// Layers: `1,4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layers(pub(super) Vec<usize>);

impl FromStr for Layers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        list(text, "layer").map(Self)
    }
}

fn list<T: FromStr>(text: &str, what: &str) -> Result<Vec<T>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    text.split(',')
        .map(|item| {
            let item = item.trim();
            item.parse().map_err(|_| format!("{item:?} is no {what}"))
        })
        .collect()
}

/// A tree budget.
pub(super) fn budget(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if n <= MAX_BUDGET => Ok(n),
        _ => Err(format!("a budget is a number in 0..={MAX_BUDGET}")),
    }
}

/// A number of things that is at least 1.
pub(super) fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err("a number of at least 1 is needed".to_owned()),
    }
}

/// A temperature.
pub(super) fn temperature(text: &str) -> Result<f32, String> {
    real(text, "a temperature", "[0, 100]", |x| (0.0..=100.0).contains(&x))
}

/// A nucleus.
pub(super) fn top_p(text: &str) -> Result<f32, String> {
    real(text, "top-p", "(0, 1]", |x| x > 0.0 && x <= 1.0)
}

/// A fraction of the best probability.
pub(super) fn min_p(text: &str) -> Result<f32, String> {
    real(text, "min-p", "[0, 1]", |x| (0.0..=1.0).contains(&x))
}

/// Rows that a round accepts on average.
pub(super) fn acceptance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(x) if (1.0..=1024.0).contains(&x) => Ok(x),
        _ => Err("an acceptance length is a number in [1, 1024]".to_owned()),
    }
}

/// A difference of logits.
pub(super) fn gap(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(x) if (0.0..=1e3).contains(&x) => Ok(x),
        _ => Err("a gap of logits is a number in [0, 1000]".to_owned()),
    }
}

/// A share in percent.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(x) if (0.0..=100.0).contains(&x) => Ok(x),
        _ => Err("a percentage is a number in [0, 100]".to_owned()),
    }
}

fn real(text: &str, what: &str, range: &str, inside: impl Fn(f32) -> bool) -> Result<f32, String> {
    match text.parse::<f32>() {
        // No range contains NaN.
        Ok(x) if inside(x) => Ok(x),
        _ => Err(format!("{what} is a number in {range}")),
    }
}

/// A stop string.
pub(super) fn stop(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("a stop string is not empty".to_owned());
    }
    Ok(text.to_owned())
}
