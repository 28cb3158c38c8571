//! From what was asked to what a round does.

use super::{DecodeError, MAX_BUDGET, Method, Plan};
use forkcast_engines::backend::Shape;

impl Plan {
    /// The plan that a method really follows on an engine: `plain` uses budget 0, `chain` at most
    /// `block - 1`, trees what was asked for.
    ///
    /// # Errors
    /// The budget, the method or the mode does not fit the engine.
    pub fn effective(self, shape: &Shape) -> Result<Self, DecodeError> {
        if self.budget > MAX_BUDGET {
            return Err(DecodeError::Budget(self.budget));
        }
        if self.method == Method::Plain {
            return Ok(Self { budget: 0, ..self });
        }
        if shape.modes == 0 {
            return Err(DecodeError::NoDrafter(self.method));
        }
        if self.method == Method::Mfd && shape.modes < 2 {
            return Err(DecodeError::OneMode(shape.modes));
        }
        if self.mode >= shape.modes {
            return Err(DecodeError::Mode {
                mode: self.mode,
                modes: shape.modes,
            });
        }
        let budget = if self.method == Method::Chain {
            self.budget.min(shape.block - 1)
        } else {
            self.budget
        };
        Ok(Self { budget, ..self })
    }

    /// Nodes that fit a round after `committed` rows: every drafted token must have a position below
    /// the context limit, and the pass must not exceed the engine's rows.
    pub(super) fn room(self, shape: &Shape, committed: usize) -> usize {
        let context = shape.max_context.saturating_sub(committed + 1);
        self.budget.min(context).min(shape.max_rows.saturating_sub(1))
    }

    /// Candidates per position to start with: few suffice most of the time, and the certificate says
    /// when they did not.
    pub(super) fn first_k(self, vocab: usize) -> usize {
        let k = if self.method == Method::Chain {
            1
        } else {
            self.budget.min(32)
        };
        k.clamp(1, vocab)
    }
}
