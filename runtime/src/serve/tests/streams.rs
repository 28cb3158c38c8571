//! What streams do while nothing comes, and when something goes wrong.

use super::*;
use std::sync::atomic::Ordering;

#[test]
fn rounds_and_trees_on_request() {
    let server = Server::start(Options::default());
    let mut body = chat_body("one two three four five six", &json!({"stream": true}));
    body["stream_options"] = json!({"include_rounds": true});
    let chunks = server.stream("/v1/chat/completions", &body).chunks();
    let rounds: Vec<&Value> = chunks
        .iter()
        .map(|c| &c["round"])
        .filter(|r| !r.is_null())
        .collect();
    assert_eq!(rounds[0]["number"], 0);
    let last = rounds.last().unwrap()["number"].as_u64().unwrap();
    let trees: Vec<&Value> = rounds
        .iter()
        .map(|r| &r["tree"])
        .filter(|t| !t.is_null())
        .collect();
    assert_eq!(trees.len() as u64, last, "one tree a round");
    for tree in trees {
        let n = tree["tokens"].as_array().unwrap().len();
        assert!(n > 1 && tree["parents"].as_array().unwrap().len() == n && tree["path"][0] == 0);
    }
    assert!(rounds.iter().enumerate().all(|(i, r)| r["token"] == i));
    let made = &chunks.last().unwrap()["forkcast"];
    assert_eq!(made["rounds"], last);
}

#[test]
fn comments_keep_a_waiting_stream_open() {
    let server = Server::start(Options {
        keep_alive: Duration::from_millis(50),
        script: Script {
            pass: Duration::from_millis(400),
            ..Script::default()
        },
        ..Options::default()
    });
    let mut stream = server.stream("/v1/chat/completions", &chat_body("hi", &json!({"stream": true})));
    let mut comments = 0;
    while let Some(event) = stream.raw() {
        comments += usize::from(event.starts_with(':'));
    }
    assert!(comments >= 3, "{comments}");
}

#[test]
fn failures_before_the_first_token_have_a_status() {
    let server = Server::start(Options::default());
    server.probe.fail.store(true, Ordering::SeqCst);
    let mut failed = server.stream("/v1/chat/completions", &chat_body("x", &json!({"stream": true})));
    assert_eq!(failed.status, 500);
    assert!(failed.rest().contains("engine_failed"));
    // The engine recovers.
    assert_eq!(server.chat("fine", &json!({})).content(), "fine");
    assert_eq!(server.metric("forkcast_requests_total{outcome=\"failed\"}"), 1.0);
}

#[test]
fn failures_after_it_are_the_last_event() {
    let server = Server::start(Options {
        script: Script {
            pass: Duration::from_millis(20),
            ..Script::default()
        },
        ..Options::default()
    });
    let long = "word ".repeat(200);
    let mut stream = server.stream(
        "/v1/chat/completions",
        &chat_body(&long, &json!({"stream": true})),
    );
    assert_eq!(stream.status, 200);
    stream.next().unwrap();
    stream.next().unwrap();
    server.probe.fail.store(true, Ordering::SeqCst);
    let mut last = String::new();
    while let Some(data) = stream.next() {
        last = data;
    }
    let error: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(error["error"]["type"], "server_error", "{error}");
    assert_eq!(server.chat("fine", &json!({})).content(), "fine");
}

#[test]
fn a_deadline_ends_an_answer() {
    let server = Server::start(Options {
        timeout: Duration::from_millis(300),
        script: Script {
            pass: Duration::from_millis(30),
            ..Script::default()
        },
        ..Options::default()
    });
    let late = server.chat(&"word ".repeat(300), &json!({}));
    assert_eq!(
        (late.status, &late.json()["error"]["code"]),
        (504, &json!("deadline_exceeded"))
    );
    assert_eq!(server.chat("in time", &json!({})).content(), "in time");
    assert_eq!(server.metric("forkcast_requests_total{outcome=\"timeout\"}"), 1.0);
}

#[test]
fn a_panic_ends_the_server_with_an_error() {
    let server = Server::start(Options::default());
    server.probe.panic.store(true, Ordering::SeqCst);
    let lost = server.chat("x", &json!({}));
    assert_eq!(
        (lost.status, &lost.json()["error"]["code"]),
        (503, &json!("engine_gone"))
    );
    while !server.thread.as_ref().unwrap().is_finished() {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(matches!(server.finish(), Err(ServeError::WorkerLost)));
}
