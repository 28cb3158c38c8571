//! Suites, cells, summaries, comparisons and plots.

mod comparing;
mod formats;
mod records;

use super::Host;
use super::record::{Model, Record, Response, SCHEMA, Sample, SuiteInfo};
use super::settings::{Cell, Settings};
use super::summary::summarise;
use crate::decode::StageSeconds;

/// A record of one suite with plain and a tree of budget 16; `seconds` gives the decoding time of (response, cell, repeat).
fn record(responses: usize, repeats: usize, seconds: impl Fn(usize, usize, usize) -> f64) -> Record {
    let cell = |method: &str, budget| Cell {
        method: method.to_owned(),
        budget,
        temperature: 0.0,
    };
    let mut record = Record {
        schema: SCHEMA,
        version: "0".to_owned(),
        commit: "c".to_owned(),
        began: 0,
        host: Host {
            cpu: "x".to_owned(),
            cores: 2,
            memory: 1,
            system: "s".to_owned(),
            load: None,
        },
        model: Model {
            path: "m".to_owned(),
            engine: "cpu".to_owned(),
            dtype: "f32".to_owned(),
            manifest: "0123456789abcdef".to_owned(),
        },
        settings: Settings {
            repeat: repeats,
            max_tokens: 10,
            seed: 0,
            thinking: None,
            top_k: 0,
            top_p: 1.0,
            mode: 0,
            synthetic_acceptance: None,
            samples: None,
            shuffle: None,
            draft_vocab: None,
        },
        synthetic: false,
        suites: vec![SuiteInfo {
            name: "s".to_owned(),
            sha256: "h".to_owned(),
            prompts: responses,
        }],
        cells: vec![cell("plain", 0), cell("ddtree", 16)],
        responses: Vec::new(),
        summary: Vec::new(),
    };
    for r in 0..responses {
        for c in 0..2 {
            let sample = |i| Sample {
                first_token: 0.5,
                decode: seconds(r, c, i),
                stages: StageSeconds {
                    draft: 1.0,
                    verify: 3.0,
                    ..StageSeconds::default()
                },
            };
            record.responses.push(Response {
                suite: 0,
                prompt: r.to_string(),
                turn: 0,
                cell: c,
                prompt_tokens: 3,
                tokens: 10,
                accepted: if c == 0 { vec![1; 9] } else { vec![4, 2, 3] },
                drafted: 0,
                differs_at: None,
                samples: (0..repeats).map(sample).collect(),
            });
        }
    }
    record.summary = summarise(&record);
    record
}
