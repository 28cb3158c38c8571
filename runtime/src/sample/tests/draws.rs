//! Small rows whose outcome is plain to see.

use super::super::reference::distribution;
use super::super::{History, Sampler, Sampling};
use super::settings;

#[test]
fn frequencies_follow_the_float64_reference() {
    let logits = [0.3, -1.0, 2.0, 0.0, 1.1, -3.0, 1.9, 0.5];
    for s in [
        settings(1.0, 0, 1.0, 0.0),
        settings(0.6, 0, 1.0, 0.0),
        settings(1.0, 3, 1.0, 0.0),
        settings(1.0, 0, 0.7, 0.0),
        settings(1.3, 5, 0.9, 0.1),
    ] {
        let expected = distribution(&logits, &s, &History::new());
        let mut sampler = Sampler::new(&s, 3);
        let mut counts = [0.0f64; 8];
        let n = 100_000;
        for position in 0..n {
            let choice = sampler.choose(&logits, position, &History::new()).expect("draws");
            counts[choice.token as usize] += 1.0;
        }
        let mut chi = 0.0;
        for (count, p) in counts.iter().zip(&expected) {
            if *p == 0.0 {
                assert_eq!(*count, 0.0, "a filtered token was drawn: {s:?}");
            } else {
                let e = p * n as f64;
                chi += (count - e) * (count - e) / e;
            }
        }
        // 99.9 % quantile of chi-square with 7 degrees of freedom; fewer degrees only tighten it.
        assert!(chi < 24.3, "{s:?}: chi-square {chi}");
    }
}

#[test]
fn the_draw_depends_on_seed_and_position_only() {
    let logits: Vec<f32> = (0..50).map(|i| (i as f32 * 0.7).sin()).collect();
    let s = settings(1.0, 0, 1.0, 0.0);
    let draw = |seed, position| {
        Sampler::new(&s, seed)
            .choose(&logits, position, &History::new())
            .expect("draws")
            .token
    };
    let mut forward = Sampler::new(&s, 1);
    let all: Vec<u32> = (0..100)
        .map(|p| forward.choose(&logits, p, &History::new()).expect("draws").token)
        .collect();
    for p in (0..100).rev() {
        assert_eq!(draw(1, p), all[p as usize]);
    }
    assert!((0..100).any(|p| draw(2, p) != all[p as usize]));
    // The last stream is a stream like any other.
    assert_eq!(draw(1, u64::MAX), draw(1, u64::MAX));
}

#[test]
fn temperature_one_samples() {
    // Fifty seeds on a flat row: far more than one distinct first token (`reports.md` 17).
    let flat = [0.0f32; 64];
    let mut seen: Vec<u32> = (0..50)
        .map(|seed| {
            let mut sampler = Sampler::new(&settings(1.0, 0, 1.0, 0.0), seed);
            sampler.choose(&flat, 12, &History::new()).expect("draws").token
        })
        .collect();
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() > 25, "{seen:?}");
}

#[test]
fn ties_go_to_the_lowest_id() {
    let logits = [1.0, 5.0, 5.0, 2.0, 5.0];
    for s in [
        Sampling::default(),
        settings(1.0, 1, 1.0, 0.0),
        settings(1.0, 0, 0.1, 0.0),
    ] {
        for position in 0..20 {
            let choice = Sampler::new(&s, 0).choose(&logits, position, &History::new());
            assert_eq!(choice.expect("draws").token, 1, "{s:?}");
        }
    }
    // A vanishing temperature draws among the best, and top-k 2 keeps the first two of them.
    let mut cold = Sampler::new(&settings(1e-38, 0, 1.0, 0.0), 0);
    let mut two = Sampler::new(&settings(1.0, 2, 1.0, 0.0), 0);
    for position in 0..50 {
        let token = cold
            .choose(&logits, position, &History::new())
            .expect("draws")
            .token;
        assert!([1, 2, 4].contains(&token));
        let token = two
            .choose(&logits, position, &History::new())
            .expect("draws")
            .token;
        assert!([1, 2].contains(&token));
    }
}

#[test]
fn penalties_and_bias() {
    let mut history = History::new();
    history.push_prompt(0);
    history.push(1);
    history.push(1);
    let logits = [2.0, 3.0, 1.5, -1.0];
    let pick = |change: fn(&mut Sampling)| {
        let mut s = Sampling::default();
        change(&mut s);
        Sampler::new(&s, 0)
            .choose(&logits, 0, &history)
            .expect("draws")
            .token
    };
    assert_eq!(pick(|_| ()), 1);
    assert_eq!(pick(|s| s.presence_penalty = 1.2), 0);
    assert_eq!(pick(|s| s.frequency_penalty = 0.4), 1);
    assert_eq!(pick(|s| s.frequency_penalty = 0.6), 0);
    // Presence and frequency look at the answer only, repetition at the prompt too.
    assert_eq!(pick(|s| s.repetition_penalty = 2.5), 2);
    assert_eq!(pick(|s| s.logit_bias = vec![(3, 4.5)]), 3);
    assert_eq!(pick(|s| s.logit_bias = vec![(3, 2.5), (3, 2.5)]), 3);
}

#[test]
fn extreme_penalties_leave_a_distribution() {
    let mut history = History::new();
    history.push(0);
    history.push(2);
    let logits = [5.0, f32::NEG_INFINITY, -5.0, 1.0];
    for penalty in [f32::MIN_POSITIVE, f32::MAX] {
        let s = Sampling {
            repetition_penalty: penalty,
            ..settings(1.0, 0, 1.0, 0.0)
        };
        s.validate(4).expect("within range");
        for position in 0..50 {
            let token = Sampler::new(&s, 1)
                .choose(&logits, position, &history)
                .expect("draws")
                .token;
            // Token 1 is impossible and stays so.
            assert!(if penalty < 1.0 {
                token == 0
            } else {
                [0, 3].contains(&token)
            });
        }
    }
}

#[test]
fn logprobs_are_those_of_the_unmodified_row() {
    let mut sampler = Sampler::new(&settings(0.1, 1, 1.0, 0.0), 0);
    let mut top = Vec::new();
    let logits = [0.0, 1.0, 1.0, -1.0, f32::NEG_INFINITY];
    let sum: f32 = logits.iter().map(|l: &f32| l.exp()).sum();
    let logp = sampler.logprobs(&logits, 3, 3, &mut top);
    assert!((logp - (-1.0 - sum.ln())).abs() < 1e-6);
    let ids: Vec<u32> = top.iter().map(|t| t.0).collect();
    assert_eq!(ids, [1, 2, 0]);
    assert!((top[0].1 - (1.0 - sum.ln())).abs() < 1e-6);
    // Impossible tokens are not listed; tokens that do not exist are impossible.
    assert_eq!(sampler.logprobs(&logits, 4, 10, &mut top), f32::NEG_INFINITY);
    assert_eq!(top.len(), 4);
    assert_eq!(sampler.logprobs(&logits, 99, 0, &mut top), f32::NEG_INFINITY);
    assert!(top.is_empty());
}
