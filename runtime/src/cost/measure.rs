//! Timing the stages of an engine: medians of interleaved repeats.

use super::{CostError, CostModel, DraftCost};
use crate::decode::Method;
use forkcast_engines::backend::{Backend, BackendError, Candidates, LogitNeeds, RowBatch};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Rows of a pass that are timed, as far as the engine takes them.
pub const ROWS: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 257];
/// Rows of the path that a timed commit appends.
pub const PATH: usize = 4;
/// Where passes are short, everything is timed until this many seconds have gone by at a context ...
const LEAST_SECONDS: f64 = 1.5;
/// ... or this many times.
const MOST_REPEATS: usize = 25;
/// Candidates per position that a tree method reads first.
const CANDIDATES: usize = 32;

/// What is timed.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Committed rows before the pass, ascending; those that do not fit are left out.
    pub contexts: Vec<usize>,
    /// Most rows of a pass.
    pub most_rows: usize,
    /// Times that everything is timed.
    pub repeat: usize,
    /// A context is left out when filling up to it would take longer than this, in seconds.
    pub most_fill: f64,
}

/// What was timed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Costs of rounds.
    pub model: CostModel,
    /// Prompt tokens per second on the way to each context.
    pub prefill: Vec<f64>,
    /// Seconds of the head over `model.rows` rows at the first context; the verify costs contain a path's worth of it.
    pub head: Vec<f64>,
    /// Contexts that were asked for and are left out: too long for the model, or to fill in time.
    pub left_out: Vec<usize>,
}

/// Times draft, verify, head and commit at every context.
///
/// # Errors
/// The engine fails, or no context fits.
pub fn measure(
    backend: &mut dyn Backend,
    settings: &Settings,
    tell: &mut dyn FnMut(&str),
) -> Result<Costs, CostError> {
    let shape = backend.shape();
    let most = settings.most_rows.min(shape.max_rows).min(shape.max_context / 2);
    let mut rows: Vec<usize> = ROWS.into_iter().filter(|r| *r < most).collect();
    rows.push(most.max(1));
    let mut bench = Bench {
        vocab: shape.vocab,
        dice: ChaCha8Rng::seed_from_u64(1),
        costs: Costs::default(),
        block: shape.block.max(2),
        modes: shape.modes,
        positions: Vec::new(),
        ancestors: Vec::new(),
        tokens: Vec::new(),
        logits: Vec::new(),
        candidates: Candidates::default(),
    };
    bench.costs.model.rows = rows;
    backend.reset()?;
    backend.set_drafting(shape.modes > 0);
    backend.set_needs(LogitNeeds::Greedy);
    let mut rate = f64::INFINITY;
    for context in &settings.contexts {
        let missing = context.saturating_sub(backend.committed());
        if context + most > shape.max_context || missing as f64 / rate > settings.most_fill {
            bench.costs.left_out.push(*context);
            continue;
        }
        tell(&format!("costs after {context} tokens"));
        rate = bench.fill(backend, *context, shape.prefill_rows)?;
        bench.at(backend, settings.repeat, rate)?;
    }
    backend.set_needs(LogitNeeds::Full);
    backend.reset()?;
    if bench.costs.model.contexts.is_empty() {
        return Err(CostError::Context(shape.max_context));
    }
    Ok(bench.costs)
}

struct Bench {
    vocab: usize,
    dice: ChaCha8Rng,
    costs: Costs,
    block: usize,
    modes: usize,
    positions: Vec<i64>,
    ancestors: Vec<bool>,
    tokens: Vec<u32>,
    logits: Vec<f32>,
    candidates: Candidates,
}

/// Seconds of the samples of one context.
#[derive(Default)]
struct Times {
    verify: Vec<Vec<f64>>,
    head: Vec<Vec<f64>>,
    draft: Vec<Vec<f64>>,
    commit: Vec<f64>,
    one: Vec<f64>,
    plain: Vec<f64>,
}

impl Bench {
    fn methods(&self) -> Vec<Method> {
        match self.modes {
            0 => vec![],
            1 => vec![Method::Chain, Method::Ddtree],
            _ => vec![Method::Chain, Method::Ddtree, Method::Mfd],
        }
    }

    /// Rows of random tokens; row i hangs below row (i - 1) / 2 of a tree, or i - 1 of a chain.
    fn verify(&mut self, backend: &mut dyn Backend, n: usize, chain: bool) -> Result<(), BackendError> {
        let start = backend.committed();
        self.tokens.clear();
        for _ in 0..n {
            let token = self.dice.next_u64() % self.vocab.max(1) as u64;
            self.tokens.push(token as u32);
        }
        self.ancestors.clear();
        self.ancestors.resize(n * n, false);
        self.positions.clear();
        for row in 0..n {
            let (mut at, mut depth) = (row, 0);
            self.ancestors[row * n + row] = true;
            while at > 0 {
                at = if chain { at - 1 } else { (at - 1) / 2 };
                self.ancestors[row * n + at] = true;
                depth += 1;
            }
            self.positions.push((start + depth) as i64);
        }
        backend.reserve(start + n)?;
        backend.verify(&RowBatch {
            tokens: &self.tokens,
            positions: &self.positions,
            ancestors: &self.ancestors,
        })
    }

    /// Commits random tokens up to `context`; tokens per second.
    fn fill(&mut self, backend: &mut dyn Backend, context: usize, chunk: usize) -> Result<f64, BackendError> {
        let begin = Instant::now();
        let first = backend.committed();
        while backend.committed() < context {
            let n = chunk.max(1).min(context - backend.committed());
            self.verify(backend, n, true)?;
            backend.logits(&[(n - 1) as u32], &mut self.logits)?;
            let path: Vec<u32> = (0..n as u32).collect();
            backend.commit(&path)?;
        }
        Ok((backend.committed() - first) as f64 / begin.elapsed().as_secs_f64().max(1e-9))
    }

    /// All stages at the present context.
    fn at(&mut self, backend: &mut dyn Backend, repeat: usize, prefill: f64) -> Result<(), BackendError> {
        let rows = self.costs.model.rows.clone();
        let methods = self.methods();
        let mut times = Times {
            verify: vec![Vec::new(); rows.len()],
            head: vec![Vec::new(); rows.len()],
            draft: vec![Vec::new(); methods.len()],
            ..Times::default()
        };
        // The first pass touches memory and is not counted.
        self.turn(backend, &rows, &methods, 0, &mut times)?;
        times.clear();
        let begin = Instant::now();
        for turn in 0..MOST_REPEATS.max(repeat) {
            if turn >= repeat.max(1) && begin.elapsed().as_secs_f64() > LEAST_SECONDS {
                break;
            }
            self.turn(backend, &rows, &methods, turn, &mut times)?;
        }
        let model = &mut self.costs.model;
        model.contexts.push(backend.committed());
        let mut verify: Vec<f64> = times.verify.iter_mut().map(|t| median(t)).collect();
        never_dearer(&mut verify);
        model.verify.push(verify);
        for (method, times) in methods.iter().zip(&mut times.draft) {
            let known = model.draft.iter().position(|d| d.method == method.name());
            let at = known.unwrap_or_else(|| {
                model.draft.push(DraftCost {
                    method: method.name().to_owned(),
                    seconds: Vec::new(),
                });
                model.draft.len() - 1
            });
            model.draft[at].seconds.push(median(times));
        }
        model.commit.push(median(&mut times.commit));
        model.commit_one.push(median(&mut times.one));
        model.commit_plain.push(median(&mut times.plain));
        if self.costs.head.is_empty() {
            self.costs.head = times.head.iter_mut().map(|t| median(t)).collect();
        }
        self.costs.prefill.push(prefill);
        Ok(())
    }

    fn turn(
        &mut self,
        backend: &mut dyn Backend,
        rows: &[usize],
        methods: &[Method],
        turn: usize,
        times: &mut Times,
    ) -> Result<(), BackendError> {
        for (i, n) in rows.iter().enumerate() {
            // The head reads the likeliest path first.
            let path: Vec<u32> = (0..(*n).min(self.block) as u32).collect();
            let begin = Instant::now();
            self.verify(backend, *n, false)?;
            backend.logits(&path, &mut self.logits)?;
            times.verify[i].push(begin.elapsed().as_secs_f64());
            let all: Vec<u32> = (0..*n as u32).collect();
            let begin = Instant::now();
            backend.logits(&all, &mut self.logits)?;
            times.head[i].push(begin.elapsed().as_secs_f64());
        }
        let snapshot = backend.snapshot()?;
        for step in 0..methods.len() {
            // The first one finds threads asleep and caches cold: each in turn.
            let i = (turn + step) % methods.len();
            let (modes, k) = match methods[i] {
                Method::Mfd => (0..self.modes, CANDIDATES),
                Method::Chain => (0..1, 1),
                _ => (0..1, CANDIDATES),
            };
            let begin = Instant::now();
            backend.draft(1)?;
            backend.candidates(modes, k.min(self.vocab), &mut self.candidates)?;
            times.draft[i].push(begin.elapsed().as_secs_f64());
        }
        let most = rows.last().copied().unwrap_or(1).min(PATH);
        let drafts = self.modes > 0;
        for (path, feeds, to) in [
            (most, drafts, &mut times.commit),
            (1, drafts, &mut times.one),
            (1, false, &mut times.plain),
        ] {
            self.verify(backend, path, true)?;
            backend.logits(&[0], &mut self.logits)?;
            let path: Vec<u32> = (0..path as u32).collect();
            backend.set_drafting(feeds);
            let begin = Instant::now();
            backend.commit(&path)?;
            to.push(begin.elapsed().as_secs_f64());
            backend.set_drafting(drafts);
            backend.rewind(&snapshot)?;
        }
        Ok(())
    }
}

impl Times {
    fn clear(&mut self) {
        let lists = self
            .verify
            .iter_mut()
            .chain(&mut self.head)
            .chain(&mut self.draft);
        lists.for_each(Vec::clear);
        [&mut self.commit, &mut self.one, &mut self.plain]
            .into_iter()
            .for_each(Vec::clear);
    }
}

/// A pass costs no more than one of more rows: it could be filled up with rows that nobody asks for. What stands out
/// upwards is noise.
fn never_dearer(seconds: &mut [f64]) {
    for i in (0..seconds.len().saturating_sub(1)).rev() {
        seconds[i] = seconds[i].min(seconds[i + 1]);
    }
}

/// The middle value; 0 of none.
pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}
