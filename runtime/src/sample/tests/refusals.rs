use super::super::{History, Sampler, Sampling, SamplingError};
use super::settings;

#[test]
fn rows_without_a_distribution_are_refused() {
    let filtered = settings(1.0, 2, 0.9, 0.1);
    let penalised = Sampling {
        repetition_penalty: 1.5,
        ..settings(0.7, 0, 1.0, 0.0)
    };
    let mut history = History::new();
    history.push(0);
    for s in [
        Sampling::default(),
        settings(1.0, 0, 1.0, 0.0),
        filtered,
        penalised,
    ] {
        let mut sampler = Sampler::new(&s, 0);
        for (row, what) in [
            (&[f32::NAN, 1.0][..], "a NaN"),
            (&[1.0, f32::NAN], "a NaN"),
            (&[f32::NEG_INFINITY; 2], "no finite value"),
            (&[f32::INFINITY, 0.0], "positive infinity"),
            (&[], "no finite value"),
        ] {
            let error = sampler.choose(row, 7, &history).expect_err("refused");
            assert_eq!(error, SamplingError::BadRow { position: 7, what });
            assert!(error.to_string().contains("position 7"));
            let mut top = vec![(1, 0.0)];
            assert_eq!(sampler.logprobs(row, 0, 3, &mut top), f32::NEG_INFINITY);
            assert!(top.is_empty());
        }
    }
}

#[test]
fn fields_out_of_range_are_refused_by_name() {
    type Change = fn(&mut Sampling, f32);
    let fields: [(&str, Change, &[f32], &[f32]); 7] = [
        (
            "temperature",
            |s, v| s.temperature = v,
            &[0.0, 1e-30, 5000.0],
            &[-0.1, f32::INFINITY],
        ),
        ("top_p", |s, v| s.top_p = v, &[1e-6, 1.0], &[0.0, -0.5, 1.1]),
        ("min_p", |s, v| s.min_p = v, &[0.0, 1.0], &[-0.1, 1.5]),
        (
            "repetition_penalty",
            |s, v| s.repetition_penalty = v,
            &[0.1, 1.0, 3.0],
            &[0.0, -1.0, f32::INFINITY],
        ),
        (
            "presence_penalty",
            |s, v| s.presence_penalty = v,
            &[-2.0, 2.0],
            &[-2.1, 3.0],
        ),
        (
            "frequency_penalty",
            |s, v| s.frequency_penalty = v,
            &[-2.0, 2.0],
            &[f32::INFINITY],
        ),
        (
            "logit_bias",
            |s, v| s.logit_bias = vec![(9, v)],
            &[-100.0, 100.0],
            &[-101.0, f32::NEG_INFINITY],
        ),
    ];
    for (field, change, good, bad) in fields {
        for value in good {
            let mut s = Sampling::default();
            change(&mut s, *value);
            assert_eq!(s.validate(10), Ok(()), "{field} {value}");
        }
        for value in bad.iter().chain(&[f32::NAN]) {
            let mut s = Sampling::default();
            change(&mut s, *value);
            let error = s.validate(10).expect_err(field).to_string();
            assert!(
                error.starts_with(field) && error.contains(&value.to_string()),
                "{error}"
            );
        }
    }
    let outside = Sampling {
        logit_bias: vec![(10, 1.0)],
        ..Sampling::default()
    };
    let error = outside.validate(10).expect_err("outside").to_string();
    assert_eq!(error, "logit_bias: 10 is outside the vocabulary of 10");
}
