//! Requests that no well-behaved client sends: every one gets an answer or a closed connection, and the server goes on.

use super::*;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

const CHAT: &str = "/v1/chat/completions";
const HEAD: &str = "content-type: application/json\r\nhost: x\r\nconnection: close\r\n";

/// Sends bytes as they are and reads whatever comes. Hangs up on a server that waits for more.
fn raw(server: &Server, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(700))).unwrap();
    // The server may close before it has read everything.
    let _ = stream.write_all(bytes);
    let mut reply = Vec::new();
    if stream.read_to_end(&mut reply).is_err() && reply.is_empty() {
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read_to_end(&mut reply);
    }
    String::from_utf8_lossy(&reply).into_owned()
}

fn status(reply: &str) -> u16 {
    reply.get(9..12).and_then(|s| s.parse().ok()).unwrap_or(0)
}

fn post(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\n{HEAD}content-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Values that are wrong wherever a field of another type is expected.
const ODD: [&str; 12] = [
    "{}",
    "[]",
    "[[]]",
    "[null]",
    "\"\"",
    "true",
    "-1",
    "1.5",
    "1e400",
    "18446744073709551616",
    "{\"a\": [1]}",
    "\"\\u0000\"",
];

#[test]
fn wrong_types_are_named() {
    let server = Server::start(Options::default());
    let fields = [
        "messages",
        "model",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "seed",
        "stop",
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "logit_bias",
        "logprobs",
        "top_logprobs",
        "n",
        "stream",
        "stream_options",
        "chat_template_kwargs",
        "tools",
        "tool_choice",
        "response_format",
    ];
    let (mut asked, mut refused) = (0, 0);
    for field in fields {
        for odd in ODD {
            let mut fields = vec![format!("\"{field}\": {odd}"), "\"stray\": 1".to_owned()];
            if field != "messages" {
                fields.push("\"messages\": [{\"role\": \"user\", \"content\": \"say x\"}]".to_owned());
            }
            let body = format!("{{{}}}", fields.join(", "));
            let reply = raw(&server, &post(CHAT, body.as_bytes()));
            // The field itself, or `stray` where the value happens to be one that is taken.
            let named = [format!("\"param\":\"{field}"), "\"param\":\"stray\"".to_owned()];
            let odd_json = reply.contains("invalid_json") && odd == "1e400";
            let unknown_model = field == "model" && status(&reply) == 404;
            assert!(
                (status(&reply) == 400 && (named.iter().any(|n| reply.contains(n)) || odd_json))
                    || unknown_model,
                "{body}: {reply}"
            );
            asked += 1;
            refused += usize::from(reply.contains(&named[0]));
        }
    }
    assert!(refused * 2 > asked, "{refused} of {asked} named the field");
    assert_eq!(server.chat("x", &json!({})).content(), "x");
}

#[test]
fn bodies_that_are_no_requests() {
    let server = Server::start(Options::default());
    let deep = |open: &str, close: &str, n: usize| open.repeat(n) + &close.repeat(n);
    let nested = format!("{{\"messages\": {}}}", deep("[", "]", 5000));
    let tools = format!(
        "{{\"messages\": [{{\"role\": \"user\", \"content\": \"say x\"}}], \"tools\": [{{\"type\": \"function\", \"function\": {{\"name\": \"f\", \"parameters\": {}}}}}]}}",
        deep("{\"a\":", "}", 5000).replace(":}", ":1}")
    );
    let bodies: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b" ".to_vec(),
        b"null".to_vec(),
        b"[]".to_vec(),
        b"\"x\"".to_vec(),
        b"{".to_vec(),
        b"{}".to_vec(),
        b"{}{}".to_vec(),
        b"{\"messages\": [".to_vec(),
        b"{\"messages\": [], \"messages\": [{\"role\": \"user\", \"content\": \"say x\"}]}".to_vec(),
        b"{\"messages\": [{\"role\": \"user\", \"content\": \"say x\", \"content\": \"say y\"}]}".to_vec(),
        b"{\"messages\": [{\"role\": \"user\", \"content\": \"\xff\xfe\"}]}".to_vec(),
        b"{\"messages\": [{\"role\": \"user\", \"content\": \"\\ud800\"}]}".to_vec(),
        b"\xef\xbb\xbf{\"messages\": []}".to_vec(),
        b"\xff\xfe{\0}\0".to_vec(),
        b"{\"messages\": [{\"role\": \"user\"}]}".to_vec(),
        b"{\"messages\": [{\"role\": \"root\", \"content\": \"x\"}]}".to_vec(),
        b"{\"messages\": [{\"role\": \"tool\", \"content\": \"x\", \"tool_call_id\": \"y\"}]}".to_vec(),
        b"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {\"url\": \"file:///etc/passwd\"}}]}]}".to_vec(),
        b"NaN".to_vec(),
        b"{\"messages\": [{\"role\": \"user\", \"content\": \"say x\"}], \"temperature\": NaN}".to_vec(),
        nested.into_bytes(),
        tools.into_bytes(),
    ];
    for body in bodies {
        for path in [CHAT, "/v1/completions", "/tokenize", "/detokenize"] {
            let reply = raw(&server, &post(path, &body));
            assert_eq!(
                status(&reply),
                400,
                "{path} {}: {reply}",
                String::from_utf8_lossy(&body[..body.len().min(200)])
            );
            assert!(reply.contains("{\"error\":{\"message\":"), "{reply}");
        }
    }
    assert_eq!(server.chat("x", &json!({})).content(), "x");
}

#[test]
fn heads_that_are_no_requests() {
    let server = Server::start(Options::default());
    let long = "x".repeat(1 << 20);
    let cases: Vec<(String, &[u16])> = vec![
        ("\0\0\0\0\r\n\r\n".into(), &[400, 0]),
        ("GET\r\n\r\n".into(), &[400, 0]),
        ("GET / HTTP/9.9\r\n\r\n".into(), &[400, 505, 0]),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(), &[400, 505, 0]),
        (
            "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}\u{3}\u{3}".into(),
            &[400, 0],
        ),
        (
            format!("GET /{long} HTTP/1.1\r\nhost: x\r\n\r\n"),
            &[400, 414, 431, 0],
        ),
        (
            format!("GET / HTTP/1.1\r\nhost: x\r\na: {long}\r\n\r\n"),
            &[400, 431, 0],
        ),
        (
            format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(500)),
            &[400, 431, 0],
        ),
        (format!("HEAD / HTTP/1.1\r\n{HEAD}\r\n"), &[200]),
        (format!("HEAD /health HTTP/1.1\r\n{HEAD}\r\n"), &[200]),
        (format!("HEAD {CHAT} HTTP/1.1\r\n{HEAD}\r\n"), &[405]),
        (format!("OPTIONS {CHAT} HTTP/1.1\r\n{HEAD}\r\n"), &[405]),
        (format!("DELETE /v1/models/tiny HTTP/1.1\r\n{HEAD}\r\n"), &[405]),
        (format!("PUT /metrics HTTP/1.1\r\n{HEAD}\r\n"), &[405]),
        (format!("TRACE / HTTP/1.1\r\n{HEAD}\r\n"), &[405]),
        (format!("CONNECT x:80 HTTP/1.1\r\n{HEAD}\r\n"), &[400, 404, 405]),
        (format!("GET /../../etc/passwd HTTP/1.1\r\n{HEAD}\r\n"), &[404]),
        (
            format!("GET /v1/models/%2e%2e%2f%00 HTTP/1.1\r\n{HEAD}\r\n"),
            &[404],
        ),
        (format!("GET /v1/models/%ff HTTP/1.1\r\n{HEAD}\r\n"), &[400, 404]),
        (format!("GET //health HTTP/1.1\r\n{HEAD}\r\n"), &[404]),
        (format!("GET /health/ HTTP/1.1\r\n{HEAD}\r\n"), &[404]),
        (format!("GET /health?x=1 HTTP/1.1\r\n{HEAD}\r\n"), &[200]),
        (
            format!("GET http://elsewhere/health HTTP/1.1\r\n{HEAD}\r\n"),
            &[200],
        ),
        (
            format!("POST {CHAT} HTTP/1.1\r\n{HEAD}content-length: -1\r\n\r\n{{}}"),
            &[400, 0],
        ),
        (
            format!("POST {CHAT} HTTP/1.1\r\n{HEAD}content-length: 2\r\ncontent-length: 3\r\n\r\n{{}}"),
            &[400, 0],
        ),
        (
            format!("POST {CHAT} HTTP/1.1\r\n{HEAD}content-length: 99999999999999999999\r\n\r\n{{}}"),
            &[400, 413, 0],
        ),
        (
            format!("POST {CHAT} HTTP/1.1\r\n{HEAD}content-length: 5000000000\r\n\r\n{{}}"),
            &[413],
        ),
        (
            format!("POST {CHAT} HTTP/1.1\r\n{HEAD}content-length: 100\r\n\r\n{{}}"),
            &[400, 0],
        ),
        (
            format!(
                "POST {CHAT} HTTP/1.1\r\n{HEAD}transfer-encoding: chunked\r\n\r\nZZ\r\n{{}}\r\n0\r\n\r\n"
            ),
            &[400],
        ),
        (
            format!("POST {CHAT} HTTP/1.1\r\n{HEAD}transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n"),
            &[400],
        ),
        (
            format!(
                "POST {CHAT} HTTP/1.1\r\n{HEAD}transfer-encoding: chunked\r\n\r\n-1\r\n{{}}\r\n0\r\n\r\n"
            ),
            &[400],
        ),
        (
            format!("POST {CHAT} HTTP/1.1\r\n{HEAD}transfer-encoding: chunked\r\n\r\n2\r\n{{}}"),
            &[400, 0],
        ),
        (
            format!("POST {CHAT} HTTP/1.1\r\n{HEAD}transfer-encoding: gzip\r\n\r\n{{}}"),
            &[400, 501, 0],
        ),
        (
            format!(
                "POST {CHAT} HTTP/1.1\r\n{HEAD}content-encoding: gzip\r\ncontent-length: 2\r\n\r\n\x1f\x1b"
            ),
            &[400, 415],
        ),
        (format!("POST {CHAT} HTTP/1.1\r\n{HEAD}\r\n"), &[400]),
        (
            format!("GET {CHAT} HTTP/1.1\r\n{HEAD}x-request-id: a b\r\n\r\n"),
            &[400, 405],
        ),
        (
            format!(
                "GET /health HTTP/1.1\r\n{HEAD}x-request-id: {}\r\n\r\n",
                "x".repeat(200)
            ),
            &[400],
        ),
        (
            format!("GET /health HTTP/1.1\r\n{HEAD}upgrade: h2c\r\n\r\n"),
            &[200],
        ),
        (
            format!("GET /health HTTP/1.1\r\n{HEAD}expect: 100-continue\r\n\r\n"),
            &[200],
        ),
        ("GET /health HTTP/1.0\r\n\r\n".into(), &[200]),
    ];
    for (request, expected) in cases {
        let reply = raw(&server, request.as_bytes());
        let shown: String = request.chars().take(120).collect();
        assert!(expected.contains(&status(&reply)), "{shown:?}: {reply:?}");
    }
    assert_eq!(server.chat("x", &json!({})).content(), "x");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Server::start(Options::default());
    let body = |say: &str| chat_body(say, &json!({})).to_string();
    let mut bytes = Vec::new();
    for say in ["first", "second", "third"] {
        let body = body(say);
        bytes.extend(format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes());
    }
    bytes.extend(format!("GET /health HTTP/1.1\r\n{HEAD}\r\n").into_bytes());
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(&bytes).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let places: Vec<usize> = ["\"first\"", "\"second\"", "\"third\"", "{\"status\":\"ok\""]
        .iter()
        .map(|text| reply.find(text).unwrap_or_else(|| panic!("{text} in {reply}")))
        .collect();
    assert!(places.is_sorted(), "{reply}");
}

#[test]
fn clients_that_send_nothing_are_closed() {
    let server = Server::start(Options {
        head: Duration::from_millis(300),
        ..Options::default()
    });
    let begin = Instant::now();
    let mut idle: Vec<TcpStream> = (0..200)
        .map(|_| TcpStream::connect(server.address).unwrap())
        .collect();
    // Some drip a head.
    for stream in idle.iter_mut().step_by(2) {
        stream
            .write_all(b"POST /v1/chat/completions HTTP/1.1\r\nhost: ")
            .unwrap();
    }
    assert_eq!(server.chat("x", &json!({})).content(), "x");
    for mut stream in idle {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}

#[test]
fn a_body_that_never_ends_takes_no_room() {
    let server = Server::start(Options {
        timeout: Duration::from_secs(1),
        max_queue: 0,
        ..Options::default()
    });
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let head = format!("POST {CHAT} HTTP/1.1\r\n{HEAD}content-length: 1000\r\n\r\n{{");
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(server.chat("x", &json!({})).content(), "x");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert_eq!(status(&reply), 504, "{reply}");
}
