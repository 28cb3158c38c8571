//! What counts as a change.

use super::record;
use crate::bench::compare::{Change, compare, render};
use crate::bench::record::Record;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::cell::RefCell;

/// Tree times of `level` seconds against plain's 1, each off by up to `jitter` (relative).
fn noisy(seed: u64, level: f64, jitter: f64) -> Record {
    let dice = RefCell::new(StdRng::seed_from_u64(seed));
    record(8, 5, |_, cell, _| {
        let off = 1.0 + jitter * dice.borrow_mut().random_range(-1.0..1.0);
        off * if cell == 0 { 1.0 } else { level }
    })
}

#[test]
fn noise_alone_is_no_change() {
    let mut flagged = 0;
    for seed in 0..40 {
        let found = compare(&noisy(seed, 0.5, 0.1), &noisy(seed + 1000, 0.5, 0.1), 0.0).unwrap();
        flagged += usize::from(found.lines[1].speed != Change::Same);
    }
    assert!(
        flagged <= 2,
        "{flagged} of 40 comparisons of the same thing were flagged"
    );
}

#[test]
fn a_change_beyond_the_noise_is_seen_and_gates() {
    for seed in 0..20 {
        let (before, after) = (noisy(seed, 0.5, 0.1), noisy(seed + 1000, 0.75, 0.1));
        let worse = compare(&before, &after, 0.02).unwrap();
        assert_eq!(worse.lines[1].speed, Change::Worse, "seed {seed}");
        assert!(!worse.passes());
        let better = compare(&after, &before, 0.02).unwrap();
        assert_eq!(better.lines[1].speed, Change::Better, "seed {seed}");
        assert!(better.passes());
    }
}

#[test]
fn tolerance_hides_small_changes_however_quiet() {
    let (before, after) = (noisy(1, 0.5, 0.0), noisy(1, 0.505, 0.0));
    assert_eq!(
        compare(&before, &after, 0.02).unwrap().lines[1].speed,
        Change::Same
    );
    assert_eq!(
        compare(&before, &after, 0.001).unwrap().lines[1].speed,
        Change::Worse
    );
}

#[test]
fn lost_acceptance_and_lost_cells_gate() {
    let before = noisy(1, 0.5, 0.0);
    let mut after = before.clone();
    for response in after.responses.iter_mut().filter(|r| r.cell == 1) {
        response.accepted = vec![3, 3, 2];
    }
    let found = compare(&before, &after, 0.02).unwrap();
    assert_eq!(found.lines[1].acceptance, Change::Worse);
    assert!(!found.passes());
    assert!(render(&found).contains("WORSE"));
    let mut fewer = before.clone();
    fewer.cells.truncate(1);
    fewer.responses.retain(|r| r.cell == 0);
    assert!(!compare(&before, &fewer, 0.02).unwrap().passes());
    assert!(compare(&fewer, &before, 0.02).unwrap().passes());
}

#[test]
fn other_prompts_or_settings_are_refused() {
    let before = noisy(1, 0.5, 0.0);
    let mut other = before.clone();
    other.suites[0].sha256 = "z".to_owned();
    let said = compare(&before, &other, 0.0).unwrap_err().to_string();
    assert!(said.contains("suites"), "{said}");
    let mut other = before.clone();
    other.settings.max_tokens += 1;
    let said = compare(&before, &other, 0.0).unwrap_err().to_string();
    assert!(said.contains("--max-tokens"), "{said}");
}
