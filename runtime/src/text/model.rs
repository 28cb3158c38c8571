//! Tokenizer and template of a bundle together.

use super::{ChatTemplate, Conversation, RenderOptions, TextError, Tokenizer};
use forkcast_engines::manifest::TextFiles;
use std::path::Path;

/// What a bundle knows about text; parts are absent when its checkpoint had none.
#[derive(Debug)]
pub struct TextModel {
    /// The tokenizer.
    pub tokenizer: Option<Tokenizer>,
    /// The chat template.
    pub template: Option<ChatTemplate>,
}

impl TextModel {
    /// Reads the text files of the bundle in `dir`.
    ///
    /// # Errors
    /// A file is unreadable or not what its format says.
    pub fn open(dir: &Path, files: &TextFiles) -> Result<Self, TextError> {
        let path = |name: &Option<String>| name.as_ref().map(|n| dir.join(n));
        let config = path(&files.tokenizer_config);
        let tokenizer = path(&files.tokenizer)
            .map(|p| Tokenizer::open(&p, config.as_deref()))
            .transpose()?;
        Ok(Self {
            tokenizer,
            template: ChatTemplate::open(dir, files)?,
        })
    }

    /// Tokens of a raw text.
    ///
    /// # Errors
    /// There is no tokenizer, or it fails.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        self.tokenizer
            .as_ref()
            .ok_or(TextError::NoTokenizer)?
            .encode(text)
    }

    /// Tokens of a conversation's prompt.
    ///
    /// # Errors
    /// There is no tokenizer or template, or one of them fails.
    pub fn encode_chat(&self, chat: &Conversation, options: RenderOptions) -> Result<Vec<u32>, TextError> {
        let tokenizer = self.tokenizer.as_ref().ok_or(TextError::NoTokenizer)?;
        let template = self.template.as_ref().ok_or(TextError::NoTemplate)?;
        tokenizer.encode(&template.render(chat, options)?)
    }
}
