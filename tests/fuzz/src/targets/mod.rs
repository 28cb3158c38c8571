//! The targets. Each function documents how it reads its bytes.

mod answer;
mod files;
mod requests;
mod rounds;
mod texts;
mod trees;

pub use answer::answer;
pub use files::{config, engine, index, manifest, recipe, safetensors};
pub use requests::{chat_request, completion_request};
pub use rounds::rounds;
pub use texts::{conversation, template, tokenizer};
pub use trees::tree;

/// A target and its name, which is also the name of its corpus.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name.
    pub name: &'static str,
    /// What is run.
    pub run: fn(&[u8]),
    /// Most bytes that a run may hold at once, apart from what grows with the input.
    pub bytes: usize,
}

/// All of them.
pub const ALL: [Target; 14] = [
    target("safetensors", safetensors),
    target("index", index),
    target("config", config),
    target("manifest", manifest),
    target("engine", engine),
    target("recipe", recipe),
    Target {
        // Four bytes for each id up to the largest allowed, made while a list is resized.
        bytes: 40 << 20,
        ..target("tokenizer", tokenizer)
    },
    Target {
        // Ten million units of 64 bytes, and the buffer doubles while it grows.
        bytes: (2 * 640) << 20,
        ..target("template", template)
    },
    target("conversation", conversation),
    target("chat_request", chat_request),
    target("completion_request", completion_request),
    target("tree", tree),
    target("answer", answer),
    target("rounds", rounds),
];

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target {
        name,
        run,
        bytes: 8 << 20,
    }
}

/// Cuts `data` at the first line that holds `---` only.
fn halves(data: &[u8]) -> (&[u8], &[u8]) {
    const CUT: &[u8] = b"\n---\n";
    match data.windows(CUT.len()).position(|w| w == CUT) {
        Some(at) => (&data[..at], &data[at + CUT.len()..]),
        None => (data, &[]),
    }
}

/// Takes small numbers off the front of some bytes; zeros when they are used up.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    fn below(&mut self, n: usize) -> usize {
        usize::from(self.next()) % n.max(1)
    }
}
