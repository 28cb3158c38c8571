//! The acceptance protocol of `tests/models/README.md`: the first prompts of every domain, both turns of
//! the chats, thinking on, at most 128 new tokens. tau is the mean over responses of the mean over rounds.

use crate::paths;
use forkcast::decode::{Ignore, Method, Request, decode};
use forkcast::sample::Sampling;
use forkcast::text::{Conversation, RenderOptions, TextModel};
use forkcast_engines::ort::OrtBackend;
use serde_json::{Value, json};

/// Domains in the order of the published table.
pub const DOMAINS: [char; 5] = ['a', 'b', 'c', 'd', 'e'];
const STOP: [u32; 2] = [2042, 2044];

/// A way of decoding to be measured.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// Method.
    pub method: Method,
    /// Nodes.
    pub budget: usize,
}

/// tau of `way` in each domain, over the first `prompts` conversations.
///
/// # Panics
/// The engine or a prompt file fails.
pub fn tau(engine: &mut OrtBackend, way: Way, temperature: f32, prompts: usize) -> [f64; 5] {
    let text = TextModel::open(&engine.bundle().dir, &engine.bundle().manifest.text).expect("text files");
    DOMAINS.map(|domain| {
        let path = paths::model("prompts").join(format!("prompts_{domain}.jsonl"));
        let lines = std::fs::read_to_string(path).expect("prompt file");
        let mut taus = Vec::new();
        for (i, line) in lines.lines().take(prompts).enumerate() {
            let parsed: Value = serde_json::from_str(line).expect("valid JSON");
            conversation(
                engine,
                &text,
                &parsed["messages"],
                way,
                temperature,
                i as u64,
                &mut taus,
            );
        }
        taus.iter().sum::<f64>() / taus.len() as f64
    })
}

/// Answers the user turns one after another; earlier answers stay in the history.
fn conversation(
    engine: &mut OrtBackend,
    text: &TextModel,
    turns: &Value,
    way: Way,
    temperature: f32,
    seed: u64,
    taus: &mut Vec<f64>,
) {
    let mut history = Vec::new();
    for turn in turns.as_array().expect("messages") {
        history.push(turn.clone());
        let chat = Conversation::new(history.clone(), None).expect("a conversation");
        let prompt = text
            .encode_chat(&chat, RenderOptions::default())
            .expect("renders");
        let request = Request {
            method: way.method,
            budget: way.budget,
            mode: 0,
            max_tokens: 128,
            sampling: Sampling {
                temperature,
                ..Sampling::default()
            },
            seed,
            stop_ids: STOP.to_vec(),
            logprobs: None,
        };
        let report = decode(engine, &prompt, &request, &mut Ignore).expect("decodes");
        if report.rounds > 0 {
            taus.push(report.tau());
        }
        let tokenizer = text.tokenizer.as_ref().expect("a tokenizer");
        history.push(json!({"role": "assistant", "content": tokenizer.decode(&report.token_ids, false)}));
    }
}

/// Mean of the domains.
#[must_use]
pub fn mean(row: &[f64; 5]) -> f64 {
    row.iter().sum::<f64>() / 5.0
}
