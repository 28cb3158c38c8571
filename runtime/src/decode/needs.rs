//! What the draws of an answer read of a row of logits.

use super::Request;
use forkcast_engines::backend::LogitNeeds;

/// Most candidates that engines bring without the whole row.
const TOP: usize = 64;

/// Penalties and biases may lift any token, and log-probabilities are those of the whole row.
pub(super) fn needs(request: &Request) -> LogitNeeds {
    let s = &request.sampling;
    let penalised = s.repetition_penalty != 1.0 || s.presence_penalty != 0.0 || s.frequency_penalty != 0.0;
    if penalised || !s.logit_bias.is_empty() || request.logprobs.is_some() {
        LogitNeeds::Full
    } else if s.temperature == 0.0 {
        LogitNeeds::Greedy
    } else if (1..=TOP).contains(&s.top_k) {
        LogitNeeds::Top(s.top_k)
    } else {
        LogitNeeds::Full
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Method;
    use crate::sample::Sampling;

    fn of(change: impl Fn(&mut Request)) -> LogitNeeds {
        let mut request = Request {
            method: Method::Plain,
            budget: 0,
            mode: 0,
            max_tokens: 1,
            sampling: Sampling::default(),
            seed: 0,
            stop_ids: Vec::new(),
            logprobs: None,
        };
        change(&mut request);
        needs(&request)
    }

    #[test]
    fn the_least_that_serves_every_draw() {
        assert_eq!(of(|_| ()), LogitNeeds::Greedy);
        assert_eq!(of(|r| r.logprobs = Some(0)), LogitNeeds::Full);
        assert_eq!(of(|r| r.sampling.presence_penalty = 0.5), LogitNeeds::Full);
        assert_eq!(of(|r| r.sampling.repetition_penalty = 1.1), LogitNeeds::Full);
        assert_eq!(of(|r| r.sampling.logit_bias = vec![(1, 2.0)]), LogitNeeds::Full);
        for (top_k, expected) in [
            (0, LogitNeeds::Full),
            (20, LogitNeeds::Top(20)),
            (64, LogitNeeds::Top(64)),
            (65, LogitNeeds::Full),
        ] {
            let found = of(|r| (r.sampling.temperature, r.sampling.top_k) = (0.7, top_k));
            assert_eq!(found, expected, "top-k {top_k}");
        }
    }
}
