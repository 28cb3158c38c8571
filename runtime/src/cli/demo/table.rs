//! The table of the demo.

use super::Answer;
use comfy_table::{CellAlignment, Table, presets};
use forkcast::decode::Method;

/// The table, and whether every method gave plain's tokens and text.
pub(super) fn render(answers: &[Answer]) -> (String, bool) {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "prompt",
        "method",
        "budget",
        "tokens",
        "rounds",
        "tau",
        "tokens/s",
        "speedup",
        "same text as plain",
    ]);
    for column in 2..8 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let plain: Vec<&Answer> = answers
        .iter()
        .filter(|a| a.report.method == Method::Plain)
        .collect();
    let mut all_same = true;
    for reference in &plain {
        for answer in answers.iter().filter(|a| a.domain == reference.domain) {
            let same = answer.report.token_ids == reference.report.token_ids && answer.text == reference.text;
            all_same &= same;
            let speed = answer.report.tokens_per_second();
            table.add_row([
                answer.domain.to_owned(),
                answer.report.method.to_string(),
                answer.report.budget.to_string(),
                answer.report.token_ids.len().to_string(),
                answer.report.rounds.to_string(),
                format!("{:.2}", answer.report.tau()),
                format!("{speed:.1}"),
                ratio(speed, reference.report.tokens_per_second()),
                if same { "yes" } else { "no" }.to_owned(),
            ]);
        }
    }
    let mut out = format!("{table}\n\n");
    let overall = |method| Overall::of(answers.iter().filter(|a| a.report.method == method));
    let reference = overall(Method::Plain);
    for method in Method::ALL {
        let all = overall(method);
        out += &format!(
            "all prompts, {:<6}  tau {:5.2}  {:7.1} tokens/s  {}\n",
            method.to_string(),
            all.tau,
            all.speed,
            ratio(all.speed, reference.speed)
        );
    }
    (out, all_same)
}

/// A method over all prompts.
struct Overall {
    tau: f64,
    speed: f64,
}

impl Overall {
    fn of<'a>(answers: impl Iterator<Item = &'a Answer>) -> Self {
        let (mut count, mut tau, mut tokens, mut seconds) = (0.0, 0.0, 0.0, 0.0);
        for answer in answers {
            count += 1.0;
            tau += answer.report.tau();
            tokens += answer.report.token_ids.len().saturating_sub(1) as f64;
            seconds += answer.report.decode_time.as_secs_f64();
        }
        Self {
            tau: if count > 0.0 { tau / count } else { 0.0 },
            speed: if seconds > 0.0 { tokens / seconds } else { 0.0 },
        }
    }
}

fn ratio(speed: f64, reference: f64) -> String {
    if reference > 0.0 {
        format!("{:.2}x", speed / reference)
    } else {
        "-".to_owned()
    }
}
