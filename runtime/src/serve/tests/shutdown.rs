//! Loading, draining, cutting.

use super::*;
use std::time::Instant;

#[test]
fn not_ready_while_loading() {
    let (open, gate) = std::sync::mpsc::channel();
    let server = Server::start_loading(Options {
        gate: Some(gate),
        ..Options::default()
    });
    let health = server.get("/health");
    assert_eq!(
        (health.status, &health.json()["error"]["code"]),
        (503, &json!("loading"))
    );
    assert_eq!(server.get("/live").status, 200);
    assert_eq!(server.metric("forkcast_ready"), 0.0);
    let early = server.chat("x", &json!({}));
    assert_eq!(early.status, 503);
    assert!(early.header("retry-after").is_some());
    assert_eq!(server.get("/version").json()["method"], Value::Null);
    open.send(()).unwrap();
    server.wait_until_ready();
    assert_eq!(server.metric("forkcast_ready"), 1.0);
    assert_eq!(server.chat("x", &json!({})).content(), "x");
}

#[test]
fn draining_loses_nothing_that_was_accepted() {
    let mut server = Server::start(Options {
        max_queue: 8,
        script: Script {
            pass: Duration::from_millis(10),
            ..Script::default()
        },
        ..Options::default()
    });
    let address = server.address;
    let send = move |i: usize| {
        let body = chat_body(
            &format!("{}{i}", "word ".repeat(30)),
            &json!({"stream": i.is_multiple_of(2)}),
        )
        .to_string();
        client::send(address, "POST", "/v1/chat/completions", &[client::JSON], &body)
    };
    let clients: Vec<_> = (0..6).map(|i| std::thread::spawn(move || send(i))).collect();
    while server.metric("forkcast_requests_waiting") < 5.0 {
        std::thread::sleep(Duration::from_millis(2));
    }
    server.drain();
    // Health says so while the accepted ones are still answered.
    let begin = Instant::now();
    let health = loop {
        let health = server.get("/health");
        if health.status != 200 {
            break health;
        }
        assert!(begin.elapsed() < Duration::from_secs(2));
    };
    assert_eq!(health.json()["error"]["code"], "draining");
    assert_eq!(health.header("connection"), Some("close"));
    assert_eq!(send(9).status, 503);
    for (i, client) in clients.into_iter().enumerate() {
        let reply = client.join().unwrap();
        assert_eq!(reply.status, 200, "{}", reply.body);
        assert!(reply.body.contains(&i.to_string()));
        assert!(i % 2 == 1 || reply.body.ends_with("data: [DONE]\n\n"));
    }
    assert!(server.finish().is_ok());
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn what_does_not_end_in_time_is_cut() {
    let mut server = Server::start(Options {
        drain: Duration::from_millis(200),
        script: Script {
            pass: Duration::from_millis(20),
            ..Script::default()
        },
        ..Options::default()
    });
    let long = "word ".repeat(600);
    let mut stream = server.stream(
        "/v1/chat/completions",
        &chat_body(&long, &json!({"stream": true})),
    );
    stream.next().unwrap();
    server.drain();
    let begin = Instant::now();
    let mut last = String::new();
    while let Some(data) = stream.next() {
        last = data;
    }
    let error: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(error["error"]["code"], "draining");
    assert!(server.finish().is_ok());
    assert!(begin.elapsed() < Duration::from_secs(3));
}

#[test]
fn a_server_that_still_loads_can_be_stopped() {
    let (open, gate) = std::sync::mpsc::channel();
    let mut server = Server::start_loading(Options {
        gate: Some(gate),
        ..Options::default()
    });
    server.drain();
    let address = server.address;
    let begin = Instant::now();
    while std::net::TcpStream::connect(address).is_ok() {
        assert!(begin.elapsed() < Duration::from_secs(2));
    }
    drop(open);
    assert!(server.finish().is_ok());
}

#[test]
fn an_idle_server_lingers_so_that_balancers_see_it_go() {
    let mut server = Server::start(Options {
        linger: Duration::from_millis(400),
        ..Options::default()
    });
    server.drain();
    let begin = Instant::now();
    let mut refused = 0;
    while begin.elapsed() < Duration::from_millis(300) {
        let reply = server.chat("x", &json!({}));
        assert!(reply.status == 503 || refused == 0, "{}", reply.body);
        refused += usize::from(reply.status == 503);
    }
    assert!(refused > 0);
    let address = server.address;
    assert!(server.finish().is_ok());
    assert!(begin.elapsed() < Duration::from_secs(3));
    assert!(std::net::TcpStream::connect(address).is_err());
}
