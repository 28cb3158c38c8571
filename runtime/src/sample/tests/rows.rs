//! Long rows and random settings against the float64 reference. Fixed seeds: a token may fall on the other
//! side of a filter's limit when float32 and float64 differ there, which must not make a test fail at random.

use super::super::dice::Dice;
use super::super::reference::{distribution, invert};
use super::super::{History, Sampler, Sampling};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

struct Random(ChaCha8Rng);

impl Random {
    fn unit(&mut self) -> f32 {
        (self.0.next_u32() >> 8) as f32 / 16_777_216.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n as u64) as usize
    }

    fn one_of<const N: usize>(&mut self, values: [f32; N]) -> f32 {
        values[self.below(N)]
    }

    fn row(&mut self, vocab: usize) -> Vec<f32> {
        let spread = self.one_of([1.0, 4.0, 15.0]);
        let mut row: Vec<f32> = (0..vocab)
            .map(|_| spread * (self.unit() + self.unit() - 1.0))
            .collect();
        for _ in 0..vocab / 10 {
            let at = self.below(vocab);
            row[at] = f32::NEG_INFINITY;
        }
        row[self.below(vocab)] = spread;
        row
    }

    fn settings(&mut self, vocab: usize) -> Sampling {
        Sampling {
            temperature: self.one_of([0.0, 0.3, 0.6, 1.0, 1.7]),
            top_k: [0, 0, 1, 7, 20, 1000][self.below(6)],
            top_p: self.one_of([1.0, 1.0, 0.3, 0.8, 0.95, 0.999]),
            min_p: self.one_of([0.0, 0.0, 0.02, 0.3, 1.0]),
            repetition_penalty: self.one_of([1.0, 1.0, 1.3, 0.8]),
            presence_penalty: self.one_of([0.0, 0.0, 1.5, -1.0]),
            frequency_penalty: self.one_of([0.0, 0.0, 0.7]),
            logit_bias: (0..self.below(3))
                .map(|_| (self.below(vocab) as u32, self.one_of([-100.0, 2.0, 9.0])))
                .collect(),
        }
    }
}

#[test]
fn draws_are_those_of_the_reference() {
    let mut random = Random(ChaCha8Rng::seed_from_u64(2));
    let mut other = 0;
    for case in 0..3000u64 {
        let vocab = [1, 8, 100, 1023, 1024, 1025, 5000][random.below(7)];
        let row = random.row(vocab);
        let s = random.settings(vocab);
        let mut history = History::new();
        for _ in 0..random.below(20) {
            history.push_prompt(random.below(vocab) as u32);
            history.push(random.below(vocab) as u32);
        }
        let expected = distribution(&row, &s, &history);
        let uniform = Dice::new(case).uniform(31);
        let choice = Sampler::new(&s, case).choose(&row, 31, &history).expect("draws");
        let p = expected[choice.token as usize];
        assert!(p > 0.0, "case {case}: an impossible token was drawn, {s:?}");
        assert!(
            (f64::from(choice.logprob) - p.ln()).abs() < 1e-4,
            "case {case}: {choice:?} has probability {p}, {s:?}"
        );
        if choice.token != invert(&expected, uniform) {
            // Only where the number lies on the boundary within float32.
            let below: f64 = expected[..choice.token as usize].iter().sum();
            assert!(
                uniform > below - 1e-5 && uniform < below + p + 1e-5,
                "case {case}: {s:?}"
            );
            other += 1;
        }
    }
    assert!(other < 5, "{other} draws differ");
}

#[test]
fn a_row_of_the_real_vocabulary() {
    let mut random = Random(ChaCha8Rng::seed_from_u64(4));
    let row = random.row(248_320);
    for (top_k, top_p) in [(0, 1.0), (0, 0.9), (50, 0.9)] {
        let s = Sampling {
            temperature: 1.0,
            top_k,
            top_p,
            ..Sampling::default()
        };
        let expected = distribution(&row, &s, &History::new());
        let mut sampler = Sampler::new(&s, 9);
        for position in 0..20 {
            let token = sampler
                .choose(&row, position, &History::new())
                .expect("draws")
                .token as usize;
            let below: f64 = expected[..token].iter().sum();
            let uniform = Dice::new(9).uniform(position);
            assert!(uniform > below - 1e-6 && uniform < below + expected[token] + 1e-6);
        }
    }
}
