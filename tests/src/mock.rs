//! A scripted engine: the target is a pure function of the last tokens, the drafter a chosen
//! distortion of it. It checks every call of the loop and counts what a GPU would pay for.

use forkcast_engines::backend::{Backend, BackendError, Candidates, Counters, RowBatch, Shape, Snapshot};
use std::ops::Range;

/// How the drafter's guesses relate to the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Drafting {
    /// The target's own logits along its greedy path.
    Perfect,
    /// The same plus noise of this size.
    Noisy(f32),
    /// Logits that have nothing to do with the target.
    Random,
    /// The target's logits with the sign turned.
    Wrong,
    /// Not-a-number everywhere.
    Nan,
}

/// Target and drafter of the mock.
#[derive(Clone, Debug)]
pub struct Script {
    /// Vocabulary size.
    pub vocab: usize,
    /// How many of the last tokens the next one depends on.
    pub order: usize,
    /// Spread of the logits; larger is more peaked.
    pub scale: f32,
    /// Seed of the functions.
    pub seed: u64,
    /// Rows of a draft block; 0 for no drafter.
    pub block: usize,
    /// Modes of the drafter.
    pub modes: usize,
    /// Quality of the drafter.
    pub drafting: Drafting,
    /// Context limit.
    pub max_context: usize,
}

impl Script {
    /// A small default: vocabulary 50, block 16, 4 noisy modes.
    #[must_use]
    pub fn small(seed: u64) -> Self {
        Self {
            vocab: 50,
            order: 3,
            scale: 3.0,
            seed,
            block: 16,
            modes: 4,
            drafting: Drafting::Noisy(1.0),
            max_context: 4096,
        }
    }

    /// Logits after `prefix`, `[V]`.
    #[must_use]
    pub fn logits(&self, prefix: &[u32]) -> Vec<f32> {
        let tail = &prefix[prefix.len().saturating_sub(self.order)..];
        let key = tail.iter().fold(self.seed, |h, t| mix(h ^ (u64::from(*t) + 1)));
        (0..self.vocab as u64)
            .map(|v| self.scale * noise(mix(key ^ (v << 20))))
            .collect()
    }
}

fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// About normal, from the sum of four uniform numbers.
fn noise(key: u64) -> f32 {
    (0..4)
        .map(|i| (mix(key.wrapping_add(i)) >> 40) as f32 / (1 << 24) as f32 - 0.5)
        .sum::<f32>()
        * 1.7
}

fn argmax(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (i, v) in logits.iter().enumerate() {
        if *v > logits[best] {
            best = i;
        }
    }
    best as u32
}

/// The scripted engine.
#[derive(Clone, Debug)]
pub struct Mock {
    /// What target and drafter compute.
    pub script: Script,
    /// Tokens whose state is committed.
    pub tokens: Vec<u32>,
    /// Tokens in the drafter's context.
    pub context: usize,
    drafting: bool,
    rows: Vec<Vec<u32>>,
    parents: Vec<Option<usize>>,
    drafted: Vec<Vec<f32>>,
    counters: Counters,
}

impl Mock {
    /// A fresh stream.
    #[must_use]
    pub fn new(script: Script) -> Self {
        Self {
            script,
            tokens: Vec::new(),
            context: 0,
            drafting: false,
            rows: Vec::new(),
            parents: Vec::new(),
            drafted: Vec::new(),
            counters: Counters::default(),
        }
    }

    fn draft_logits(&self, mode: usize, position: usize, prefix: &[u32]) -> Vec<f32> {
        let clean = self.script.logits(prefix);
        let key = mix(self.script.seed ^ 77 ^ ((mode as u64) << 32) ^ prefix.len() as u64) ^ position as u64;
        let random = (0..clean.len() as u64).map(|v| noise(mix(key ^ (v << 24))));
        match self.script.drafting {
            Drafting::Perfect => clean,
            Drafting::Noisy(size) => clean.iter().zip(random).map(|(c, r)| c + size * r).collect(),
            Drafting::Random => random.collect(),
            Drafting::Wrong => clean.iter().map(|c| -c).collect(),
            Drafting::Nan => vec![f32::NAN; clean.len()],
        }
    }
}

fn limit<T>(text: &str) -> Result<T, BackendError> {
    Err(BackendError::Limit(text.to_owned()))
}

impl Backend for Mock {
    fn shape(&self) -> Shape {
        let s = &self.script;
        Shape {
            vocab: s.vocab,
            hidden: 1,
            tap_width: 1,
            block: s.block,
            modes: if s.block == 0 { 0 } else { s.modes },
            max_context: s.max_context,
            max_rows: s.max_context,
            prefill_rows: 7,
        }
    }

    fn committed(&self) -> usize {
        self.tokens.len()
    }

    fn reset(&mut self) -> Result<(), BackendError> {
        self.tokens.clear();
        self.context = 0;
        Ok(())
    }

    fn reserve(&mut self, rows: usize) -> Result<(), BackendError> {
        if rows > self.script.max_context {
            limit("reserve beyond the context")
        } else {
            Ok(())
        }
    }

    fn set_drafting(&mut self, on: bool) {
        self.drafting = on;
    }

    fn verify(&mut self, batch: &RowBatch<'_>) -> Result<(), BackendError> {
        let n = batch.len();
        if n == 0 || batch.positions.len() != n || batch.ancestors.len() != n * n {
            return limit("row arrays disagree");
        }
        if self.tokens.len() + n > self.script.max_context {
            return limit("verify beyond the context");
        }
        self.rows.clear();
        self.parents.clear();
        for i in 0..n {
            let seen: Vec<usize> = (0..n).filter(|j| batch.ancestors[i * n + j]).collect();
            if seen.last() != Some(&i) || seen[0] != 0 {
                return limit("a row must see the anchor, itself and nothing later");
            }
            if batch.positions[i] != (self.tokens.len() + seen.len() - 1) as i64 {
                return limit("position is not committed length plus depth");
            }
            self.parents.push(seen.len().checked_sub(2).map(|d| seen[d]));
            self.rows.push(seen.iter().map(|j| batch.tokens[*j]).collect());
        }
        Ok(())
    }

    fn logits(&mut self, rows: &[u32], out: &mut Vec<f32>) -> Result<(), BackendError> {
        out.clear();
        for row in rows {
            let Some(path) = self.rows.get(*row as usize) else {
                return limit("no such row");
            };
            let prefix: Vec<u32> = self.tokens.iter().chain(path).copied().collect();
            out.extend(self.script.logits(&prefix));
        }
        self.counters.syncs += 1;
        self.counters.head_runs += 1;
        Ok(())
    }

    fn features(&mut self, hidden: &mut Vec<f32>, taps: &mut Vec<f32>) -> Result<(), BackendError> {
        *hidden = vec![0.0; self.rows.len()];
        taps.clone_from(hidden);
        Ok(())
    }

    fn commit(&mut self, path: &[u32]) -> Result<(), BackendError> {
        let mut before = None;
        for row in path {
            let row = *row as usize;
            if row >= self.rows.len() || self.parents[row] != before {
                return limit("path is not a root path of the last verify");
            }
            before = Some(row);
            let token = self.rows[row].last().copied().unwrap_or(0);
            self.tokens.push(token);
        }
        self.rows.clear();
        if self.drafting {
            self.context += path.len();
        }
        self.counters.row_copies += path.len() as u64;
        Ok(())
    }

    fn draft(&mut self, anchor: u32) -> Result<(), BackendError> {
        if self.script.block == 0 {
            return limit("no drafter");
        }
        if self.context != self.tokens.len() {
            return limit("the drafter's context lacks rows");
        }
        self.drafted.clear();
        for mode in 0..self.script.modes {
            let mut prefix = self.tokens.clone();
            prefix.push(anchor);
            for position in 1..self.script.block {
                self.drafted.push(self.draft_logits(mode, position, &prefix));
                let next = argmax(&self.script.logits(&prefix));
                prefix.push(next);
            }
        }
        Ok(())
    }

    fn candidates(
        &mut self,
        modes: Range<usize>,
        k: usize,
        out: &mut Candidates,
    ) -> Result<(), BackendError> {
        let positions = self.script.block - 1;
        if modes.end > self.script.modes || self.drafted.len() < modes.end * positions {
            return limit("nothing drafted for these modes");
        }
        let k = k.min(self.script.vocab);
        *out = Candidates {
            modes: modes.len(),
            positions,
            k,
            ids: Vec::new(),
            logp: Vec::new(),
        };
        for row in &self.drafted[modes.start * positions..modes.end * positions] {
            if row.iter().any(|v| v.is_nan()) {
                self.counters.bad_draft_rows += 1;
                out.ids.extend(0..k as u32);
                out.logp.extend(std::iter::repeat_n(f32::NEG_INFINITY, k));
                continue;
            }
            let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let sum: f32 = row.iter().map(|v| (v - max).exp()).sum();
            let mut order: Vec<u32> = (0..row.len() as u32).collect();
            order.sort_by(|a, b| row[*b as usize].total_cmp(&row[*a as usize]).then(a.cmp(b)));
            for id in &order[..k] {
                out.ids.push(*id);
                out.logp.push(row[*id as usize] - max - sum.ln());
            }
        }
        self.counters.syncs += 1;
        Ok(())
    }

    fn snapshot(&mut self) -> Result<Snapshot, BackendError> {
        let states = vec![self.tokens.iter().map(|t| *t as f32).collect()];
        Ok(Snapshot {
            committed: self.tokens.len(),
            states,
        })
    }

    fn rewind(&mut self, snapshot: &Snapshot) -> Result<(), BackendError> {
        let [state] = snapshot.states.as_slice() else {
            return limit("foreign snapshot");
        };
        if snapshot.committed > self.tokens.len() {
            return limit("snapshot is longer than the stream");
        }
        self.tokens = state.iter().map(|t| *t as u32).collect();
        self.context = self.context.min(self.tokens.len());
        Ok(())
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
