//! A tuning for people: stages against their bounds, then what pays.

use comfy_table::{Table, presets};
use forkcast::cost::Tune;
use forkcast::cost::bounds::{self, Work};
use forkcast::cost::measure::PATH;
use forkcast_engines::manifest::Manifest;
use std::fmt::Write as _;

fn new(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(header);
    table
}

/// All tables.
pub(super) fn render(tune: &Tune, manifest: &Manifest) -> String {
    let mut text = String::new();
    if let Some(r) = &tune.rates {
        let _ = writeln!(
            text,
            "host: {} threads, reads {:.1} GB/s, copies {:.1} GB/s, f32 GEMM {:.1} GFLOP/s{}",
            r.threads,
            r.read / 1e9,
            r.copy / 1e9,
            r.gemm / 1e9,
            tune.host
                .load
                .map_or_else(String::new, |l| format!("; load {l} when it began"))
        );
    }
    let _ = writeln!(text, "{}", stages(tune, manifest));
    if !tune.costs.left_out.is_empty() {
        let _ = writeln!(text, "contexts left out: {:?}", tune.costs.left_out);
    }
    let _ = writeln!(text, "\n{}", choices(tune));
    if let Some(choice) = tune.choice() {
        let _ = writeln!(
            text,
            "chosen after {} tokens: {} budget {}; measured {:.1} tokens/s, plain {:.1}, ratio {:.2}{}",
            tune.context,
            choice.method,
            choice.budget,
            tune.measured.choice,
            tune.measured.plain,
            tune.measured.choice / tune.measured.plain.max(f64::MIN_POSITIVE),
            if tune.random_prompts {
                " (random prompts)"
            } else {
                ""
            }
        );
    }
    text
}

fn stages(tune: &Tune, manifest: &Manifest) -> Table {
    let mut table = new(&["stage", "rows", "context", "ms", "bound ms", "times bound"]);
    let mut row = |stage: &str, rows: usize, context: usize, seconds: f64, bound: Option<f64>| {
        table.add_row([
            stage.to_owned(),
            rows.to_string(),
            context.to_string(),
            format!("{:.3}", 1e3 * seconds),
            bound.map_or_else(|| "-".to_owned(), |b| format!("{:.3}", 1e3 * b)),
            bound.map_or_else(|| "-".to_owned(), |b| format!("{:.1}", seconds / b)),
        ]);
    };
    let bound = |work: Work| tune.rates.as_ref().map(|r| work.seconds(r));
    let model = tune.model();
    let (block, modes) = manifest.drafter.as_ref().map_or((0, 0), |d| (d.block, d.modes));
    for (i, context) in model.contexts.iter().copied().enumerate() {
        for (rows, seconds) in model.rows.iter().zip(&model.verify[i]) {
            let least = bound(bounds::verify(manifest, *rows, context));
            row("verify", *rows, context, *seconds, least);
        }
        for draft in &model.draft {
            let read = if draft.method == "mfd" { modes } else { 1 };
            let least = bound(bounds::draft(manifest, read, context));
            row(
                &format!("draft {}", draft.method),
                modes * block,
                context,
                draft.seconds[i],
                least,
            );
        }
        for (name, rows, seconds) in [
            ("commit", PATH, &model.commit),
            ("commit", 1, &model.commit_one),
            ("commit, no drafter", 1, &model.commit_plain),
        ] {
            let least = bound(bounds::commit(manifest, rows)).filter(|_| name == "commit");
            row(name, rows, context, seconds[i], least.filter(|b| *b > 0.0));
        }
        if let Some(rate) = tune.costs.prefill.get(i).filter(|r| **r > 0.0) {
            // Weights are read once a chunk; 256 rows stand for any.
            let least = tune
                .rates
                .as_ref()
                .map(|r| bounds::prefill(manifest, 256, context, r));
            row("prefill, a token", 1, context, 1.0 / rate, least);
        }
    }
    for (rows, seconds) in model.rows.iter().zip(&tune.costs.head) {
        row(
            "head",
            *rows,
            model.contexts[0],
            *seconds,
            bound(bounds::head(manifest, *rows)),
        );
    }
    table
}

fn choices(tune: &Tune) -> Table {
    let mut table = new(&["method", "best budget", "tau", "round ms", "expected tokens/s"]);
    for choice in &tune.best {
        table.add_row([
            choice.method.clone(),
            choice.budget.to_string(),
            format!("{:.2}", choice.tau),
            format!("{:.3}", 1e3 * choice.round),
            format!("{:.1}", choice.tokens_per_second),
        ]);
    }
    table
}
