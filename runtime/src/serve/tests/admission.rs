//! One stream, a bounded queue, and clients that go away.

use super::*;
use std::sync::atomic::Ordering;
use std::time::Instant;

fn slow(max_queue: usize) -> Server {
    Server::start(Options {
        max_queue,
        script: Script {
            pass: Duration::from_millis(10),
            ..Script::default()
        },
        ..Options::default()
    })
}

#[test]
fn beyond_the_queue_comes_429() {
    let server = slow(1);
    let long = chat_body(&"word ".repeat(400), &json!({"stream": true}));
    let mut running = server.stream("/v1/chat/completions", &long);
    running.next().unwrap();
    let address = server.address;
    let waiting = std::thread::spawn(move || {
        let body = chat_body("waited", &json!({})).to_string();
        client::send(address, "POST", "/v1/chat/completions", &[client::JSON], &body)
    });
    while server.metric("forkcast_requests_waiting") < 1.0 {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(server.metric("forkcast_requests_running"), 1.0);
    let refused = server.chat("x", &json!({}));
    assert_eq!(
        (refused.status, &refused.json()["error"]["type"]),
        (429, &json!("rate_limit_error"))
    );
    assert_eq!(refused.header("x-error-code"), Some("queue_full"));
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds));
    drop(running);
    assert_eq!(waiting.join().unwrap().content(), "waited");
    assert_eq!(
        server.metric("forkcast_requests_total{outcome=\"rejected\"}"),
        1.0
    );
}

#[test]
fn many_clients_never_see_each_others_text() {
    let server = slow(3);
    let address = server.address;
    let client = |name: usize| {
        let (mut answered, mut busy) = (0, 0);
        for i in 0..12 {
            let say = format!("marker {name} number {i} of client {name}");
            let stream = i % 2 == 0;
            let mut body = chat_body(&say, &json!({"stream": stream}));
            if i % 3 == 0 {
                body["messages"] =
                    json!([{"role": "system", "content": "shared text before all"}, body["messages"][0]]);
            }
            let reply = client::send(
                address,
                "POST",
                "/v1/chat/completions",
                &[client::JSON],
                &body.to_string(),
            );
            match reply.status {
                200 if stream => {
                    let data = reply.body.lines().filter_map(|l| l.strip_prefix("data: "));
                    let chunks: Vec<Value> = data.filter_map(|d| serde_json::from_str(d).ok()).collect();
                    assert_eq!(client::text(&chunks, "content"), say);
                    answered += 1;
                }
                200 => {
                    assert_eq!(reply.content(), say);
                    answered += 1;
                }
                429 => busy += 1,
                other => panic!("{other}: {}", reply.body),
            }
        }
        (answered, busy)
    };
    let counts: Vec<(usize, usize)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || client(n))).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let answered: usize = counts.iter().map(|c| c.0).sum();
    let busy: usize = counts.iter().map(|c| c.1).sum();
    assert!(answered > 0 && answered + busy == 96);
    assert_eq!(
        server.metric("forkcast_requests_total{outcome=\"stop\"}") as usize,
        answered
    );
    assert_eq!(
        server.metric("forkcast_requests_total{outcome=\"rejected\"}") as usize,
        busy
    );
}

#[test]
fn disconnects_free_the_stream_within_a_round() {
    let server = slow(0);
    let long = chat_body(&"word ".repeat(400), &json!({"stream": true}));
    for _ in 0..100 {
        let mut stream = server.stream("/v1/chat/completions", &long);
        while stream.status == 429 {
            std::thread::sleep(Duration::from_millis(1));
            stream = server.stream("/v1/chat/completions", &long);
        }
        stream.next().unwrap();
        stream.next().unwrap();
        drop(stream);
    }
    let gone = Instant::now();
    let before = server.probe.passes.load(Ordering::SeqCst);
    while server.metric("forkcast_requests_running") > 0.0 {
        assert!(gone.elapsed() < Duration::from_millis(500), "still running");
    }
    // The round that ran when the client hung up, and the one in which that was noticed.
    let passes = server.probe.passes.load(Ordering::SeqCst) - before;
    assert!(passes <= 4, "{passes} passes after the disconnect");
    assert_eq!(
        server.metric("forkcast_requests_total{outcome=\"cancelled\"}"),
        100.0
    );
    assert_eq!(server.chat("free", &json!({})).content(), "free");
}

#[test]
fn queued_clients_that_hang_up_make_room() {
    let server = slow(1);
    let long = chat_body(&"word ".repeat(400), &json!({"stream": true}));
    let mut running = server.stream("/v1/chat/completions", &long);
    running.next().unwrap();
    for _ in 0..5 {
        let body = chat_body("never read", &json!({})).to_string();
        let mut stream = std::net::TcpStream::connect(server.address).unwrap();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        std::io::Write::write_all(&mut stream, (head + &body).as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        drop(stream);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(
        server.metric("forkcast_requests_total{outcome=\"rejected\"}"),
        0.0
    );
    drop(running);
    assert_eq!(server.chat("room", &json!({})).content(), "room");
}
