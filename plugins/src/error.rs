//! Why an operator call is refused.

/// A call whose inputs do not fit the operator's contract (`docs/operators.md`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperatorError {
    /// An input has another number of dimensions or other sizes than the other inputs ask for.
    #[error("{operator}: input {input} has shape {found:?}, expected {expected}")]
    Shape {
        /// Name of the operator.
        operator: &'static str,
        /// Name of the input.
        input: &'static str,
        /// The expected shape, in symbols of the contract.
        expected: String,
        /// The shape that was given.
        found: Vec<i64>,
    },
    /// An input or attribute holds a value out of range.
    #[error("{operator}: {what}")]
    Value {
        /// Name of the operator.
        operator: &'static str,
        /// What is wrong with it.
        what: String,
    },
}

impl OperatorError {
    pub(crate) fn value(operator: &'static str, what: impl Into<String>) -> Self {
        Self::Value {
            operator,
            what: what.into(),
        }
    }
}
