//! What is kept between requests, and that it changes nothing but the time.

use super::*;
use std::sync::atomic::Ordering;

fn cached(reply: &Reply) -> u64 {
    reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
        .as_u64()
        .unwrap()
}

fn turns(first: &str, answer: &str, second: &str) -> Value {
    json!({"messages": [
        {"role": "user", "content": format!("say {first}")}, {"role": "assistant", "content": answer},
        {"role": "user", "content": format!("say {second}")}]})
}

#[test]
fn a_second_turn_computes_only_what_is_new() {
    for stateless in [false, true] {
        let script = Script {
            stateless,
            ..Script::default()
        };
        let mut costs = Vec::new();
        for words in [10, 100, 1000] {
            let warm = Server::start(Options {
                script: script.clone(),
                ..Options::default()
            });
            let cold = Server::start(Options {
                script: script.clone(),
                cache_bytes: 0,
                ..Options::default()
            });
            let padding = format!("{}{}", "w ".repeat(words), "hello");
            let first = warm.chat(&padding, &json!({"max_tokens": 4}));
            assert_eq!(cached(&first), 0);
            let answer = first.content();
            let second = turns(&padding, &answer, "bye now");
            let before = warm.probe.rows.load(Ordering::SeqCst);
            let again = warm.chat("", &second);
            costs.push(warm.probe.rows.load(Ordering::SeqCst) - before);
            assert_eq!(again.content(), "bye now");
            assert!(cached(&again) as usize > words, "{}", cached(&again));
            let expected = cold.chat("", &second);
            assert_eq!(cached(&expected), 0);
            assert_eq!(expected.json()["choices"], again.json()["choices"]);
        }
        assert!(
            costs.iter().all(|c| c.abs_diff(costs[0]) <= 16),
            "rows of second turns: {costs:?}"
        );
    }
}

#[test]
fn every_shared_length_gives_the_cold_text() {
    let warm = Server::start(Options::default());
    let prompt = warm
        .post(
            "/tokenize",
            &json!({"prompt": "say alpha beta gamma delta epsilon|"}),
        )
        .json();
    let ids: Vec<u64> = serde_json::from_value(prompt["tokens"].clone()).unwrap();
    for shared in 0..ids.len() {
        let body = json!({"prompt": ids, "temperature": 0, "max_tokens": 12});
        let first = warm.post("/v1/completions", &body).json();
        let mut other = ids[..shared].to_vec();
        other.extend(&ids[ids.len() - 2..]);
        let cold = Server::start(Options {
            cache_bytes: 0,
            ..Options::default()
        });
        let other = json!({"prompt": other, "temperature": 0, "max_tokens": 12});
        let expected = cold.post("/v1/completions", &other).json();
        assert_eq!(
            warm.post("/v1/completions", &other).json()["choices"],
            expected["choices"],
            "{shared}"
        );
        assert_eq!(
            warm.post("/v1/completions", &body).json()["choices"],
            first["choices"]
        );
    }
}

#[test]
fn the_same_request_again_computes_almost_nothing() {
    let server = Server::start(Options::default());
    let say = "long ".repeat(100) + "x";
    let first = server.chat(&say, &json!({"max_tokens": 5}));
    let again = server.chat(&say, &json!({"max_tokens": 5}));
    assert_eq!(first.content(), again.content());
    let prompt = again.json()["usage"]["prompt_tokens"].as_u64().unwrap();
    assert!(cached(&again) + 12 > prompt, "{} of {prompt}", cached(&again));
    assert!(server.metric("forkcast_prefix_snapshot_bytes") > 0.0);
    assert_eq!(
        server.metric("forkcast_cached_prompt_tokens_total") as u64,
        cached(&again)
    );
}

#[test]
fn a_shared_system_text_is_kept() {
    let server = Server::start(Options::default());
    let system = json!({"role": "system", "content": "be terse ".repeat(60)});
    let ask = |say: &str| json!({"messages": [system, {"role": "user", "content": format!("say {say}")}]});
    assert_eq!(cached(&server.chat("", &ask("one"))), 0);
    let other = server.chat("", &ask("two"));
    assert_eq!(other.content(), "two");
    assert!(cached(&other) > 60, "{}", cached(&other));
}

#[test]
fn kept_states_are_bounded() {
    // A snapshot of the mock has four bytes a token: room for one of about 100 tokens.
    let server = Server::start(Options {
        cache_bytes: 500,
        ..Options::default()
    });
    for words in [10, 50, 80, 300, 20] {
        let say = "w ".repeat(words) + "end";
        assert_eq!(server.chat(&say, &json!({})).content(), say);
        assert!(server.metric("forkcast_prefix_snapshot_bytes") <= 500.0);
    }
}
