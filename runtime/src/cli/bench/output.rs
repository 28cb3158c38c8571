//! The folder that a bench writes.

use crate::exit::{Exit, Failure};
use forkcast::bench::record::Record;
use forkcast::bench::{markdown, plot};
use forkcast_engines::staging::{self, Staging, StagingError};
use std::collections::BTreeSet;
use std::path::Path;

const RECORD: &str = "bench.json";
const TABLES: &str = "bench.md";

/// Refuses a place that holds something else than a bench.
pub(super) fn check(out: &Path) -> Result<(), Failure> {
    staging::check(out, "bench", known).map_err(failure)
}

/// Files of the bench in `out`, if there is one.
fn known(out: &Path) -> Option<BTreeSet<String>> {
    if !out.join(RECORD).is_file() {
        return None;
    }
    let names = std::fs::read_dir(out).ok()?.flatten();
    let names = names.map(|e| e.file_name().to_string_lossy().into_owned());
    let plot = |n: &String| {
        let of = ["speedup-t", "acceptance-t", "stages-t"];
        of.iter().any(|p| n.starts_with(p)) && n.ends_with(".svg")
    };
    let mut known: BTreeSet<String> = names.filter(plot).collect();
    known.extend([RECORD.to_owned(), TABLES.to_owned()]);
    Some(known)
}

/// Writes record, tables and plots; all of them or nothing.
pub(super) fn write(out: &Path, record: &Record) -> Result<(), Failure> {
    let staging = Staging::create(out).map_err(failure)?;
    let dir = staging.path();
    std::fs::write(
        dir.join(RECORD),
        serde_json::to_vec_pretty(record).map_err(std::io::Error::from)?,
    )?;
    std::fs::write(dir.join(TABLES), markdown::render(record))?;
    for plot in plot::plots(record)? {
        std::fs::write(dir.join(plot.name), plot.svg)?;
    }
    check(out)?;
    staging.finish().map_err(failure)
}

fn failure(error: StagingError) -> Failure {
    let (exit, hint) = match &error {
        StagingError::Place { hint, .. } => (Exit::Input, Some(hint.clone())),
        _ => (
            Exit::Running,
            Some("name a folder that can be written".to_owned()),
        ),
    };
    Failure::with(exit, error, hint)
}
