//! The round, once for all methods: draft, tree, verify, walk, commit.
//!
//! The state of the engine excludes the anchor, the last emitted token, which every round verifies
//! as row 0. A token is drawn from the target's own row after exactly the emitted prefix, so the text is
//! the target's whatever was drafted (`algorithms.md` 3.5); the tree only decides how many rows
//! of one pass turn out to be useful.

use super::report::{StageSeconds, Stopwatch};
use super::{Adaptive, DecodeError, Method, Plan};
use crate::sample::{Choice, History, Sampler, Sampling};
use crate::tree::{Tree, TreeBuilder};
use forkcast_engines::backend::{Backend, Candidates, RowBatch, Shape};

/// One token that a walk drew, with what the caller asked to know about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawn {
    /// The token.
    pub id: u32,
    /// Log-probability under the unmodified logits, when asked for.
    pub logprob: Option<f32>,
    /// Best alternatives, best first, when asked for.
    pub top: Vec<(u32, f32)>,
}

/// How tokens of one answer are drawn.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// Filters and temperature.
    pub sampling: Sampling,
    /// Seed of the position-keyed draws.
    pub seed: u64,
    /// Tokens after which a walk goes no further.
    pub stop_ids: Vec<u32>,
    /// Alternatives to report with each token.
    pub logprobs: Option<usize>,
}

/// The loop with its buffers; they are reused, so a steady round allocates nothing.
#[derive(Debug)]
pub struct Decoder {
    drawing: Drawing,
    sampler: Sampler,
    history: History,
    anchor: u32,
    builder: TreeBuilder,
    tree: Tree,
    candidates: Candidates,
    positions: Vec<i64>,
    ancestors: Vec<bool>,
    fetched: Vec<u32>,
    logits: Vec<f32>,
    path: Vec<u32>,
    drawn: Vec<Drawn>,
    drawn_len: usize,
    retries: usize,
    /// Stage times since [`Self::start`].
    pub seconds: StageSeconds,
}

impl Decoder {
    /// A decoder for one answer.
    ///
    /// # Errors
    /// A sampling field is out of range.
    pub fn new(drawing: Drawing, vocab: usize) -> Result<Self, DecodeError> {
        drawing.sampling.validate(vocab)?;
        Ok(Self {
            sampler: Sampler::new(&drawing.sampling, drawing.seed),
            drawing,
            history: History::with_vocab(vocab),
            anchor: 0,
            builder: TreeBuilder::new(),
            tree: Tree::new(),
            candidates: Candidates::default(),
            positions: Vec::new(),
            ancestors: Vec::new(),
            fetched: Vec::new(),
            logits: Vec::new(),
            path: Vec::new(),
            drawn: Vec::new(),
            drawn_len: 0,
            retries: 0,
            seconds: StageSeconds::default(),
        })
    }

    /// Tokens drawn by the last [`Self::start`] or [`Self::round`], in order.
    #[must_use]
    pub fn drawn(&self) -> &[Drawn] {
        &self.drawn[..self.drawn_len]
    }

    /// Tree of the last round.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Accepted rows of the last round, root included.
    #[must_use]
    pub fn path(&self) -> &[u32] {
        &self.path
    }

    /// Trees whose first candidates did not suffice for an exact tree.
    #[must_use]
    pub fn retries(&self) -> usize {
        self.retries
    }

    /// Prefills what `backend` has not committed of `prompt` and draws the first token.
    ///
    /// # Errors
    /// The prompt does not fit, or the engine fails.
    pub fn start<B: Backend + ?Sized>(&mut self, backend: &mut B, prompt: &[u32]) -> Result<(), DecodeError> {
        let shape = backend.shape();
        check_prompt(prompt, &shape)?;
        let mut watch = Stopwatch::start();
        self.reserve(&shape);
        for token in prompt {
            self.history.push_prompt(*token);
        }
        self.begin_drawing();
        let mut done = backend.committed().min(prompt.len() - 1);
        while done < prompt.len() {
            let end = prompt.len().min(done + shape.prefill_rows.max(1));
            self.prefill_chunk(backend, &prompt[done..end], done)?;
            if end == prompt.len() {
                self.fetched.clear();
                self.fetched.push((end - done - 1) as u32);
                backend.logits(&self.fetched, &mut self.logits)?;
                self.draw(0, prompt.len() as u64)?;
            }
            self.all_rows(end - done);
            backend.commit(&self.path)?;
            done = end;
        }
        self.anchor = self.drawn().last().map_or(0, |d| d.id);
        watch.lap(&mut self.seconds.prefill);
        Ok(())
    }

    /// Room for the longest path that a round can accept, so that no later round has to make it.
    fn reserve(&mut self, shape: &Shape) {
        let longest = shape.block.max(1);
        self.path.reserve(longest.max(shape.prefill_rows));
        self.fetched.reserve(longest);
        self.logits.reserve(longest * shape.vocab);
        self.drawn
            .resize_with(self.drawn.len().max(longest), Drawn::default);
    }

    fn prefill_chunk<B: Backend + ?Sized>(
        &mut self,
        backend: &mut B,
        tokens: &[u32],
        start: usize,
    ) -> Result<(), DecodeError> {
        let n = tokens.len();
        backend.reserve(start + n)?;
        self.positions.clear();
        self.positions.extend((start..start + n).map(|p| p as i64));
        self.ancestors.clear();
        self.ancestors.extend((0..n * n).map(|i| i % n <= i / n));
        let batch = RowBatch {
            tokens,
            positions: &self.positions,
            ancestors: &self.ancestors,
        };
        backend.verify(&batch)?;
        Ok(())
    }

    fn all_rows(&mut self, n: usize) {
        self.path.clear();
        self.path.extend(0..n as u32);
    }

    /// One round up to the walk. Afterwards [`Self::drawn`] holds at least one token; nothing is
    /// committed before [`Self::commit`], so tokens can be handed out first.
    ///
    /// # Errors
    /// The engine fails.
    pub fn round<B: Backend + ?Sized>(&mut self, backend: &mut B, plan: Plan) -> Result<(), DecodeError> {
        self.round_with(backend, plan, None)
    }

    /// As [`Self::round`]; `policy` decides whether this round drafts and how much of the tree is verified.
    ///
    /// # Errors
    /// The engine fails.
    pub fn round_with<B: Backend + ?Sized>(
        &mut self,
        backend: &mut B,
        plan: Plan,
        mut policy: Option<&mut Adaptive>,
    ) -> Result<(), DecodeError> {
        let shape = backend.shape();
        let committed = backend.committed();
        let mut watch = Stopwatch::start();
        let drafts = policy.as_deref_mut().is_none_or(Adaptive::drafts);
        let budget = if drafts { plan.room(&shape, committed) } else { 0 };
        self.grow_tree(backend, Plan { budget, ..plan }, &shape, &mut watch)?;
        if let Some(policy) = policy.as_deref().filter(|_| drafts) {
            self.tree.truncate(policy.size(&self.tree, committed) + 1);
        }
        self.tree.fill_positions(committed as i64, &mut self.positions);
        self.tree.fill_ancestors(&mut self.ancestors);
        watch.lap(&mut self.seconds.tree);

        backend.reserve(committed + self.tree.len())?;
        let batch = RowBatch {
            tokens: self.tree.tokens(),
            positions: &self.positions,
            ancestors: &self.ancestors,
        };
        backend.verify(&batch)?;
        self.fetched.clear();
        watch.lap(&mut self.seconds.verify);

        self.walk(backend, committed, &mut watch)?;
        if let Some(policy) = policy {
            policy.learn(&self.tree, self.path.len(), committed);
        }
        Ok(())
    }

    /// Commits the first `keep` (at least one) drawn tokens of the round: the old anchor and all of them but the last,
    /// which is the new anchor.
    ///
    /// # Errors
    /// The engine fails.
    pub fn commit<B: Backend + ?Sized>(&mut self, backend: &mut B, keep: usize) -> Result<(), DecodeError> {
        let mut watch = Stopwatch::start();
        let keep = keep.clamp(1, self.path.len());
        backend.commit(&self.path[..keep])?;
        self.anchor = self.drawn[keep - 1].id;
        watch.lap(&mut self.seconds.commit);
        Ok(())
    }

    /// Drafts and builds the tree. Starts with few candidates per position and reads more while the
    /// certificate says that the tree might differ.
    fn grow_tree<B: Backend + ?Sized>(
        &mut self,
        backend: &mut B,
        plan: Plan,
        shape: &Shape,
        watch: &mut Stopwatch,
    ) -> Result<(), DecodeError> {
        if plan.budget == 0 || plan.method == Method::Plain {
            self.tree.reset(self.anchor);
            return Ok(());
        }
        // A row of a tree takes a place of the budget, so no path is longer.
        backend.limit_depth(plan.budget);
        backend.draft(self.anchor)?;
        let modes = if plan.method == Method::Mfd {
            0..shape.modes
        } else {
            plan.mode..plan.mode + 1
        };
        let mut k = plan.first_k(shape.vocab);
        loop {
            backend.candidates(modes.clone(), k, &mut self.candidates)?;
            watch.lap(&mut self.seconds.draft);
            let exact = self.build(plan);
            watch.lap(&mut self.seconds.tree);
            let enough = plan.budget.min(shape.vocab);
            if exact || k >= enough {
                return Ok(());
            }
            self.retries += 1;
            k = (k * 4).min(enough);
        }
    }

    fn build(&mut self, plan: Plan) -> bool {
        let (builder, tree, candidates) = (&mut self.builder, &mut self.tree, &self.candidates);
        match plan.method {
            Method::Plain => true,
            Method::Chain => builder.chain(candidates, 0, plan.budget, self.anchor, tree).exact,
            Method::Ddtree => {
                builder
                    .ddtree(candidates, 0, plan.budget, self.anchor, tree)
                    .exact
            }
            Method::Mfd => builder.mixture(candidates, plan.budget, self.anchor, tree).exact,
        }
    }

    /// Descends from the anchor while the drawn token is a child of the present row.
    fn walk<B: Backend + ?Sized>(
        &mut self,
        backend: &mut B,
        committed: usize,
        watch: &mut Stopwatch,
    ) -> Result<(), DecodeError> {
        self.begin_drawing();
        self.path.clear();
        let mut row = 0u32;
        loop {
            self.path.push(row);
            let slot = self.fetch(backend, row, watch)?;
            let position = (committed + self.path.len()) as u64;
            let token = self.draw(slot, position)?;
            watch.lap(&mut self.seconds.walk);
            if self.drawing.stop_ids.contains(&token) {
                return Ok(());
            }
            match self.tree.child(row, token) {
                Some(child) => row = child,
                None => return Ok(()),
            }
        }
    }

    /// Place of a row's logits in the buffer. Rows are read in batches down the likeliest path, so
    /// that the head is read about twice a round (`DESIGN` 5).
    fn fetch<B: Backend + ?Sized>(
        &mut self,
        backend: &mut B,
        row: u32,
        watch: &mut Stopwatch,
    ) -> Result<usize, DecodeError> {
        if let Some(slot) = self.fetched.iter().position(|r| *r == row) {
            return Ok(slot);
        }
        self.tree.likely_path(row, &mut self.fetched);
        watch.lap(&mut self.seconds.walk);
        backend.logits(&self.fetched, &mut self.logits)?;
        watch.lap(&mut self.seconds.verify);
        Ok(0)
    }

    fn begin_drawing(&mut self) {
        self.drawn_len = 0;
    }

    /// Draws the token at absolute `position` from the logits in `slot` and notes it.
    fn draw(&mut self, slot: usize, position: u64) -> Result<u32, DecodeError> {
        let vocab = self.logits.len() / self.fetched.len().max(1);
        let logits = &self.logits[slot * vocab..(slot + 1) * vocab];
        let Choice { token, .. } = self.sampler.choose(logits, position, &self.history)?;
        if self.drawn.len() == self.drawn_len {
            self.drawn.push(Drawn::default());
        }
        let drawn = &mut self.drawn[self.drawn_len];
        self.drawn_len += 1;
        drawn.id = token;
        drawn.logprob = None;
        drawn.top.clear();
        if let Some(top) = self.drawing.logprobs {
            drawn.logprob = Some(self.sampler.logprobs(logits, token, top, &mut drawn.top));
        }
        self.history.push(token);
        Ok(token)
    }
}

/// Refuses prompts that cannot be answered.
fn check_prompt(prompt: &[u32], shape: &Shape) -> Result<(), DecodeError> {
    if prompt.is_empty() {
        return Err(DecodeError::EmptyPrompt);
    }
    if prompt.len() >= shape.max_context {
        return Err(DecodeError::PromptTooLong {
            prompt: prompt.len(),
            context: shape.max_context,
        });
    }
    if let Some((place, id)) = prompt
        .iter()
        .enumerate()
        .find(|(_, id)| **id as usize >= shape.vocab)
    {
        return Err(DecodeError::TokenOutside {
            id: *id,
            place,
            vocab: shape.vocab,
        });
    }
    Ok(())
}
