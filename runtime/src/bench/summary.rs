//! From raw samples to the figures of a table.

use super::record::{Record, Response};
use super::stats::{mean, median, noise, speedup, times};
use crate::decode::StageSeconds;
use serde::{Deserialize, Serialize};

/// Figures of one cell on one suite, or on the mean of all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Suite; absent for the mean over suites.
    pub suite: Option<usize>,
    /// Place in the cells.
    pub cell: usize,
    /// Answers.
    pub responses: usize,
    /// Plain's time per token by this cell's, same temperature (`algorithms.md` 2.2).
    pub speedup: f64,
    /// Standard error of the logarithm of `speedup` (about its relative error).
    pub noise: f64,
    /// Acceptance length: mean over responses of the mean over rounds; 1 where no answer had a round.
    pub tau: f64,
    /// Tokens per second of decoding: inverse of the mean time per token.
    pub tokens_per_second: f64,
    /// Median time to the first token, in seconds.
    pub first_token: f64,
    /// Share of each decoding stage in the time of decoding.
    pub shares: StageSeconds,
    /// Fraction of rounds that accept a draft at depth d, for d = 1, 2, ...
    pub acceptance: Vec<f64>,
    /// Answers with exactly plain's tokens.
    pub same: usize,
}

/// All rows of a record: every cell on every suite, then the means.
#[must_use]
pub fn summarise(record: &Record) -> Vec<Row> {
    let mut rows = Vec::new();
    for cell in 0..record.cells.len() {
        for suite in 0..record.suites.len() {
            rows.extend(row(record, suite, cell));
        }
    }
    for cell in 0..record.cells.len() {
        let of: Vec<&Row> = rows.iter().filter(|r| r.cell == cell).collect();
        if !of.is_empty() {
            let mean = average(cell, &of);
            rows.push(mean);
        }
    }
    rows
}

fn of(record: &Record, suite: usize, cell: usize) -> Vec<&Response> {
    let all = record.responses.iter();
    all.filter(|r| r.suite == suite && r.cell == cell).collect()
}

fn row(record: &Record, suite: usize, cell: usize) -> Option<Row> {
    let responses = of(record, suite, cell);
    let temperature = record.cells[cell].temperature;
    let baseline = record
        .cells
        .iter()
        .position(|c| c.is_plain() && c.temperature == temperature)?;
    if responses.is_empty() {
        return None;
    }
    let seconds: Vec<Vec<f64>> = responses.iter().map(|r| times(r)).collect();
    let plain: Vec<Vec<f64>> = of(record, suite, baseline).into_iter().map(times).collect();
    let per_token = mean(seconds.iter().map(|t| median(&mut t.clone())));
    let mut first: Vec<f64> = responses
        .iter()
        .flat_map(|r| &r.samples)
        .map(|s| s.first_token)
        .collect();
    let taus: Vec<f64> = responses.iter().filter_map(|r| r.tau()).collect();
    Some(Row {
        suite: Some(suite),
        cell,
        responses: responses.len(),
        speedup: speedup(&plain, &seconds),
        noise: if cell == baseline {
            0.0
        } else {
            noise(&plain, &seconds)
        },
        tau: if taus.is_empty() { 1.0 } else { mean(taus) },
        tokens_per_second: if per_token > 0.0 { 1.0 / per_token } else { 0.0 },
        first_token: median(&mut first),
        shares: shares(&responses),
        acceptance: acceptance(&responses),
        same: responses.iter().filter(|r| r.differs_at.is_none()).count(),
    })
}

/// Unweighted means over suites, as published tables have them.
fn average(cell: usize, rows: &[&Row]) -> Row {
    let of = |figure: fn(&Row) -> f64| mean(rows.iter().map(|r| figure(r)));
    let depth = rows.iter().map(|r| r.acceptance.len()).max().unwrap_or(0);
    let at = |d: usize| mean(rows.iter().map(|r| r.acceptance.get(d).copied().unwrap_or(0.0)));
    Row {
        suite: None,
        cell,
        responses: rows.iter().map(|r| r.responses).sum(),
        speedup: of(|r| r.speedup),
        noise: rows.iter().map(|r| r.noise.powi(2)).sum::<f64>().sqrt() / rows.len() as f64,
        tau: of(|r| r.tau),
        tokens_per_second: of(|r| r.tokens_per_second),
        first_token: of(|r| r.first_token),
        shares: StageSeconds {
            prefill: 0.0,
            draft: of(|r| r.shares.draft),
            tree: of(|r| r.shares.tree),
            verify: of(|r| r.shares.verify),
            walk: of(|r| r.shares.walk),
            commit: of(|r| r.shares.commit),
        },
        acceptance: (0..depth).map(at).collect(),
        same: rows.iter().map(|r| r.same).sum(),
    }
}

/// Shares of the stages of a round in their sum over all samples; prefill is not part of decoding.
fn shares(responses: &[&Response]) -> StageSeconds {
    let mut sum = StageSeconds::default();
    for sample in responses.iter().flat_map(|r| &r.samples) {
        let s = sample.stages;
        sum.draft += s.draft;
        sum.tree += s.tree;
        sum.verify += s.verify;
        sum.walk += s.walk;
        sum.commit += s.commit;
    }
    let all = sum.draft + sum.tree + sum.verify + sum.walk + sum.commit;
    let part = |x: f64| if all > 0.0 { x / all } else { 0.0 };
    StageSeconds {
        prefill: 0.0,
        draft: part(sum.draft),
        tree: part(sum.tree),
        verify: part(sum.verify),
        walk: part(sum.walk),
        commit: part(sum.commit),
    }
}

/// A round that accepts n rows accepted drafts at the depths 1 to n - 1.
fn acceptance(responses: &[&Response]) -> Vec<f64> {
    let lengths: Vec<usize> = responses.iter().flat_map(|r| &r.accepted).copied().collect();
    let deepest = lengths.iter().copied().max().unwrap_or(1);
    let count = |d: usize| lengths.iter().filter(|n| **n > d).count() as f64;
    (1..deepest).map(|d| count(d) / lengths.len() as f64).collect()
}
