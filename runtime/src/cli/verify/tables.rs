//! What a verification found, as tables.

use super::deep::Found;
use comfy_table::{Table, presets};
use forkcast::proof::tokens::Divergence;
use forkcast_engines::engine::{Check, Outcome as Said};
use std::fmt::Write as _;

/// Near ties that are shown; the JSON report has all.
const SHOWN: usize = 10;

fn new(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(header);
    table
}

/// One row a check of files.
pub(super) fn checks(checks: &[Check]) -> String {
    let mut table = new(&["check", "outcome", "found"]);
    for check in checks {
        let outcome = match check.outcome {
            Said::Ok => "ok",
            Said::Skipped => "not asked",
            Said::Misfit => "does not fit",
            Said::Corrupt => "corrupt",
        };
        let found: String = check.found.chars().take(100).collect();
        table.add_row([check.what.as_str(), outcome, &found]);
    }
    table.to_string()
}

/// One row a part of the proof, then divergences and near ties.
pub(super) fn proof(found: &Found) -> String {
    let mut table = new(&["proof", "outcome", "found"]);
    let mut row = |what: String, holds: bool, found: String| {
        table.add_row([what, if holds { "ok" } else { "NO" }.to_owned(), found]);
    };
    for equality in &found.proof.tokens {
        let ties = equality.divergences.iter().filter(|d| d.near_tie).count();
        row(
            format!("tokens of plain, T = {}", equality.temperature),
            equality.holds(),
            format!(
                "{} answers, {} tokens equal; {} differ, {ties} of them at a near tie",
                equality.answers,
                equality.tokens,
                equality.divergences.len()
            ),
        );
    }
    for state in &found.proof.states {
        let first = state.first.as_ref().map_or_else(String::new, |(sample, round)| {
            format!("; first beyond: {sample}, round {round}")
        });
        row(
            format!("state after rounds, {}", state.cell),
            state.holds(),
            format!(
                "{} rounds: state {:.1e} (bound {:.1e}), logits {:.1e} (bound {:.1e}){first}",
                state.rounds, state.state_error, state.bounds[0], state.logit_error, state.bounds[1]
            ),
        );
    }
    for operator in &found.operators {
        row(
            format!("{} against its body", operator.operator),
            operator.holds,
            format!(
                "{} calls: {:.1e} (bound {:.1e})",
                operator.calls, operator.error, operator.bound
            ),
        );
    }
    let mut text = format!(
        "{} prompts; {}\n{table}\n",
        found.samples,
        found.proof.cells.join(", ")
    );
    for divergence in found.proof.tokens.iter().flat_map(|e| &e.divergences) {
        text += &line(divergence);
    }
    ties(found, &mut text);
    text
}

fn line(d: &Divergence) -> String {
    let token = |t: Option<u32>| t.map_or_else(|| "the end".to_owned(), |t| t.to_string());
    let gap = d.gap.map_or_else(String::new, |g| format!(", gap {g:.2e}"));
    format!(
        "{}: {} T {} seed {}, prompt {}, place {}: plain has {}, found {}{gap}\n",
        if d.near_tie { "near tie" } else { "FAILURE" },
        d.cell,
        d.temperature,
        d.seed,
        d.sample,
        d.place,
        token(d.expected),
        token(d.found)
    )
}

fn ties(found: &Found, text: &mut String) {
    let ties = &found.proof.ties;
    if ties.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "rows of plain whose best two logits are closer than {:.1e}: {}",
        found.listed,
        ties.len()
    );
    for tie in ties.iter().take(SHOWN) {
        let (sample, place) = (&tie.sample, tie.place);
        let _ = writeln!(
            text,
            "  prompt {sample}, place {place}: {} and {}, gap {:.2e}",
            tie.token, tie.other, tie.gap
        );
    }
}
