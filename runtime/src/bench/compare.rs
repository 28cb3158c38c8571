//! Two records side by side: what changed by more than the noise of the samples.

use super::BenchError;
use super::record::{Record, Response};
use super::settings::Cell;
use super::stats::{mean, noise, speedup, times};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

/// Standard errors that a difference must exceed: with some dozen cells, chance alone then rarely does.
const SIGMAS: f64 = 3.0;

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// Within the noise or the tolerance.
    Same,
    /// Better by more.
    Better,
    /// Worse by more.
    Worse,
}

/// A cell in both records.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// The cell.
    pub cell: Cell,
    /// Speedup over plain, before and after.
    pub speedup: [f64; 2],
    /// What a relative difference must exceed to count.
    pub threshold: f64,
    /// What became of the speedup.
    pub speed: Change,
    /// Acceptance length, before and after.
    pub tau: [f64; 2],
    /// What became of it. It has no noise: draws are keyed by seed and position.
    pub acceptance: Change,
}

/// All lines, and cells that only one record has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Cells in both.
    pub lines: Vec<Line>,
    /// Cells only in the first, then only in the second.
    pub only: [Vec<Cell>; 2],
    /// Differences of host or commit that a reader should know.
    pub notes: Vec<String>,
}

impl Comparison {
    /// Whether nothing became worse and no cell vanished.
    #[must_use]
    pub fn passes(&self) -> bool {
        let worse = |l: &Line| l.speed == Change::Worse || l.acceptance == Change::Worse;
        self.only[0].is_empty() && !self.lines.iter().any(worse)
    }
}

/// Compares speedups over plain, which are ratios within one run and so bear a machine that changed in between, and
/// acceptance lengths. A difference counts when it exceeds three standard errors and `tolerance` (relative).
///
/// # Errors
/// The records are of other suites, settings or kinds.
pub fn compare(before: &Record, after: &Record, tolerance: f64) -> Result<Comparison, BenchError> {
    comparable(before, after)?;
    let (mut lines, mut only) = (Vec::new(), [Vec::new(), Vec::new()]);
    for (i, cell) in before.cells.iter().enumerate() {
        match after.cells.iter().position(|c| c == cell) {
            Some(j) => lines.push(line(before, i, after, j, tolerance)),
            None => only[0].push(cell.clone()),
        }
    }
    only[1].extend(after.cells.iter().filter(|c| !before.cells.contains(c)).cloned());
    Ok(Comparison {
        lines,
        only,
        notes: notes(before, after),
    })
}

/// Refuses records whose figures differ for other reasons than the program.
fn comparable(a: &Record, b: &Record) -> Result<(), BenchError> {
    let differ = |what: String| Err(BenchError::Incomparable(what));
    if a.suites != b.suites {
        return differ("the suites are not the same files with the same number of prompts".to_owned());
    }
    let (x, y) = (&a.settings, &b.settings);
    let same = [
        ("--max-tokens", x.max_tokens == y.max_tokens),
        ("--seed", x.seed == y.seed),
        ("--thinking", x.thinking == y.thinking),
        ("--top-k", x.top_k == y.top_k),
        ("--top-p", x.top_p == y.top_p),
        ("--mode", x.mode == y.mode),
        ("--shuffle", x.shuffle == y.shuffle),
        ("--draft-vocab", x.draft_vocab == y.draft_vocab),
        (
            "--synthetic-acceptance",
            x.synthetic_acceptance == y.synthetic_acceptance,
        ),
    ];
    match same.iter().find(|(_, same)| !same) {
        Some((flag, _)) => differ(format!("{flag} differs")),
        None => Ok(()),
    }
}

fn notes(a: &Record, b: &Record) -> Vec<String> {
    let pairs = [
        ("processor", a.host.cpu.clone(), b.host.cpu.clone()),
        ("cores", a.host.cores.to_string(), b.host.cores.to_string()),
        ("engine", a.model.engine.clone(), b.model.engine.clone()),
        ("dtype", a.model.dtype.clone(), b.model.dtype.clone()),
        (
            "bundle",
            a.model.manifest[..12.min(a.model.manifest.len())].to_owned(),
            b.model.manifest[..12.min(b.model.manifest.len())].to_owned(),
        ),
        ("commit", a.commit.clone(), b.commit.clone()),
    ];
    let differ = pairs.into_iter().filter(|(_, x, y)| x != y);
    differ
        .map(|(what, x, y)| format!("{what}: {x}, then {y}"))
        .collect()
}

fn line(a: &Record, i: usize, b: &Record, j: usize, tolerance: f64) -> Line {
    let (before, after) = (Figures::of(a, i), Figures::of(b, j));
    let threshold = (SIGMAS * before.noise.hypot(after.noise)).max((1.0 + tolerance).ln());
    let ratio = if before.speedup > 0.0 && after.speedup > 0.0 {
        (after.speedup / before.speedup).ln()
    } else {
        0.0
    };
    Line {
        cell: a.cells[i].clone(),
        speedup: [before.speedup, after.speedup],
        threshold: threshold.exp() - 1.0,
        speed: judge(ratio, threshold),
        tau: [before.tau, after.tau],
        acceptance: judge(after.tau - before.tau, 1e-9 * before.tau),
    }
}

fn judge(change: f64, threshold: f64) -> Change {
    if change.abs() <= threshold {
        Change::Same
    } else if change > 0.0 {
        Change::Better
    } else {
        Change::Worse
    }
}

/// A cell over all suites.
struct Figures {
    speedup: f64,
    noise: f64,
    tau: f64,
}

impl Figures {
    fn of(record: &Record, cell: usize) -> Self {
        let temperature = record.cells[cell].temperature;
        let plain = |c: &Cell| c.is_plain() && c.temperature == temperature;
        let baseline = record.cells.iter().position(plain).unwrap_or(cell);
        let seconds = |cell: usize| -> Vec<Vec<f64>> {
            let of = record.responses.iter().filter(|r| r.cell == cell);
            of.map(times).collect()
        };
        let (plain, method) = (seconds(baseline), seconds(cell));
        let still = baseline == cell || plain.is_empty() || method.is_empty();
        let taus = record.responses.iter().filter(|r| r.cell == cell);
        Self {
            speedup: speedup(&plain, &method),
            noise: if still { 0.0 } else { noise(&plain, &method) },
            tau: mean(taus.filter_map(Response::tau)),
        }
    }
}

/// The comparison for people.
#[must_use]
pub fn render(comparison: &Comparison) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "method",
        "budget",
        "T",
        "speedup",
        "change",
        "counts from",
        "verdict",
        "tau",
        "verdict",
    ]);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let word = |change| match change {
        Change::Same => "same",
        Change::Better => "better",
        Change::Worse => "WORSE",
    };
    for line in &comparison.lines {
        let [before, after] = line.speedup;
        table.add_row([
            line.cell.method.clone(),
            line.cell.budget.to_string(),
            line.cell.temperature.to_string(),
            format!("{before:.3}x -> {after:.3}x"),
            format!("{:+.1} %", (after / before - 1.0) * 100.0),
            format!("{:.1} %", line.threshold * 100.0),
            word(line.speed).to_owned(),
            format!("{:.3} -> {:.3}", line.tau[0], line.tau[1]),
            word(line.acceptance).to_owned(),
        ]);
    }
    let mut out = format!("{table}\n");
    for (cells, which) in comparison.only.iter().zip(["first", "second"]) {
        for cell in cells {
            out += &format!("only in the {which}: {cell}\n");
        }
    }
    for note in &comparison.notes {
        out += &format!("{note}\n");
    }
    out
}
