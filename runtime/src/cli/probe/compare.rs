//! How far one model's logits and hidden states are from another's on the same rows.

use forkcast_engines::topk::log_sum_exp;
use serde::Serialize;

/// Differences of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Difference {
    /// Largest, absolute.
    pub(super) max_abs: f64,
    /// Mean, absolute.
    pub(super) mean_abs: f64,
    /// Largest number of the other model, absolute: what the differences are to be seen against.
    pub(super) largest: f64,
}

/// What is compared; the other model is the reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Comparison {
    /// Rows compared.
    pub(super) rows: usize,
    /// Of the logits.
    pub(super) logits: Difference,
    /// Of the hidden states after the final norm.
    pub(super) hidden: Difference,
    /// Kullback-Leibler divergence of the model from the other one in nats, mean over the rows.
    pub(super) kl_mean: f64,
    /// The largest of a row.
    pub(super) kl_max: f64,
    /// Share of the rows whose best token is the same.
    pub(super) top1: f64,
}

/// Rows of one model: logits `[rows, vocab]` and hidden `[rows, H]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows<'a> {
    pub(super) rows: usize,
    pub(super) logits: &'a [f32],
    pub(super) hidden: &'a [f32],
}

/// Compares; `None` when a row is no distribution (a number in it is not finite).
pub(super) fn compare(model: Rows<'_>, other: Rows<'_>) -> Option<Comparison> {
    let rows = other.rows.max(1);
    let vocab = (other.logits.len() / rows).max(1);
    let (mut sum, mut largest, mut same) = (0.0, 0.0_f64, 0_usize);
    for (q, p) in model.logits.chunks(vocab).zip(other.logits.chunks(vocab)) {
        let kl = divergence(p, q)?;
        sum += kl;
        largest = largest.max(kl);
        same += usize::from(best(p) == best(q));
    }
    let found = Comparison {
        rows: other.rows,
        logits: difference(model.logits, other.logits),
        hidden: difference(model.hidden, other.hidden),
        kl_mean: sum / rows as f64,
        kl_max: largest,
        top1: same as f64 / rows as f64,
    };
    (found.logits.mean_abs + found.hidden.mean_abs)
        .is_finite()
        .then_some(found)
}

fn difference(model: &[f32], other: &[f32]) -> Difference {
    let mut found = Difference::default();
    for (a, b) in model.iter().zip(other) {
        let d = (f64::from(*a) - f64::from(*b)).abs();
        found.max_abs = found.max_abs.max(d);
        found.mean_abs += d;
        found.largest = found.largest.max(f64::from(b.abs()));
    }
    found.mean_abs /= other.len().max(1) as f64;
    found
}

/// `sum p (log p - log q)` over logits, not below 0.
fn divergence(p: &[f32], q: &[f32]) -> Option<f64> {
    let (p_total, q_total) = (log_sum_exp(p)?, log_sum_exp(q)?);
    let terms = p.iter().zip(q).map(|(p, q)| {
        let log_p = f64::from(*p) - p_total;
        // A token that the other model forbids adds nothing.
        if log_p == f64::NEG_INFINITY {
            return 0.0;
        }
        log_p.exp() * (log_p - (f64::from(*q) - q_total))
    });
    Some(terms.sum::<f64>().max(0.0))
}

/// The token that greedy decoding takes: of equal ones the first.
fn best(row: &[f32]) -> usize {
    let better = |a: usize, b: usize| if row[b] > row[a] { b } else { a };
    (0..row.len()).reduce(better).unwrap_or(0)
}

impl Comparison {
    /// For people.
    pub(super) fn text(&self) -> String {
        let line = |name: &str, d: &Difference| {
            format!(
                "{name:<8}max {:.3e}  mean {:.3e}  of at most {:.3e}\n",
                d.max_abs, d.mean_abs, d.largest
            )
        };
        format!(
            "{}{}{:<8}mean {:.3e}  max {:.3e} nats\n{:<8}{:.1} % of {} rows\n",
            line("logits", &self.logits),
            line("hidden", &self.hidden),
            "KL",
            self.kl_mean,
            self.kl_max,
            "top 1",
            100.0 * self.top1,
            self.rows
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Rows, compare};

    #[test]
    fn by_hand() {
        let ln = |x: f32| x.ln();
        let p = [ln(0.5), ln(0.5), ln(0.25), ln(0.75)];
        let q = [ln(0.25), ln(0.75), ln(0.25), ln(0.75)];
        let rows = |logits, hidden| Rows {
            rows: 2,
            logits,
            hidden,
        };
        let found = compare(rows(&q, &[1.0, 2.0]), rows(&p, &[1.0, 4.0])).expect("finite");
        // 0.5 ln(0.5 / 0.25) + 0.5 ln(0.5 / 0.75)
        let kl = 0.5 * 2.0_f64.ln() + 0.5 * (2.0_f64 / 3.0).ln();
        assert!((found.kl_max - kl).abs() < 1e-6, "{found:?}");
        assert!((found.kl_mean - kl / 2.0).abs() < 1e-6, "{found:?}");
        assert!((found.logits.max_abs - 2.0_f64.ln()).abs() < 1e-6, "{found:?}");
        assert_eq!((found.hidden.max_abs, found.hidden.mean_abs), (2.0, 1.0));
        assert!((found.top1 - 0.5).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn the_same_rows_do_not_differ() {
        let rows = Rows {
            rows: 1,
            logits: &[1.0, -3.0, f32::NEG_INFINITY],
            hidden: &[2.0],
        };
        let found = compare(
            rows,
            Rows {
                logits: &[1.0, -3.0, -40.0],
                ..rows
            },
        );
        assert_eq!(
            found, None,
            "a difference that is not finite is no number to report"
        );
        let finite = Rows {
            logits: &[1.0, -3.0, 0.5],
            ..rows
        };
        let found = compare(finite, finite).expect("finite");
        assert_eq!((found.kl_max, found.logits.max_abs, found.top1), (0.0, 0.0, 1.0));
    }

    #[test]
    fn no_distribution_is_no_comparison() {
        let rows = Rows {
            rows: 1,
            logits: &[f32::NAN, 1.0],
            hidden: &[0.0],
        };
        assert_eq!(compare(rows, rows), None);
    }
}
