//! Figures of a record by hand, cells, and files that are no record.

use super::record;
use crate::bench::record::read;
use crate::bench::settings::cells;
use crate::bench::{markdown, plot};
use crate::decode::Method;
use forkcast_engines::backend::Shape;

const SHAPE: Shape = Shape {
    vocab: 100,
    hidden: 4,
    tap_width: 4,
    block: 16,
    modes: 1,
    max_context: 100,
    max_rows: 100,
    prefill_rows: 1,
};

#[test]
fn figures_are_those_of_the_definition() {
    // Medians over repeats: plain 2 and 4 s, tree 1 and 1 s, of 10 tokens each.
    let seconds = |r: usize, c: usize, i: usize| match (r, c) {
        (0, 0) => [2.0, 9.0, 1.0][i],
        (1, 0) => [4.0, 4.0, 4.0][i],
        _ => [1.0, 0.5, 1.5][i],
    };
    let made = record(2, 3, seconds);
    let rows: Vec<_> = made.summary.iter().filter(|r| r.suite.is_none()).collect();
    assert_eq!(rows.len(), 2);
    assert!(
        (rows[1].speedup - 3.0).abs() < 1e-12,
        "mean of 2 and 4 over mean of 1 and 1"
    );
    assert!((rows[1].tau - 3.0).abs() < 1e-12, "mean of 4, 2, 3");
    assert!((rows[1].tokens_per_second - 10.0).abs() < 1e-9);
    assert!((rows[1].shares.draft - 0.25).abs() < 1e-12);
    // Of rounds that accept 4, 2 and 3 rows, all accept a draft at depth 1, two at depth 2, one at depth 3.
    let expected = [1.0, 2.0 / 3.0, 1.0 / 3.0];
    assert_eq!(rows[1].acceptance, expected);
    assert_eq!((rows[0].speedup, rows[0].tau), (1.0, 1.0));
    let text = markdown::render(&made);
    assert!(text.contains("3.00x (3.00)"), "{text}");
}

#[test]
fn plots_are_documents_with_every_method() {
    let made = record(2, 3, |_, c, _| if c == 0 { 2.0 } else { 1.0 });
    let drawn = plot::plots(&made).unwrap();
    let names: Vec<&str> = drawn.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["speedup-t0.svg", "acceptance-t0.svg", "stages-t0.svg"]);
    for plot in &drawn {
        assert!(plot.svg.starts_with("<svg") && plot.svg.trim_end().ends_with("</svg>"));
        assert!(plot.svg.contains("ddtree"), "{}", plot.name);
    }
}

#[test]
fn cells_that_make_no_difference_are_left_out() {
    let methods = [Method::Plain, Method::Chain, Method::Ddtree];
    let found = cells(&methods, &[0, 16, 64], &[0.0, 1.0], 0, &SHAPE).unwrap();
    let words: Vec<String> = found.iter().map(ToString::to_string).collect();
    let expected = [
        "plain budget 0 T 0",
        "chain budget 15 T 0",
        "ddtree budget 16 T 0",
        "ddtree budget 64 T 0",
    ];
    assert_eq!(words[..4], expected);
    assert_eq!(words.len(), 8, "the same at T = 1");
    for (method, mode, part) in [(Method::Mfd, 0, "several modes"), (Method::Ddtree, 3, "mode 3")] {
        let said = cells(&[method], &[8], &[0.0], mode, &SHAPE)
            .unwrap_err()
            .to_string();
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn records_survive_the_file_and_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.json");
    let made = record(1, 2, |_, _, _| 1.0);
    std::fs::write(&path, serde_json::to_vec(&made).unwrap()).unwrap();
    assert_eq!(read(&path).unwrap(), made);
    let mut wrong = made.clone();
    wrong.responses[0].cell = 9;
    let mut old = serde_json::to_value(&made).unwrap();
    old["schema"] = 99.into();
    for (text, part) in [
        ("{}".to_owned(), "`schema` is missing"),
        ("[".to_owned(), "not valid JSON"),
        (old.to_string(), "schema 99"),
        (serde_json::to_string(&wrong).unwrap(), "responses[0]"),
        ("{\"schema\": 1}".to_owned(), "missing field"),
    ] {
        std::fs::write(&path, &text).unwrap();
        let said = read(&path).unwrap_err().to_string();
        assert!(said.contains(part), "{said:?} lacks {part:?}");
    }
}

#[test]
fn suites_and_records_beyond_the_limit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge.json");
    let huge = std::fs::File::create(&path).unwrap();
    // Sparse: no disk is used.
    huge.set_len((256 << 20) + 1).unwrap();
    let said = crate::bench::suite::read(&path).unwrap_err().to_string();
    assert!(said.contains("more than the 268435456 bytes"), "{said}");
    huge.set_len((1 << 30) + 1).unwrap();
    let said = read(&path).unwrap_err().to_string();
    assert!(said.contains("more than the 1073741824 bytes"), "{said}");
}
