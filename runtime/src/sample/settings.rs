//! How tokens are drawn, and which values are refused.

/// Settings of the draw. Applied in this order: penalties and bias on the logits, temperature,
/// top-k, top-p, min-p. Top-p looks at the mass that top-k left.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// 0 takes the most likely token; otherwise logits are divided by it.
    pub temperature: f32,
    /// Keep the k most likely tokens; 0 keeps all.
    pub top_k: usize,
    /// Keep tokens while the probability before them is below this; 1 keeps all.
    pub top_p: f32,
    /// Keep tokens at least this fraction as likely as the most likely one; 0 keeps all.
    pub min_p: f32,
    /// Logits of tokens in prompt or answer: positive ones are divided by it, negative ones multiplied; 1 is off.
    pub repetition_penalty: f32,
    /// Subtracted from logits of tokens in the answer.
    pub presence_penalty: f32,
    /// Subtracted from logits once per occurrence in the answer.
    pub frequency_penalty: f32,
    /// Added to the logits of these tokens; a token named twice gets both.
    pub logit_bias: Vec<(u32, f32)>,
}

impl Default for Sampling {
    /// Greedy, everything off.
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
        }
    }
}

/// Why a draw is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// A field is out of range.
    #[error("{field}: {value} is outside {range}")]
    Range {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        range: String,
    },
    /// A row of logits has no finite maximum.
    #[error("the logits for position {position} hold {what}; no token can be drawn")]
    BadRow {
        /// Absolute position of the token.
        position: u64,
        /// What was found.
        what: &'static str,
    },
}

impl Sampling {
    /// Checks every field.
    ///
    /// # Errors
    /// The first field that is out of range, by name.
    pub fn validate(&self, vocab: usize) -> Result<(), SamplingError> {
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return refuse("temperature", self.temperature, "[0, infinity)");
        }
        check("min_p", self.min_p, 0.0..=1.0)?;
        check("presence_penalty", self.presence_penalty, -2.0..=2.0)?;
        check("frequency_penalty", self.frequency_penalty, -2.0..=2.0)?;
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return refuse("top_p", self.top_p, "(0, 1]");
        }
        if !(self.repetition_penalty > 0.0 && self.repetition_penalty.is_finite()) {
            return refuse("repetition_penalty", self.repetition_penalty, "(0, infinity)");
        }
        for (id, bias) in &self.logit_bias {
            check("logit_bias", *bias, -100.0..=100.0)?;
            if *id as usize >= vocab {
                return refuse("logit_bias", *id, &format!("the vocabulary of {vocab}"));
            }
        }
        Ok(())
    }

    /// Whether what was said before changes the logits.
    pub(super) fn penalises(&self) -> bool {
        self.repetition_penalty != 1.0 || self.presence_penalty != 0.0 || self.frequency_penalty != 0.0
    }

    /// Whether logits must be changed before the draw.
    pub(super) fn shapes_logits(&self) -> bool {
        self.penalises() || !self.logit_bias.is_empty()
    }

    /// Whether some tokens may not be drawn.
    pub(super) fn filters(&self) -> bool {
        self.top_k > 0 || self.top_p < 1.0 || self.min_p > 0.0
    }
}

fn check(field: &'static str, value: f32, range: std::ops::RangeInclusive<f32>) -> Result<(), SamplingError> {
    // A NaN is in no range.
    if range.contains(&value) {
        Ok(())
    } else {
        refuse(field, value, &format!("[{}, {}]", range.start(), range.end()))
    }
}

fn refuse(field: &'static str, value: impl ToString, range: &str) -> Result<(), SamplingError> {
    Err(SamplingError::Range {
        field,
        value: value.to_string(),
        range: range.to_owned(),
    })
}
