//! Suites: named lists of prompts from files.

mod format;
mod read;

pub use format::{BOXED, Format};
pub use read::read;

use crate::text::{Conversation, RenderOptions, TextError, TextModel};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde_json::Value;
use std::path::PathBuf;

/// A named list of prompts.
#[derive(Clone, Debug, PartialEq)]
pub struct Suite {
    /// Name in tables: the file's name without its ending.
    pub name: String,
    /// Where it came from.
    pub path: PathBuf,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
    /// Prompts in the order of the file, or shuffled.
    pub prompts: Vec<Prompt>,
}

/// One prompt, perhaps of several turns.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// Identifier from the file, else the line.
    pub id: String,
    /// What is asked.
    pub ask: Ask,
}

/// What a prompt asks.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// Tokens to continue; needs no tokenizer.
    Ids(Vec<u32>),
    /// Text to continue as it is.
    Text(String),
    /// A conversation: messages to append before each answer. The answers go into the history between.
    Turns(Vec<Vec<Value>>),
}

impl Ask {
    /// Answers that it takes.
    #[must_use]
    pub fn turns(&self) -> usize {
        match self {
            Self::Ids(_) | Self::Text(_) => 1,
            Self::Turns(turns) => turns.len(),
        }
    }

    /// Appends the messages of a turn to `history` and gives the tokens of its prompt.
    ///
    /// # Errors
    /// There is no tokenizer or template where one is needed, or one fails.
    pub fn tokens(
        &self,
        turn: usize,
        history: &mut Vec<Value>,
        text: &TextModel,
        thinking: Option<bool>,
    ) -> Result<Vec<u32>, TextError> {
        match self {
            Self::Ids(ids) => Ok(ids.clone()),
            Self::Text(prompt) => text.encode(prompt),
            Self::Turns(turns) => {
                history.extend(turns[turn].iter().cloned());
                let chat = Conversation::new(history.clone(), None)?;
                let options = RenderOptions {
                    generation_prompt: true,
                    thinking,
                };
                text.encode_chat(&chat, options)
            }
        }
    }
}

/// `count` prompts of `length` seeded token ids below `vocab`, for models without tokenizer or drafter.
#[must_use]
pub fn random(vocab: usize, count: usize, length: usize, seed: u64) -> Suite {
    let mut dice = ChaCha8Rng::seed_from_u64(seed);
    let mut ids = || -> Vec<u32> {
        (0..length)
            .map(|_| (dice.next_u64() % vocab.max(1) as u64) as u32)
            .collect()
    };
    let prompts = (0..count).map(|i| Prompt {
        id: i.to_string(),
        ask: Ask::Ids(ids()),
    });
    Suite {
        name: "ids".to_owned(),
        path: PathBuf::new(),
        sha256: format!("seed {seed}, {count} prompts of {length} ids below {vocab}"),
        prompts: prompts.collect(),
    }
}

impl Suite {
    /// Keeps `count` prompts: the first ones, or with a seed those of a seeded shuffle (Fisher-Yates over ChaCha8; not the
    /// order of any published subset).
    pub fn select(&mut self, count: Option<usize>, shuffle: Option<u64>) {
        if let Some(seed) = shuffle {
            let mut dice = ChaCha8Rng::seed_from_u64(seed);
            for i in (1..self.prompts.len()).rev() {
                let j = (dice.next_u64() % (i as u64 + 1)) as usize;
                self.prompts.swap(i, j);
            }
        }
        self.prompts.truncate(count.unwrap_or(usize::MAX));
    }
}
