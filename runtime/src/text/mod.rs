//! Text on both ends of the loop: tokenizer, chat template, conversations, and the way back from
//! tokens to text while they stream (whole characters, stop strings).

mod alphabet;
mod chat;
mod clock;
mod detokenize;
mod error;
mod memo;
mod model;
mod python;
mod stop;
mod stream;
mod supported;
mod template;
mod tokenizer;
mod values;

pub use chat::Conversation;
pub use detokenize::Detokenizer;
pub use error::TextError;
pub use memo::Memo;
pub use model::TextModel;
pub use stop::StopMatcher;
pub use stream::{Piece, TextStream};
pub use template::{ChatTemplate, RenderOptions};
pub use tokenizer::Tokenizer;

#[cfg(test)]
mod tests;
