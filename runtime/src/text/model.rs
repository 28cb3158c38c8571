//! Tokenizer and template of a bundle together.

use super::tokenizer::read_bounded;
use super::{ChatTemplate, Conversation, RenderOptions, TextError, Tokenizer};
use forkcast_engines::manifest::{Manifest, TextFiles};
use sha2::{Digest, Sha256};
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
    /// Reads the text files of the bundle in `dir`, after a check that they are the exported ones: a template is a
    /// program, and nothing of a changed one may run.
    ///
    /// # Errors
    /// A file is unreadable, changed since the export, or not what its format says.
    pub fn of_bundle(dir: &Path, manifest: &Manifest) -> Result<Self, TextError> {
        let files = &manifest.text;
        let read = [
            &files.tokenizer,
            &files.tokenizer_config,
            &files.chat_template,
            &files.generation_config,
        ];
        for name in read.into_iter().flatten() {
            unchanged(dir, manifest, name)?;
        }
        Self::open(dir, files)
    }

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

/// Compares a file with the hash that the manifest has of it.
fn unchanged(dir: &Path, manifest: &Manifest, name: &str) -> Result<(), TextError> {
    let path = dir.join(name);
    let listed = manifest.files.iter().find(|f| f.name == name);
    let listed = listed.ok_or_else(|| TextError::file(&path, "the manifest has no hash of this file"))?;
    let digest = Sha256::digest(read_bounded(&path)?);
    let found: String = digest.iter().map(|b| format!("{b:02x}")).collect();
    if found == listed.sha256 {
        return Ok(());
    }
    Err(TextError::Changed {
        path,
        expected: listed.sha256.clone(),
        found,
    })
}
