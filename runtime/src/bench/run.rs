//! Answering every prompt with every cell, in turn, on one engine.

use super::BenchError;
use super::record::{Response, Sample};
use super::settings::{Cell, Settings};
use super::suite::{Prompt, Suite};
use super::synthetic::Synthetic;
use crate::decode::{Ignore, Report, Request, decode};
use crate::text::TextModel;
use forkcast_engines::backend::Backend;
use serde_json::{Value, json};

/// Tokens of the answer that warms up each cell.
const WARM_UP: usize = 64;

/// What is needed to answer.
#[derive(Debug)]
pub struct Bench<'a> {
    /// Tokenizer and template.
    pub text: &'a TextModel,
    /// Tokens that end an answer.
    pub stop_ids: &'a [u32],
    /// Cells; plain comes first at every temperature.
    pub cells: &'a [Cell],
    /// How often and how.
    pub settings: &'a Settings,
}

impl Bench<'_> {
    /// Runs all suites; `tell` hears of every answered turn.
    ///
    /// # Errors
    /// A prompt cannot be asked, or the engine fails.
    pub fn run(
        &self,
        backend: &mut dyn Backend,
        suites: &[Suite],
        tell: &mut dyn FnMut(&str),
    ) -> Result<Vec<Response>, BenchError> {
        match self.settings.synthetic_acceptance {
            None => self.suites(backend, suites, tell),
            Some(tau) => {
                let mut engine = Synthetic::new(backend, tau, self.settings.seed);
                self.suites(&mut engine, suites, tell)
            }
        }
    }

    fn suites(
        &self,
        backend: &mut dyn Backend,
        suites: &[Suite],
        tell: &mut dyn FnMut(&str),
    ) -> Result<Vec<Response>, BenchError> {
        let mut responses = Vec::new();
        for (i, suite) in suites.iter().enumerate() {
            for (n, prompt) in suite.prompts.iter().enumerate() {
                let mut asking = Asking {
                    bench: self,
                    suite,
                    place: i,
                    prompt,
                    seed: self.settings.seed.wrapping_add(n as u64),
                };
                if i == 0 && n == 0 {
                    asking.warm_up(backend)?;
                }
                asking.answer(backend, &mut responses)?;
                tell(&format!("{} {} of {}", suite.name, n + 1, suite.prompts.len()));
            }
        }
        Ok(responses)
    }
}

/// One prompt under way.
struct Asking<'a> {
    bench: &'a Bench<'a>,
    suite: &'a Suite,
    place: usize,
    prompt: &'a Prompt,
    seed: u64,
}

impl Asking<'_> {
    /// One short answer of every cell, so that no first sample pays for memory and code that are touched first.
    fn warm_up(&mut self, backend: &mut dyn Backend) -> Result<(), BenchError> {
        let tokens = self.tokens(0, &mut Vec::new())?;
        for cell in self.bench.cells {
            let most = self.bench.settings.max_tokens.min(WARM_UP);
            self.decode(backend, cell, &tokens, most)?;
        }
        Ok(())
    }

    /// Answers all turns at every temperature; each has its own history, with plain's answers.
    fn answer(&mut self, backend: &mut dyn Backend, out: &mut Vec<Response>) -> Result<(), BenchError> {
        let mut temperatures: Vec<f32> = Vec::new();
        for cell in self.bench.cells {
            if !temperatures.contains(&cell.temperature) {
                temperatures.push(cell.temperature);
            }
        }
        for temperature in temperatures {
            let mut history = Vec::new();
            for turn in 0..self.prompt.ask.turns() {
                let tokens = self.tokens(turn, &mut history)?;
                let ids = self.turn(backend, temperature, turn, &tokens, out)?;
                if let Some(tokenizer) = &self.bench.text.tokenizer {
                    let reply = tokenizer.decode(&ids, false);
                    history.push(json!({"role": "assistant", "content": reply}));
                }
            }
        }
        Ok(())
    }

    fn tokens(&self, turn: usize, history: &mut Vec<Value>) -> Result<Vec<u32>, BenchError> {
        let (text, thinking) = (self.bench.text, self.bench.settings.thinking);
        self.prompt
            .ask
            .tokens(turn, history, text, thinking)
            .map_err(|source| BenchError::Prompt {
                suite: self.suite.name.clone(),
                prompt: self.prompt.id.clone(),
                source,
            })
    }

    /// All repeats of all cells of one temperature, the first cell moving on by one each time; plain's tokens.
    fn turn(
        &self,
        backend: &mut dyn Backend,
        temperature: f32,
        turn: usize,
        tokens: &[u32],
        out: &mut Vec<Response>,
    ) -> Result<Vec<u32>, BenchError> {
        let cells = self.bench.cells.iter().enumerate();
        let cells: Vec<(usize, &Cell)> = cells.filter(|(_, c)| c.temperature == temperature).collect();
        let mut found: Vec<Option<(Report, Vec<Sample>)>> = cells.iter().map(|_| None).collect();
        for repeat in 0..self.bench.settings.repeat {
            for step in 0..cells.len() {
                let at = (repeat + step) % cells.len();
                let report = self.decode(backend, cells[at].1, tokens, self.bench.settings.max_tokens)?;
                let sample = Sample {
                    first_token: report.time_to_first_token.as_secs_f64(),
                    decode: report.decode_time.as_secs_f64(),
                    stages: report.seconds,
                };
                found[at].get_or_insert((report, Vec::new())).1.push(sample);
            }
        }
        let plain = found.first().and_then(Option::as_ref);
        let plain = plain.map_or_else(Vec::new, |(report, _)| report.token_ids.clone());
        for ((cell, _), found) in cells.into_iter().zip(found) {
            let Some((report, samples)) = found else { continue };
            out.push(Response {
                suite: self.place,
                prompt: self.prompt.id.clone(),
                turn,
                cell,
                prompt_tokens: report.prompt_tokens,
                tokens: report.token_ids.len(),
                differs_at: difference(&plain, &report.token_ids),
                accepted: report.accepted_lengths,
                drafted: report.draft_tokens,
                samples,
            });
        }
        Ok(plain)
    }

    fn decode(
        &self,
        backend: &mut dyn Backend,
        cell: &Cell,
        tokens: &[u32],
        max_tokens: usize,
    ) -> Result<Report, BenchError> {
        let settings = self.bench.settings;
        let synthetic = settings.synthetic_acceptance.is_some();
        let request = Request {
            method: cell.method(),
            budget: cell.budget,
            mode: settings.mode,
            max_tokens,
            sampling: settings.sampling(cell),
            seed: self.seed,
            stop_ids: if synthetic {
                Vec::new()
            } else {
                self.bench.stop_ids.to_vec()
            },
            logprobs: None,
        };
        decode(backend, tokens, &request, &mut Ignore).map_err(|source| BenchError::Decode {
            suite: self.suite.name.clone(),
            prompt: self.prompt.id.clone(),
            cell: cell.to_string(),
            source: Box::new(source),
        })
    }
}

/// First place where two answers differ, their lengths included.
fn difference(a: &[u32], b: &[u32]) -> Option<usize> {
    let common = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    (common < a.len().max(b.len())).then_some(common)
}
