//! The list of all reports names only tests that exist, and every test of this program.

use forkcast_tests::paths;
use std::collections::BTreeSet;
use std::path::Path;

/// Names of all functions in Rust files below `dir`, this file's folder excepted when `own` is false.
fn functions(dir: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") {
            functions(&path, names);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path).expect("text");
            let found = text.split("fn ").skip(1).filter_map(|t| t.split_once('('));
            names.extend(found.map(|(name, _)| name.to_owned()));
            // Tests whose names a macro makes are in modules.
            let modules = text
                .split("mod ")
                .skip(1)
                .filter_map(|t| t.split_once([' ', ';']));
            names.extend(modules.map(|(name, _)| name.to_owned()));
        }
    }
}

#[test]
fn the_list_of_reports_names_tests_that_exist() {
    let text = std::fs::read_to_string(paths::repository().join("docs/reports.md")).expect("docs/reports.md");
    let mut names = BTreeSet::new();
    for folder in [
        "engines",
        "exporter",
        "runtime",
        "plugins/src",
        "plugins/tests",
        "tests/src",
        "tests/tests",
    ] {
        functions(&paths::repository().join(folder), &mut names);
    }
    let rows: Vec<&str> = text
        .lines()
        .filter(|l| l.starts_with("| ") && !l.starts_with("| report"))
        .collect();
    assert_eq!(rows.len(), 42, "one row a report");
    let mut listed = BTreeSet::new();
    for row in &rows {
        let tests = row.rsplit('|').nth(1).unwrap_or_default();
        listed.extend(
            tests
                .split('`')
                .skip(1)
                .step_by(2)
                .map(|t| t.rsplit("::").next().unwrap_or(t).to_owned()),
        );
    }
    let absent: Vec<&String> = listed.iter().filter(|t| !names.contains(*t)).collect();
    assert!(absent.is_empty(), "tests that do not exist: {absent:?}");
    let mut own = BTreeSet::new();
    functions(&paths::repository().join("tests/tests/reports"), &mut own);
    let unlisted: Vec<&String> = own
        .iter()
        .filter(|n| n.contains(|c: char| c.is_ascii_digit()))
        .filter(|n| !listed.contains(*n))
        .collect();
    assert!(
        unlisted.is_empty(),
        "tests that the list does not name: {unlisted:?}"
    );
}
