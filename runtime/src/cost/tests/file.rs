//! `tune.json`: written whole, read with care.

use super::super::choose::Choice;
use super::super::measure::Costs;
use super::super::{FILE_NAME, Found, Measured, SCHEMA, Tune, find, write};
use super::choice::model;
use crate::bench::Host;
use std::path::Path;

fn host() -> Host {
    Host {
        cpu: "a".to_owned(),
        cores: 2,
        memory: 1,
        system: "linux".to_owned(),
        load: None,
    }
}

/// A tuning for methods of one mode.
pub(crate) fn tune() -> Tune {
    Tune {
        schema: SCHEMA,
        forkcast: "0".to_owned(),
        host: host(),
        manifest: "m".to_owned(),
        threads: None,
        suites: vec!["ids".to_owned()],
        random_prompts: true,
        rates: None,
        costs: Costs {
            model: model(),
            ..Costs::default()
        },
        acceptance: vec![],
        context: 100,
        best: vec![Choice {
            method: "ddtree".to_owned(),
            budget: 9,
            tau: 3.0,
            round: 0.1,
            tokens_per_second: 30.0,
        }],
        measured: Measured {
            choice: 29.0,
            plain: 10.0,
        },
    }
}

fn unfit(dir: &Path, part: &str) {
    match find(dir, "m", &host(), None) {
        Found::Unfit(reason) => assert!(reason.contains(part), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_written_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(find(folder.path(), "m", &host(), None), Found::Nothing);
    for _ in 0..2 {
        write(folder.path(), &tune()).expect("written");
    }
    let names = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(names, 1, "nothing else is left");
    let found = find(folder.path(), "m", &host(), None);
    assert_eq!(found.tune(), Some(&tune()));
    let error = write(&folder.path().join("none"), &tune()).expect_err("no folder");
    assert!(error.to_string().contains(FILE_NAME), "{error}");
}

#[test]
fn what_does_not_fit_is_not_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    write(dir, &tune()).expect("written");
    let elsewhere = Host { cores: 3, ..host() };
    assert!(matches!(find(dir, "m", &elsewhere, None), Found::Unfit(r) if r.contains("machine")));
    assert!(matches!(find(dir, "n", &host(), None), Found::Unfit(r) if r.contains("another bundle")));
    assert!(matches!(find(dir, "m", &host(), Some(1)), Found::Unfit(r) if r.contains("threads")));
    let change = |change: &dyn Fn(&mut Tune)| {
        let mut tune = tune();
        change(&mut tune);
        write(dir, &tune).expect("written");
    };
    change(&|t| t.schema = 9);
    unfit(dir, "schema 9");
    change(&|t| t.best.clear());
    unfit(dir, "best");
    change(&|t| t.best[0].method = "magic".to_owned());
    unfit(dir, "magic");
    change(&|t| t.best[0].budget = 5000);
    unfit(dir, "5000");
    change(&|t| t.costs.model.rows.swap(0, 1));
    unfit(dir, "ascend");
    change(&|t| t.costs.model.verify[1][2] = -1.0);
    unfit(dir, "cost");
    change(&|t| t.costs.model.commit.clear());
    unfit(dir, "cost");
    for text in ["", "{", "[]", "null"] {
        std::fs::write(dir.join(FILE_NAME), text).expect("written");
        assert!(matches!(find(dir, "m", &host(), None), Found::Unfit(_)), "{text}");
    }
    std::fs::remove_file(dir.join(FILE_NAME)).expect("removed");
    std::fs::create_dir(dir.join(FILE_NAME)).expect("made");
    assert!(matches!(find(dir, "m", &host(), None), Found::Unfit(_)));
}
