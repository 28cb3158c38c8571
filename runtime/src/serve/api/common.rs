//! Fields that both kinds of completion share.

use super::ApiError;
use super::fields::{Fields, Read, wrong};
use serde_json::Value;

/// Most stop strings of a request.
pub const MAX_STOPS: usize = 16;
/// Most alternatives that `top_logprobs` and `logprobs` may ask for.
pub const MAX_TOP_LOGPROBS: usize = 20;

/// How tokens are drawn, as far as the request says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamplingFields {
    /// `temperature`.
    pub temperature: Option<f32>,
    /// `top_p`.
    pub top_p: Option<f32>,
    /// `top_k`; 0 keeps all.
    pub top_k: Option<usize>,
    /// `min_p`.
    pub min_p: Option<f32>,
    /// `repetition_penalty`.
    pub repetition_penalty: Option<f32>,
    /// `presence_penalty`.
    pub presence_penalty: Option<f32>,
    /// `frequency_penalty`.
    pub frequency_penalty: Option<f32>,
    /// `logit_bias`.
    pub logit_bias: Vec<(u32, f32)>,
    /// `seed`.
    pub seed: Option<u64>,
}

/// `stream` and `stream_options`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streaming {
    /// Whether tokens are sent as they come.
    pub on: bool,
    /// Whether a last chunk carries the usage.
    pub usage: bool,
    /// Whether chunks say which round made them and how its tree looked (our own field).
    pub rounds: bool,
}

/// What both kinds of completion share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Common {
    /// `model`.
    pub model: Option<String>,
    /// How tokens are drawn.
    pub sampling: SamplingFields,
    /// Stop strings.
    pub stop: Vec<String>,
    /// How the answer is sent.
    pub streaming: Streaming,
}

impl Common {
    /// Reads the shared fields.
    pub fn read(fields: &mut Fields) -> Read<Self> {
        if let Some(n) = fields.take("n")
            && n.as_u64() != Some(1)
        {
            return Err(wrong(fields.place("n"), "1 (there is one stream)", &n));
        }
        Ok(Self {
            model: fields.string("model")?,
            sampling: SamplingFields::read(fields)?,
            stop: stops(fields)?,
            streaming: Streaming::read(fields)?,
        })
    }
}

impl SamplingFields {
    fn read(fields: &mut Fields) -> Read<Self> {
        let top_p = fields.number("top_p", 0.0..=1.0)?;
        if top_p == Some(0.0) {
            return Err(fields.invalid("top_p", "expected a number in (0, 1], found 0"));
        }
        let repetition_penalty = fields.number("repetition_penalty", 0.0..=100.0)?;
        if repetition_penalty == Some(0.0) {
            return Err(fields.invalid("repetition_penalty", "expected a number in (0, 100], found 0"));
        }
        Ok(Self {
            temperature: fields.number("temperature", 0.0..=100.0)?,
            top_p,
            top_k: fields.whole("top_k", 0..=u32::MAX as usize)?,
            min_p: fields.number("min_p", 0.0..=1.0)?,
            repetition_penalty,
            presence_penalty: fields.number("presence_penalty", -2.0..=2.0)?,
            frequency_penalty: fields.number("frequency_penalty", -2.0..=2.0)?,
            logit_bias: logit_bias(fields)?,
            seed: seed(fields)?,
        })
    }
}

/// A seed is any 64-bit whole number; negative ones are taken by their bits.
fn seed(fields: &mut Fields) -> Read<Option<u64>> {
    let Some(value) = fields.take("seed") else {
        return Ok(None);
    };
    match (value.as_u64(), value.as_i64()) {
        (Some(seed), _) => Ok(Some(seed)),
        (None, Some(seed)) => Ok(Some(seed.cast_unsigned())),
        _ => Err(wrong(fields.place("seed"), "a 64-bit whole number", &value)),
    }
}

fn logit_bias(fields: &mut Fields) -> Read<Vec<(u32, f32)>> {
    let Some(map) = fields.nested("logit_bias")? else {
        return Ok(Vec::new());
    };
    let entry = |(token, bias): (String, Value)| {
        let place = format!("logit_bias.{token}");
        let id: u32 = token
            .parse()
            .map_err(|_| ApiError::invalid(place.clone(), "the key is not a token id"))?;
        match bias.as_f64().map(|v| v as f32) {
            Some(number) if (-100.0..=100.0).contains(&number) => Ok((id, number)),
            _ => Err(wrong(place, "a number in [-100, 100]", &bias)),
        }
    };
    map.rest().into_iter().map(entry).collect()
}

fn stops(fields: &mut Fields) -> Read<Vec<String>> {
    let list = match fields.take("stop") {
        None => return Ok(Vec::new()),
        Some(Value::String(one)) => vec![Value::String(one)],
        Some(Value::Array(list)) => list,
        Some(other) => {
            return Err(wrong(
                fields.place("stop"),
                "a string or a list of strings",
                &other,
            ));
        }
    };
    if list.len() > MAX_STOPS {
        return Err(fields.invalid(
            "stop",
            format!("{} strings, at most {MAX_STOPS} are taken", list.len()),
        ));
    }
    let one = |(i, value): (usize, Value)| match value {
        Value::String(text) if !text.is_empty() && text.len() <= 4096 => Ok(text),
        other => Err(wrong(format!("stop[{i}]"), "a string of 1 to 4096 bytes", &other)),
    };
    list.into_iter().enumerate().map(one).collect()
}

impl Streaming {
    fn read(fields: &mut Fields) -> Read<Self> {
        let on = fields.flag("stream")?;
        let mut streaming = Self {
            on,
            ..Self::default()
        };
        if let Some(mut options) = fields.nested("stream_options")? {
            if !on {
                return Err(fields.invalid("stream_options", "means nothing without stream: true"));
            }
            streaming.usage = options.flag("include_usage")?;
            streaming.rounds = options.flag("include_rounds")?;
            options.finish()?;
        }
        Ok(streaming)
    }
}
