//! Which tokens the penalties look at.

/// Counts of tokens in prompt and answer. Pushing allocates only while the largest id or the number of
/// distinct tokens grows.
#[derive(Clone, Debug, Default)]
pub struct History {
    distinct: Vec<u32>,
    counts: Vec<Count>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    seen: bool,
    answer: u32,
}

impl History {
    /// Nothing seen.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A token of the prompt.
    pub fn push_prompt(&mut self, token: u32) {
        self.count(token);
    }

    /// A token of the answer.
    pub fn push(&mut self, token: u32) {
        self.count(token).answer += 1;
    }

    fn count(&mut self, token: u32) -> &mut Count {
        let at = token as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, Count::default());
        }
        let count = &mut self.counts[at];
        if !count.seen {
            count.seen = true;
            self.distinct.push(token);
        }
        count
    }

    /// Distinct tokens with their count in the answer.
    pub(super) fn tokens(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.distinct
            .iter()
            .map(|t| (*t, self.counts[*t as usize].answer))
    }
}
