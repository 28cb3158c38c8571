//! Which tokens the penalties look at.

/// Counts of tokens in prompt and answer.
///
/// In a walk the tokens drawn so far are part of the history: push each as it is drawn. A path that is given up
/// is taken back with [`Self::pop`], last token first.
#[derive(Clone, Debug, Default)]
pub struct History {
    distinct: Vec<u32>,
    counts: Vec<Count>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    prompt: bool,
    answer: u32,
}

impl History {
    /// Nothing seen. Pushing allocates while the largest id or the number of distinct tokens grows.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Nothing seen, with room for every token of a vocabulary: pushing never allocates.
    #[must_use]
    pub fn with_vocab(vocab: usize) -> Self {
        Self {
            distinct: Vec::with_capacity(vocab),
            counts: vec![Count::default(); vocab],
        }
    }

    /// Forgets everything; keeps the memory.
    pub fn clear(&mut self) {
        for token in self.distinct.drain(..) {
            self.counts[token as usize] = Count::default();
        }
    }

    /// A token of the prompt.
    pub fn push_prompt(&mut self, token: u32) {
        self.count(token).prompt = true;
    }

    /// A token of the answer.
    pub fn push(&mut self, token: u32) {
        let count = self.count(token);
        count.answer = count.answer.saturating_add(1);
    }

    /// Takes back the last [`Self::push`], which was of `token`.
    pub fn pop(&mut self, token: u32) {
        let Some(count) = self.counts.get_mut(token as usize) else {
            return;
        };
        if count.answer == 0 {
            return;
        }
        count.answer -= 1;
        // If that was its first sight, it is the last of the list.
        if count.answer == 0
            && !count.prompt
            && let Some(at) = self.distinct.iter().rposition(|t| *t == token)
        {
            self.distinct.remove(at);
        }
    }

    fn count(&mut self, token: u32) -> &mut Count {
        let at = token as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, Count::default());
        }
        let count = &mut self.counts[at];
        if !count.prompt && count.answer == 0 {
            self.distinct.push(token);
        }
        count
    }

    /// Distinct tokens of prompt and answer, each with its count in the answer.
    pub fn tokens(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.distinct
            .iter()
            .map(|t| (*t, self.counts[*t as usize].answer))
    }
}

#[cfg(test)]
mod tests {
    use super::History;

    fn sorted(history: &History) -> Vec<(u32, u32)> {
        let mut tokens: Vec<(u32, u32)> = history.tokens().collect();
        tokens.sort_unstable();
        tokens
    }

    #[test]
    fn a_path_can_be_taken_back() {
        for mut history in [History::new(), History::with_vocab(10)] {
            history.push_prompt(4);
            history.push_prompt(4);
            history.push(7);
            let before = sorted(&history);
            assert_eq!(before, [(4, 0), (7, 1)]);
            let path = [4, 9, 7, 9, 4, 0];
            for token in path {
                history.push(token);
            }
            assert_eq!(sorted(&history), [(0, 1), (4, 2), (7, 2), (9, 2)]);
            for token in path.into_iter().rev() {
                history.pop(token);
            }
            assert_eq!(sorted(&history), before);
            // Nothing to take back.
            history.pop(4);
            history.pop(999);
            assert_eq!(sorted(&history), before);
            history.clear();
            assert_eq!(sorted(&history), []);
            history.push(4);
            assert_eq!(sorted(&history), [(4, 1)]);
        }
    }
}
