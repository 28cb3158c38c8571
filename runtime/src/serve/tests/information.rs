//! Everything around completions: keys, ids, limits, descriptions, metrics.

use super::super::metrics::METRICS;
use super::*;
use std::collections::BTreeSet;

#[test]
fn keys_guard_everything_but_health_and_metrics() {
    let server = Server::start(Options {
        keys: Keys::collect(&["secret".to_owned()], None).unwrap(),
        ..Options::default()
    });
    for path in ["/health", "/live", "/metrics", "/"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    for path in ["/v1/models", "/version", "/openapi.json"] {
        let refused = server.get(path);
        assert_eq!(
            (refused.status, refused.header("www-authenticate")),
            (401, Some("Bearer")),
            "{path}"
        );
    }
    assert_eq!(server.chat("x", &json!({})).status, 401);
    let with =
        |key: &str| client::send(server.address, "GET", "/v1/models", &[("authorization", key)], "").status;
    assert_eq!(
        (with("Bearer secret"), with("Bearer secrets"), with("secret")),
        (200, 401, 401)
    );
}

#[test]
fn request_ids_are_honoured() {
    let server = Server::start(Options::default());
    let with = |id: &str| client::send(server.address, "GET", "/health", &[("x-request-id", id)], "");
    assert_eq!(with("abc-123").header("x-request-id"), Some("abc-123"));
    let made = server.get("/health").header("x-request-id").unwrap().to_owned();
    assert_eq!(made.len(), 32);
    assert_eq!(with(&"x".repeat(129)).status, 400);
    assert_eq!(with("two words").status, 400);
}

#[test]
fn bodies_are_bounded_and_json() {
    let server = Server::start(Options {
        max_body: 1000,
        ..Options::default()
    });
    let large = server.chat(&"x".repeat(2000), &json!({}));
    assert_eq!(
        (large.status, &large.json()["error"]["code"]),
        (413, &json!("body_too_large"))
    );
    let plain = client::send(
        server.address,
        "POST",
        "/v1/completions",
        &[("content-type", "text/plain")],
        "{}",
    );
    assert_eq!(plain.status, 415);
    assert_eq!(
        client::send(server.address, "POST", "/v1/completions", &[client::JSON], "{").status,
        400
    );
    // Without a length the bytes are counted.
    let mut stream = std::net::TcpStream::connect(server.address).unwrap();
    let head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = format!("800\r\n{}\r\n0\r\n\r\n", "x".repeat(0x800));
    std::io::Write::write_all(&mut stream, (head.to_owned() + &chunk).as_bytes()).unwrap();
    let mut first = [0; 12];
    std::io::Read::read_exact(&mut stream, &mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 413");
}

#[test]
fn unknown_paths_and_models() {
    let server = Server::start(Options::default());
    assert_eq!(server.get("/v2").json()["error"]["code"], "not_found");
    let get = server.get("/v1/completions");
    assert_eq!(
        (get.status, &get.json()["error"]["code"]),
        (405, &json!("method_not_allowed"))
    );
    let other = server.chat("x", &json!({"model": "gpt"}));
    assert_eq!(
        (other.status, &other.json()["error"]["code"]),
        (404, &json!("model_not_found"))
    );
    assert_eq!(server.chat("x", &json!({"model": "tiny"})).content(), "x");
    assert_eq!(server.get("/v1/models").json()["data"][0]["id"], "tiny");
    assert_eq!(server.get("/v1/models/tiny").json()["max_model_len"], 2000);
    assert_eq!(server.get("/v1/models/other").status, 404);
    let version = server.get("/version").json();
    assert_eq!(
        (&version["method"], &version["budget"]),
        (&json!("mfd"), &json!(16))
    );
    let unknown = server.chat("x", &json!({"user": "me"}));
    assert_eq!(unknown.json()["error"]["param"], "user");
    assert_eq!(server.metric("forkcast_requests_total{outcome=\"refused\"}"), 2.0);
}

#[test]
fn cors_is_off_unless_asked_for() {
    let ask = |server: &Server| {
        let origin = [("origin", "https://app.example")];
        let reply = client::send(server.address, "GET", "/v1/models", &origin, "");
        reply.header("access-control-allow-origin").map(str::to_owned)
    };
    assert_eq!(ask(&Server::start(Options::default())), None);
    let open = Server::start(Options {
        cors: vec!["https://app.example"],
        ..Options::default()
    });
    assert_eq!(ask(&open).as_deref(), Some("https://app.example"));
    let any = Server::start(Options {
        cors: vec!["*"],
        ..Options::default()
    });
    assert_eq!(ask(&any).as_deref(), Some("*"));
}

#[test]
fn tokens_there_and_back() {
    let server = Server::start(Options::default());
    let text = "héllo 🦀 <|im_end|>";
    let tokens = server.post("/tokenize", &json!({"prompt": text})).json();
    assert_eq!(tokens["count"], tokens["tokens"].as_array().unwrap().len());
    assert_eq!(tokens["max_model_len"], 2000);
    let back = server
        .post("/detokenize", &json!({"tokens": tokens["tokens"]}))
        .json();
    assert_eq!(back["prompt"], text);
    let chat = json!({"messages": [{"role": "user", "content": "hi"}]});
    let ids = server.post("/tokenize", &chat).json()["tokens"].clone();
    let prompt = server.post("/detokenize", &json!({"tokens": ids})).json();
    assert_eq!(
        prompt["prompt"],
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\n"
    );
    assert_eq!(
        server.post("/detokenize", &json!({"tokens": [9999]})).json()["error"]["param"],
        "tokens[0]"
    );
    assert_eq!(
        server.post("/tokenize", &json!({"prompt": "a", "add": 1})).json()["error"]["param"],
        "add"
    );
}

/// Names in `/metrics`, without the suffixes of histograms.
fn shown(server: &Server) -> BTreeSet<String> {
    let text = server.get("/metrics").body;
    let types = text.lines().filter_map(|l| l.strip_prefix("# TYPE "));
    types
        .filter_map(|l| Some(l.split(' ').next()?.to_owned()))
        .collect()
}

#[test]
fn metrics_are_the_listed_ones() {
    let server = Server::start(Options::default());
    server.chat("one two three four", &json!({}));
    let listed: BTreeSet<String> = METRICS.iter().map(|m| m.name.to_owned()).collect();
    assert_eq!(shown(&server), listed);
    let drafts = server.metric("forkcast_spec_decode_num_drafts_total");
    let accepted = server.metric("forkcast_spec_decode_num_accepted_tokens_total");
    assert!(drafts > 0.0 && accepted > 0.0);
    assert_eq!(server.metric("forkcast_accepted_length_count"), drafts);
    assert_eq!(server.metric("forkcast_accepted_length_sum"), drafts + accepted);
    assert_eq!(
        server.metric("forkcast_generation_tokens_total"),
        server.metric("forkcast_inter_token_latency_seconds_count") + 1.0
    );
    assert_eq!(server.metric("forkcast_time_to_first_token_seconds_count"), 1.0);
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let server = Server::start(Options::default());
    let page = server.get("/");
    assert!(
        page.header("content-security-policy")
            .unwrap()
            .contains("default-src 'none'")
    );
    assert!(!page.body.contains("http://") && !page.body.contains("https://"));
}
