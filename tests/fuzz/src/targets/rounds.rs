//! Whole answers over a scripted engine: accepted blocks of any length, stops anywhere in them.

use super::Bytes;
use forkcast::decode::{Emitted, FinishReason, Method, Request, Sink, Verdict, decode};
use forkcast::sample::Sampling;
use forkcast_tests::mock::{Drafting, Mock, Script};

/// Bytes choose target, drafter, limits, stop tokens and the token after which the client stops or hangs up. Every method
/// must give plain decoding's answer.
pub fn rounds(data: &[u8]) {
    let mut bytes = Bytes(data);
    let script = script(&mut bytes);
    let prompt: Vec<u32> = (0..1 + bytes.below(12))
        .map(|_| bytes.below(script.vocab) as u32)
        .collect();
    let stop_ids = (0..bytes.below(3))
        .map(|_| bytes.below(script.vocab) as u32)
        .collect();
    let request = Request {
        method: Method::Plain,
        budget: bytes.below(40),
        mode: bytes.below(script.modes),
        max_tokens: bytes.below(40),
        sampling: Sampling {
            temperature: [0.0, 0.7, 1.0, 5.0][bytes.below(4)],
            ..Sampling::default()
        },
        seed: u64::from(bytes.next()),
        stop_ids,
        logprobs: None,
    };
    let end = (bytes.below(50), [Verdict::Stop, Verdict::Cancel][bytes.below(2)]);
    let expected = answer(&script, &prompt, &request, end);
    let methods = [Method::Chain, Method::Ddtree, Method::Mfd];
    // A mixture of one mode is refused.
    for method in methods.into_iter().take(if script.modes > 1 { 3 } else { 2 }) {
        let request = Request {
            method,
            ..request.clone()
        };
        let found = answer(&script, &prompt, &request, end);
        assert_eq!(found, expected, "{method} gives another answer");
    }
}

fn script(bytes: &mut Bytes<'_>) -> Script {
    let drafting = match bytes.below(6) {
        0 => Drafting::Perfect,
        1 => Drafting::Random,
        2 => Drafting::Wrong,
        3 => Drafting::Nan,
        n => Drafting::Noisy(n as f32 - 3.5),
    };
    Script {
        vocab: 2 + bytes.below(30),
        order: 1 + bytes.below(4),
        scale: bytes.below(9) as f32,
        seed: u64::from(bytes.next()),
        block: 2 + bytes.below(15),
        modes: 1 + bytes.below(4),
        drafting,
        max_context: 14 + bytes.below(60),
    }
}

/// Stops or hangs up at one token of the answer.
struct Client {
    at: usize,
    verdict: Verdict,
    tokens: Vec<u32>,
}

impl Sink for Client {
    fn token(&mut self, token: &Emitted<'_>) -> Verdict {
        assert_eq!(token.index, self.tokens.len(), "tokens out of order");
        self.tokens.push(token.id);
        if token.index == self.at {
            self.verdict
        } else {
            Verdict::Continue
        }
    }
}

/// The answer, why it ended, and what the engine has committed afterwards.
type Answer = Option<(Vec<u32>, FinishReason, Vec<u32>)>;

fn answer(script: &Script, prompt: &[u32], request: &Request, end: (usize, Verdict)) -> Answer {
    let mut engine = Mock::new(script.clone());
    let mut client = Client {
        at: end.0,
        verdict: end.1,
        tokens: Vec::new(),
    };
    let report = decode(&mut engine, prompt, request, &mut client).ok()?;
    assert_eq!(report.token_ids, client.tokens);
    Some((report.token_ids, report.finish_reason, engine.tokens))
}
