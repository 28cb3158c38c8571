use super::{History, Sampler, Sampling, SamplingError};

/// Float64, sorting everything: what the sampler must agree with.
fn reference(logits: &[f32], s: &Sampling) -> Vec<f64> {
    let scaled: Vec<f64> = logits
        .iter()
        .map(|l| f64::from(*l) / f64::from(s.temperature))
        .collect();
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|a, b| scaled[*b].total_cmp(&scaled[*a]).then(a.cmp(b)));
    if s.top_k > 0 {
        order.truncate(s.top_k);
    }
    let max = scaled[order[0]];
    let mass = |list: &[usize]| -> f64 { list.iter().map(|i| (scaled[*i] - max).exp()).sum() };
    let total = mass(&order);
    let kept: Vec<usize> = (0..order.len())
        .filter(|n| *n == 0 || mass(&order[..*n]) / total < f64::from(s.top_p))
        .map(|n| order[n])
        .filter(|i| (scaled[*i] - max).exp() >= f64::from(s.min_p))
        .collect();
    let total = mass(&kept);
    (0..logits.len())
        .map(|i| {
            if kept.contains(&i) {
                (scaled[i] - max).exp() / total
            } else {
                0.0
            }
        })
        .collect()
}

fn settings(temperature: f32, top_k: usize, top_p: f32, min_p: f32) -> Sampling {
    Sampling {
        temperature,
        top_k,
        top_p,
        min_p,
        ..Sampling::default()
    }
}

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
        let expected = reference(&logits, &s);
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
}

#[test]
fn greedy_takes_the_lowest_id_of_the_maximum() {
    let mut sampler = Sampler::new(&Sampling::default(), 0);
    let token = sampler
        .choose(&[1.0, 5.0, 5.0, 2.0], 0, &History::new())
        .expect("draws")
        .token;
    assert_eq!(token, 1);
}

#[test]
fn penalties_and_bias() {
    let mut history = History::new();
    history.push_prompt(0);
    history.push(1);
    history.push(1);
    let logits = [2.0, 3.0, 1.5, -1.0];
    let pick = |s: Sampling| {
        Sampler::new(&s, 0)
            .choose(&logits, 0, &history)
            .expect("draws")
            .token
    };
    assert_eq!(pick(Sampling::default()), 1);
    assert_eq!(
        pick(Sampling {
            presence_penalty: 1.2,
            ..Sampling::default()
        }),
        0
    );
    assert_eq!(
        pick(Sampling {
            frequency_penalty: 0.4,
            ..Sampling::default()
        }),
        1
    );
    assert_eq!(
        pick(Sampling {
            frequency_penalty: 0.6,
            ..Sampling::default()
        }),
        0
    );
    assert_eq!(
        pick(Sampling {
            repetition_penalty: 2.5,
            ..Sampling::default()
        }),
        2
    );
    assert_eq!(
        pick(Sampling {
            logit_bias: vec![(3, 4.5)],
            ..Sampling::default()
        }),
        3
    );
}

#[test]
fn logprobs_are_those_of_the_unmodified_row() {
    let mut sampler = Sampler::new(&settings(0.1, 1, 1.0, 0.0), 0);
    let mut top = Vec::new();
    let logits = [0.0, 1.0, 1.0, -1.0];
    let sum: f32 = logits.iter().map(|l: &f32| l.exp()).sum();
    let logp = sampler.logprobs(&logits, 3, 3, &mut top);
    assert!((logp - (-1.0 - sum.ln())).abs() < 1e-6);
    let ids: Vec<u32> = top.iter().map(|t| t.0).collect();
    assert_eq!(ids, [1, 2, 0]);
    assert!((top[0].1 - (1.0 - sum.ln())).abs() < 1e-6);
}

#[test]
fn bad_rows_and_bad_settings_are_refused_by_name() {
    for s in [Sampling::default(), settings(1.0, 0, 1.0, 0.0)] {
        let mut sampler = Sampler::new(&s, 0);
        for row in [[f32::NAN, 1.0], [f32::NEG_INFINITY; 2], [f32::INFINITY, 0.0]] {
            let error = sampler.choose(&row, 7, &History::new()).expect_err("refused");
            assert!(matches!(error, SamplingError::BadRow { position: 7, .. }));
        }
    }
    let d = Sampling::default;
    for (field, s) in [
        (
            "temperature",
            Sampling {
                temperature: f32::NAN,
                ..d()
            },
        ),
        (
            "temperature",
            Sampling {
                temperature: -0.1,
                ..d()
            },
        ),
        ("top_p", Sampling { top_p: 0.0, ..d() }),
        ("top_p", Sampling { top_p: 1.1, ..d() }),
        (
            "top_p",
            Sampling {
                top_p: f32::NAN,
                ..d()
            },
        ),
        ("min_p", Sampling { min_p: 1.5, ..d() }),
        (
            "repetition_penalty",
            Sampling {
                repetition_penalty: 0.0,
                ..d()
            },
        ),
        (
            "presence_penalty",
            Sampling {
                presence_penalty: 3.0,
                ..d()
            },
        ),
        (
            "frequency_penalty",
            Sampling {
                frequency_penalty: f32::INFINITY,
                ..d()
            },
        ),
        (
            "logit_bias",
            Sampling {
                logit_bias: vec![(10, 1.0)],
                ..d()
            },
        ),
        (
            "logit_bias",
            Sampling {
                logit_bias: vec![(1, f32::NAN)],
                ..d()
            },
        ),
    ] {
        let error = s.validate(10).expect_err(field).to_string();
        assert!(error.starts_with(field), "{error}");
    }
    assert_eq!(settings(1.0, 20, 0.95, 0.0).validate(10), Ok(()));
}
