//! Tables for people.

use super::record::Record;
use super::summary::Row;
use comfy_table::{CellAlignment, Table, presets};

/// Speedup and acceptance by suite, then what the means are made of.
#[must_use]
pub fn render(record: &Record) -> String {
    let mut out = String::new();
    let mut temperatures: Vec<f32> = Vec::new();
    for cell in &record.cells {
        if !temperatures.contains(&cell.temperature) {
            temperatures.push(cell.temperature);
        }
    }
    for temperature in temperatures {
        out += &format!(
            "Speedup over plain (tau), T = {temperature}\n\n{}\n\n",
            by_suite(record, temperature)
        );
        out += &format!(
            "Means over suites, T = {temperature}\n\n{}\n\n",
            details(record, temperature)
        );
    }
    out += &remarks(record);
    out
}

fn table(header: &[String]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| (*w).to_owned()).collect()
}

/// Rows of the cells of a temperature, the baseline first.
fn rows(record: &Record, temperature: f32, suite: Option<usize>) -> impl Iterator<Item = &Row> {
    let fits = move |r: &&Row| r.suite == suite && record.cells[r.cell].temperature == temperature;
    record.summary.iter().filter(fits)
}

fn by_suite(record: &Record, temperature: f32) -> Table {
    let mut header = words(&["method", "budget"]);
    header.extend(record.suites.iter().map(|s| s.name.clone()));
    header.push("mean".to_owned());
    let mut table = table(&header);
    for mean in rows(record, temperature, None) {
        let cell = &record.cells[mean.cell];
        let mut line = vec![cell.method.clone(), cell.budget.to_string()];
        let suites = (0..record.suites.len()).map(Some).chain([None]);
        line.extend(suites.map(|suite| {
            let row = rows(record, temperature, suite).find(|r| r.cell == mean.cell);
            row.map_or_else(|| "-".to_owned(), |r| format!("{:.2}x ({:.2})", r.speedup, r.tau))
        }));
        table.add_row(line);
    }
    table
}

fn details(record: &Record, temperature: f32) -> Table {
    let mut table = table(&words(&[
        "method",
        "budget",
        "tokens/s",
        "first token",
        "noise",
        "draft",
        "tree",
        "verify",
        "walk",
        "commit",
        "plain's tokens",
    ]));
    for row in rows(record, temperature, None) {
        let cell = &record.cells[row.cell];
        let percent = |x: f64| format!("{:.1} %", x * 100.0);
        let s = row.shares;
        table.add_row([
            cell.method.clone(),
            cell.budget.to_string(),
            format!("{:.1}", row.tokens_per_second),
            format!("{:.2} ms", row.first_token * 1000.0),
            format!("±{:.1} %", row.noise * 100.0),
            percent(s.draft),
            percent(s.tree),
            percent(s.verify),
            percent(s.walk),
            percent(s.commit),
            if record.synthetic {
                "meaningless".to_owned()
            } else {
                format!("{} of {}", row.same, row.responses)
            },
        ]);
    }
    table
}

/// What a reader must know to read the tables.
fn remarks(record: &Record) -> String {
    let s = &record.settings;
    let suites: Vec<String> = record
        .suites
        .iter()
        .map(|suite| format!("{} ({} prompts)", suite.name, suite.prompts))
        .collect();
    let mut out = format!(
        "{}; {} repeats, at most {} tokens, seed {}; {}\n{} ({}), {}, {} cores, load {}; forkcast {} {}\n",
        suites.join(", "),
        s.repeat,
        s.max_tokens,
        s.seed,
        "tau: rows accepted a round, mean over answers of the mean over rounds",
        record.model.path,
        record.model.dtype,
        record.host.cpu,
        record.host.cores,
        record
            .host
            .load
            .map_or_else(|| "unknown".to_owned(), |l| format!("{l:.1}")),
        record.version,
        record.commit,
    );
    if let Some(n) = s.draft_vocab {
        out += &format!("drafts over {n} tokens\n");
    }
    if let Some(tau) = s.synthetic_acceptance {
        out += &format!(
            "SYNTHETIC ACCEPTANCE {tau}: what was accepted was chosen, the texts mean nothing; only costs are measured\n"
        );
    }
    out
}
