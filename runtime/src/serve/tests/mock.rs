//! A scripted engine that answers "say X" with X. Its drafter is right most of the time, so stops, ends and
//! limits fall inside of accepted blocks.

use super::super::model::Model;
use forkcast_engines::backend::{Backend, BackendError, Candidates, Counters, RowBatch, Shape, Snapshot};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const VOCAB: usize = 2048;
const BLOCK: usize = 8;
const MODES: usize = 2;
const TURN: u32 = 2043;
const END: u32 = 2044;

/// How the mock behaves.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    /// Time of a pass over the target.
    pub(super) pass: Duration,
    /// No recurrent state.
    pub(super) stateless: bool,
    /// Context limit; 0 for 2000.
    pub(super) context: usize,
}

/// What tests see of the mock, and how they break it.
#[derive(Debug, Default)]
pub(super) struct Probe {
    /// Rows that the target computed.
    pub(super) rows: AtomicUsize,
    /// Passes over the target.
    pub(super) passes: AtomicUsize,
    /// Makes the next pass fail.
    pub(super) fail: AtomicBool,
    /// Makes the next pass panic.
    pub(super) panic: AtomicBool,
}

#[derive(Debug)]
pub(super) struct Mock {
    script: Script,
    model: Arc<Model>,
    probe: Arc<Probe>,
    tokens: Vec<u32>,
    rows: Vec<Vec<u32>>,
    anchor: u32,
}

impl Mock {
    pub(super) fn new(script: Script, model: Arc<Model>, probe: Arc<Probe>) -> Self {
        Self {
            script,
            model,
            probe,
            tokens: Vec::new(),
            rows: Vec::new(),
            anchor: 0,
        }
    }

    /// The token after `prefix`.
    fn answer(&self, prefix: &[u32]) -> u32 {
        let (said, done) = match prefix.iter().rposition(|t| *t == TURN) {
            Some(turn) => (
                self.last_user(&prefix[..turn]),
                prefix.len() - self.begin(prefix, turn),
            ),
            None => {
                let bar = self.ids("|")[0];
                let end = prefix.iter().position(|t| *t == bar).unwrap_or(prefix.len() - 1);
                (self.text(&prefix[..end]), prefix.len() - end - 1)
            }
        };
        let said = said.trim_start_matches("say ");
        self.spell(said).get(done).copied().unwrap_or(END)
    }

    /// Where the answer begins after the turn's header.
    fn begin(&self, prefix: &[u32], turn: usize) -> usize {
        let headers = [
            "<|im_start|>assistant\n<think>\n\n</think>\n\n",
            "<|im_start|>assistant\n<think>\n",
            "<|im_start|>assistant\n",
        ];
        let length = headers
            .iter()
            .map(|h| self.ids(h))
            .find(|h| prefix[turn..].starts_with(h));
        turn + length.map_or(1, |h| h.len()).min(prefix.len() - turn)
    }

    fn last_user(&self, prefix: &[u32]) -> String {
        let text = self.text(prefix);
        let after = text.rsplit("<|im_start|>user\n").next().unwrap_or_default();
        after.split("<|im_end|>").next().unwrap_or_default().to_owned()
    }

    /// Tokens of a text; `¶` stands for a byte that is no UTF-8.
    fn spell(&self, text: &str) -> Vec<u32> {
        let lone = (0..VOCAB as u32).find(|t| self.model.tokenizer().unwrap().bytes(*t) == [0xff]);
        let mut ids = Vec::new();
        for (i, part) in text.split('¶').enumerate() {
            if i > 0 {
                ids.extend(lone);
            }
            ids.extend(self.ids(part));
        }
        ids
    }

    fn ids(&self, text: &str) -> Vec<u32> {
        self.model.encode(text).unwrap()
    }

    fn text(&self, ids: &[u32]) -> String {
        self.model.tokenizer().unwrap().decode(ids, true)
    }
}

fn limit<T>(text: &str) -> Result<T, BackendError> {
    Err(BackendError::Limit(text.to_owned()))
}

impl Backend for Mock {
    fn shape(&self) -> Shape {
        Shape {
            vocab: VOCAB,
            hidden: 1,
            tap_width: 1,
            block: BLOCK,
            modes: MODES,
            max_context: if self.script.context == 0 {
                2000
            } else {
                self.script.context
            },
            max_rows: 64,
            prefill_rows: 16,
        }
    }

    fn committed(&self) -> usize {
        self.tokens.len()
    }

    fn reset(&mut self) -> Result<(), BackendError> {
        self.tokens.clear();
        Ok(())
    }

    fn reserve(&mut self, rows: usize) -> Result<(), BackendError> {
        if rows > self.shape().max_context {
            return limit("reserve beyond the context");
        }
        Ok(())
    }

    fn set_drafting(&mut self, _: bool) {}

    fn verify(&mut self, batch: &RowBatch<'_>) -> Result<(), BackendError> {
        std::thread::sleep(self.script.pass);
        self.probe.passes.fetch_add(1, Ordering::SeqCst);
        self.probe.rows.fetch_add(batch.len(), Ordering::SeqCst);
        assert!(
            !self.probe.panic.load(Ordering::SeqCst),
            "the test asked for a panic"
        );
        if self.probe.fail.swap(false, Ordering::SeqCst) {
            return Err(BackendError::Run {
                stage: "verify",
                reason: "the test asked for a failure".to_owned(),
            });
        }
        let n = batch.len();
        self.rows = (0..n)
            .map(|i| {
                (0..n)
                    .filter(|j| batch.ancestors[i * n + j])
                    .map(|j| batch.tokens[j])
                    .collect()
            })
            .collect();
        Ok(())
    }

    fn logits(&mut self, rows: &[u32], out: &mut Vec<f32>) -> Result<(), BackendError> {
        out.clear();
        for row in rows {
            let Some(path) = self.rows.get(*row as usize) else {
                return limit("no such row");
            };
            let prefix: Vec<u32> = self.tokens.iter().chain(path).copied().collect();
            let token = self.answer(&prefix);
            out.extend((0..VOCAB as u32).map(|t| if t == token { 20.0 } else { -(t as f32) / 1e4 }));
        }
        Ok(())
    }

    fn features(&mut self, hidden: &mut Vec<f32>, taps: &mut Vec<f32>) -> Result<(), BackendError> {
        hidden.clear();
        taps.clear();
        Ok(())
    }

    fn commit(&mut self, path: &[u32]) -> Result<(), BackendError> {
        for row in path {
            let token = self.rows.get(*row as usize).and_then(|r| r.last());
            let Some(token) = token else {
                return limit("no such row");
            };
            self.tokens.push(*token);
        }
        Ok(())
    }

    fn draft(&mut self, anchor: u32) -> Result<(), BackendError> {
        self.anchor = anchor;
        Ok(())
    }

    fn candidates(
        &mut self,
        modes: Range<usize>,
        k: usize,
        out: &mut Candidates,
    ) -> Result<(), BackendError> {
        let k = k.min(VOCAB);
        *out = Candidates {
            modes: modes.len(),
            positions: BLOCK - 1,
            k,
            ..Candidates::default()
        };
        for mode in modes {
            let mut prefix = self.tokens.clone();
            prefix.push(self.anchor);
            for position in 1..BLOCK {
                let right = self.answer(&prefix);
                // Wrong now and then, and the modes in different places.
                let best = if (prefix.len() + 3 * mode + position).is_multiple_of(5) {
                    right ^ 1
                } else {
                    right
                };
                let mut ids = vec![best];
                ids.extend((0..k as u32 + 1).filter(|t| *t != best));
                out.ids.extend(&ids[..k]);
                out.logp
                    .extend((0..k).map(|r| -0.1 - 3.0 * r as f32 - mode as f32 * 0.01));
                prefix.push(right);
            }
        }
        Ok(())
    }

    fn snapshot(&mut self) -> Result<Snapshot, BackendError> {
        let state = self.tokens.iter().map(|t| *t as f32).collect();
        Ok(Snapshot {
            committed: self.tokens.len(),
            states: if self.script.stateless {
                Vec::new()
            } else {
                vec![state]
            },
        })
    }

    fn rewind(&mut self, snapshot: &Snapshot) -> Result<(), BackendError> {
        if snapshot.committed > self.tokens.len() || snapshot.states.is_empty() != self.script.stateless {
            return limit("foreign snapshot");
        }
        self.tokens.truncate(snapshot.committed);
        if let [state] = snapshot.states.as_slice() {
            let kept: Vec<u32> = state.iter().map(|t| *t as u32).collect();
            if kept != self.tokens {
                return limit("the snapshot belongs to other tokens");
            }
        }
        Ok(())
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}
