//! What the server knows of its model apart from the engine: text, defaults, names.

use super::ServeError;
use super::api::{ApiError, Messages, SamplingFields, Tool};
use super::split::Start;
use crate::sample::Sampling;
use crate::text::{Conversation, Memo, RenderOptions, TextError, TextModel, Tokenizer};
use serde_json::Value;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Token that opens a turn in the templates of this family.
const TURN: &str = "<|im_start|>";
/// A leading system turn shorter than this is not worth a kept state of its own.
const MIN_SYSTEM_TOKENS: usize = 64;

/// The served model.
#[derive(Debug)]
pub struct Model {
    /// Name that requests ask for.
    pub id: String,
    /// When the server started, Unix seconds.
    pub created: u64,
    /// Tokens that end an answer.
    pub stop_ids: Vec<u32>,
    /// Sampling of requests that do not say.
    pub defaults: Sampling,
    text: TextModel,
    turn: Option<u32>,
    thinks: bool,
    memo: Option<Memo>,
}

/// A prompt on its way to the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The prompt.
    pub tokens: Vec<u32>,
    /// Places where states are worth keeping, ascending.
    pub boundaries: Vec<usize>,
    /// How the answer starts.
    pub start: Start,
}

impl Model {
    /// The model of a bundle.
    ///
    /// # Errors
    /// There is no tokenizer.
    pub fn new(
        id: String,
        text: TextModel,
        stop_ids: Vec<u32>,
        defaults: Sampling,
    ) -> Result<Self, ServeError> {
        let tokenizer = text.tokenizer.as_ref().ok_or(TextError::NoTokenizer)?;
        let created = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(Self {
            id,
            created: created.map_or(0, |t| t.as_secs()),
            stop_ids,
            defaults,
            turn: tokenizer.id(TURN),
            thinks: tokenizer.id("<think>").is_some(),
            memo: Memo::new(tokenizer, TURN),
            text,
        })
    }

    /// The tokenizer.
    ///
    /// # Errors
    /// Never: [`Model::new`] made sure of it.
    pub fn tokenizer(&self) -> Result<&Tokenizer, TextError> {
        self.text.tokenizer.as_ref().ok_or(TextError::NoTokenizer)
    }

    /// Refuses requests for another model.
    ///
    /// # Errors
    /// `asked` is not this model.
    pub fn check_name(&self, asked: Option<&str>) -> Result<(), ApiError> {
        match asked {
            Some(name) if name != self.id => Err(ApiError::model_not_found(name, &self.id)),
            _ => Ok(()),
        }
    }

    /// Sampling of a request: its own fields, the model's defaults for the others.
    #[must_use]
    pub fn sampling(&self, fields: &SamplingFields) -> Sampling {
        let d = &self.defaults;
        Sampling {
            temperature: fields.temperature.unwrap_or(d.temperature),
            top_k: fields.top_k.unwrap_or(d.top_k),
            top_p: fields.top_p.unwrap_or(d.top_p),
            min_p: fields.min_p.unwrap_or(d.min_p),
            repetition_penalty: fields.repetition_penalty.unwrap_or(d.repetition_penalty),
            presence_penalty: fields.presence_penalty.unwrap_or(d.presence_penalty),
            frequency_penalty: fields.frequency_penalty.unwrap_or(d.frequency_penalty),
            logit_bias: fields.logit_bias.clone(),
        }
    }

    /// Tokens of a raw text.
    ///
    /// # Errors
    /// The tokenizer fails.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, ApiError> {
        self.text
            .encode(text)
            .map_err(|e| ApiError::invalid("prompt", e.to_string()))
    }

    /// The prompt that continues `tokens`.
    #[must_use]
    pub fn continuation(tokens: Vec<u32>) -> Prepared {
        Prepared {
            boundaries: vec![tokens.len().saturating_sub(1)],
            tokens,
            start: Start::Content,
        }
    }

    /// The prompt of a conversation. What the template would drop is refused.
    ///
    /// # Errors
    /// The template does not know something of the request, or fails on it.
    pub fn chat(
        &self,
        messages: &Messages,
        tools: &[Tool],
        thinking: Option<bool>,
    ) -> Result<Prepared, ApiError> {
        let template = self.text.template.as_ref();
        let template =
            template.ok_or_else(|| ApiError::invalid("messages", "this model has no chat template"))?;
        if thinking.is_some() && !template.knows_thinking() {
            let reason = "this model's chat template does not know it";
            return Err(ApiError::invalid("chat_template_kwargs.enable_thinking", reason));
        }
        let options = RenderOptions {
            thinking,
            ..RenderOptions::default()
        };
        let render = |messages: &Messages, tools: &[Tool]| {
            let tools = (!tools.is_empty()).then(|| tools.iter().map(|t| t.json.clone()).collect());
            Conversation::new(messages.clone(), tools)
                .and_then(|c| template.render(&c, options))
                .map_err(|e| ApiError::invalid("messages", e.to_string()))
        };
        let prompt = render(messages, tools)?;
        if !tools.is_empty() && render(messages, &[])? == prompt {
            let reason = "this model's chat template does not show tools to the model";
            return Err(ApiError::invalid("tools", reason));
        }
        if let Some((place, without)) = without_calls(messages)
            && render(&without, tools)? == prompt
        {
            let reason = "this model's chat template does not show tool calls to the model";
            return Err(ApiError::invalid(place, reason));
        }
        let tokenizer = self.text.tokenizer.as_ref().ok_or(TextError::NoTokenizer);
        let tokens = tokenizer
            .and_then(|tokenizer| match &self.memo {
                Some(memo) => memo.encode(tokenizer, &prompt),
                None => tokenizer.encode(&prompt),
            })
            .map_err(|e| ApiError::invalid("messages", e.to_string()))?;
        Ok(Prepared {
            boundaries: self.boundaries(&tokens),
            start: if self.thinks {
                Start::after(&prompt)
            } else {
                Start::Content
            },
            tokens,
        })
    }

    /// Where the turns of a prompt end that later prompts will probably share: after the first turn when it
    /// is long (system text and tools), and before the answer's turn.
    fn boundaries(&self, tokens: &[u32]) -> Vec<usize> {
        let Some(turn) = self.turn else {
            return vec![tokens.len().saturating_sub(1)];
        };
        let turns = || {
            tokens
                .iter()
                .enumerate()
                .filter(|(_, t)| **t == turn)
                .map(|(i, _)| i)
        };
        let first = turns().nth(1).filter(|i| *i >= MIN_SYSTEM_TOKENS);
        let last = turns().next_back();
        let mut boundaries: Vec<usize> = first.into_iter().chain(last).collect();
        boundaries.dedup();
        boundaries
    }
}

/// The messages without tool calls, and the place of the first one; none when there is none.
fn without_calls(messages: &Messages) -> Option<(String, Messages)> {
    let first = messages.iter().position(|m| m.get("tool_calls").is_some())?;
    let mut without = messages.clone();
    for message in &mut without {
        if let Value::Object(fields) = message {
            fields.remove("tool_calls");
        }
    }
    Some((format!("messages[{first}].tool_calls"), without))
}

/// Reads the sampling defaults of `generation_config.json`; what it leaves open is as OpenAI has it:
/// temperature 1, everything else off.
///
/// # Errors
/// The file is unreadable, or a value is out of range.
pub fn read_defaults(path: Option<&Path>) -> Result<Sampling, ServeError> {
    let mut sampling = Sampling {
        temperature: 1.0,
        ..Sampling::default()
    };
    let Some(path) = path else {
        return Ok(sampling);
    };
    let wrong = |reason: String| ServeError::GenerationConfig {
        path: path.to_owned(),
        reason,
    };
    let text = std::fs::read(path).map_err(|e| wrong(e.to_string()))?;
    let config: Value = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
    let number = |name: &str, default: f32| match config.get(name) {
        None | Some(Value::Null) => Ok(default),
        Some(value) => {
            let number = value.as_f64().map(|v| v as f32);
            number.ok_or_else(|| wrong(format!("{name}: {value} is not a number")))
        }
    };
    sampling.temperature = number("temperature", 1.0)?;
    sampling.top_p = number("top_p", 1.0)?;
    sampling.min_p = number("min_p", 0.0)?;
    sampling.repetition_penalty = number("repetition_penalty", 1.0)?;
    sampling.top_k = match config.get("top_k") {
        None | Some(Value::Null) => 0,
        Some(value) => {
            let k = value.as_u64().and_then(|k| usize::try_from(k).ok());
            k.ok_or_else(|| wrong(format!("top_k: {value} is not a whole number")))?
        }
    };
    if config.get("do_sample") == Some(&Value::Bool(false)) {
        sampling.temperature = 0.0;
    }
    sampling.validate(usize::MAX).map_err(|e| wrong(e.to_string()))?;
    Ok(sampling)
}
