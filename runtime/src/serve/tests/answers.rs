//! Answers at once and in pieces: text, ids, usage, log-probabilities and finish reasons agree.

use super::client::text;
use super::*;

const METHODS: [Method; 4] = [Method::Plain, Method::Chain, Method::Ddtree, Method::Mfd];

fn server(method: Method) -> Server {
    Server::start(Options {
        method,
        ..Options::default()
    })
}

/// Checks what must hold for every answer and gives its content.
fn check(server: &Server, say: &str, more: &Value) -> (String, String, usize) {
    let whole = server.chat(say, more);
    assert_eq!(whole.status, 200, "{}", whole.body);
    let json = whole.json();
    let choice = &json["choices"][0];
    let tokens = json["usage"]["completion_tokens"].as_u64().unwrap() as usize;
    assert_eq!(
        choice["logprobs"]["content"].as_array().unwrap().len(),
        tokens,
        "{json}"
    );
    assert_eq!(json["object"], "chat.completion");

    let mut streamed = chat_body(say, more);
    streamed["stream"] = json!(true);
    streamed["stream_options"] = json!({"include_usage": true});
    let chunks = server.stream("/v1/chat/completions", &streamed).chunks();
    assert_eq!(text(&chunks, "content"), whole.content(), "{say}");
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let (usage, rest) = chunks.split_last().unwrap();
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(usage["usage"]["completion_tokens"], tokens);
    let finish = &rest.last().unwrap()["choices"][0]["finish_reason"];
    assert_eq!(finish, &choice["finish_reason"]);
    let open = |c: &Value| c["choices"][0]["finish_reason"].is_null() && c["usage"].is_null();
    assert!(rest[..rest.len() - 1].iter().all(open));
    let logprobs: Vec<&Value> = rest
        .iter()
        .filter_map(|c| c["choices"][0]["logprobs"]["content"].as_array())
        .flatten()
        .collect();
    assert_eq!(
        logprobs,
        choice["logprobs"]["content"]
            .as_array()
            .unwrap()
            .iter()
            .collect::<Vec<_>>()
    );
    for field in ["id", "created", "model", "object"] {
        assert!(chunks.iter().all(|c| c[field] == chunks[0][field]), "{field}");
    }
    (whole.content(), finish.as_str().unwrap().to_owned(), tokens)
}

#[test]
fn ends_inside_of_accepted_blocks_agree_for_every_method() {
    let long = "one two three four five six seven eight nine ten eleven twelve";
    let mut seen = Vec::new();
    for method in METHODS {
        let server = server(method);
        let mut results = Vec::new();
        for limit in 1..12 {
            results.push(check(
                &server,
                long,
                &json!({"logprobs": true, "max_tokens": limit}),
            ));
            assert_eq!(results.last().unwrap().2, limit);
            assert_eq!(results.last().unwrap().1, "length");
        }
        for (stop, expected) in [
            (json!("four five"), "one two three "),
            (json!(["eight", "ve si", "zz"]), "one two three four fi"),
            (json!(["ou", "four"]), "one two three f"),
            (json!("on"), ""),
            (json!("never"), long),
        ] {
            let result = check(&server, long, &json!({"logprobs": true, "stop": stop}));
            assert_eq!(
                (result.0.as_str(), result.1.as_str()),
                (expected, "stop"),
                "{stop}"
            );
            results.push(result);
        }
        for length in 1..20 {
            let say = &long[..length];
            let result = check(
                &server,
                say.trim_end(),
                &json!({"logprobs": true, "top_logprobs": 2}),
            );
            assert_eq!((result.0.as_str(), result.1.as_str()), (say.trim_end(), "stop"));
            results.push(result);
        }
        let made = server.chat(long, &json!({})).json()["forkcast"].clone();
        assert_eq!(made["method"], method.name());
        assert_eq!(
            made["tau"].as_f64().unwrap() > 1.5,
            method != Method::Plain,
            "{made}"
        );
        seen.push(results);
    }
    assert!(seen.iter().all(|s| *s == seen[0]), "methods agree");
}

#[test]
fn characters_over_several_tokens_stay_whole() {
    let server = server(Method::Mfd);
    for say in [
        "a 🦀 b",
        "𠜎𠜱",
        "é",
        "ends in 🦀",
        "🦀",
        "x¶y",
        "¶",
        "¶¶🦀¶",
        "🦀¶end",
    ] {
        let expected = say.replace('¶', "\u{fffd}");
        for more in [
            json!({"logprobs": true}),
            json!({"logprobs": true, "temperature": 0.7, "seed": 5}),
        ] {
            assert_eq!(check(&server, say, &more).0, expected);
        }
    }
    // A stop inside of a character's bytes cannot match; one character as a stop does.
    assert_eq!(
        check(&server, "a 🦀 b", &json!({"logprobs": true, "stop": "🦀"})).0,
        "a "
    );
    // Cut in the middle of a character: what is there is shown as broken, nothing is lost.
    let cut = check(&server, "🦀", &json!({"logprobs": true, "max_tokens": 1}));
    assert_eq!((cut.0.as_str(), cut.1.as_str()), ("\u{fffd}", "length"));
}

#[test]
fn reasoning_has_its_own_field() {
    let server = server(Method::Mfd);
    let say = "why not\n</think>\n\nbecause";
    let body = json!({"chat_template_kwargs": null});
    let whole = server.chat(say, &body).json();
    let message = &whole["choices"][0]["message"];
    assert_eq!(message["reasoning_content"], "why not");
    assert_eq!(message["content"], "because");
    let reasoning = whole["usage"]["completion_tokens_details"]["reasoning_tokens"]
        .as_u64()
        .unwrap();
    assert!(reasoning > 0 && reasoning < whole["usage"]["completion_tokens"].as_u64().unwrap());
    let mut streamed = chat_body(say, &body);
    streamed["stream"] = json!(true);
    let chunks = server.stream("/v1/chat/completions", &streamed).chunks();
    assert_eq!(text(&chunks, "reasoning_content"), "why not");
    assert_eq!(text(&chunks, "content"), "because");
    // Stop strings and limits act on reasoning as well.
    let cut = server
        .chat(say, &json!({"chat_template_kwargs": null, "stop": "not"}))
        .json();
    assert_eq!(cut["choices"][0]["message"]["reasoning_content"], "why ");
    assert_eq!(cut["choices"][0]["finish_reason"], "stop");
    let cut = server
        .chat(say, &json!({"chat_template_kwargs": null, "max_tokens": 1}))
        .json();
    assert_eq!(cut["choices"][0]["finish_reason"], "length");
    assert_eq!(cut["choices"][0]["message"]["content"], "");
}

#[test]
fn tools_are_called() {
    let server = Server::start(Options {
        template: Some(TOOL_TEMPLATE),
        ..Options::default()
    });
    let tools = json!([{"type": "function", "function": {"name": "add", "parameters": {"type": "object",
        "properties": {"a": {"type": "integer"}, "note": {"type": "string"}}}}}]);
    let more = json!({"tools": tools, "chat_template_kwargs": null});
    for say in [
        "Sure. <tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"note\": \"2\"}}\n</tool_call>",
        "Sure. <tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=note>\n2\n</parameter>\n\
            </function>\n</tool_call>",
    ] {
        let whole = server.chat(say, &more).json();
        let choice = &whole["choices"][0];
        assert_eq!(choice["finish_reason"], "tool_calls", "{whole}");
        assert_eq!(choice["message"]["content"], "Sure.");
        let call = &choice["message"]["tool_calls"][0];
        let expected = json!({"name": "add", "arguments": "{\"a\":1,\"note\":\"2\"}"});
        assert_eq!(call["function"], expected);
        let mut streamed = chat_body(say, &more);
        streamed["stream"] = json!(true);
        let chunks = server.stream("/v1/chat/completions", &streamed).chunks();
        assert_eq!(text(&chunks, "content"), "Sure.");
        let calls: Vec<&Value> = chunks
            .iter()
            .filter_map(|c| c["choices"][0]["delta"]["tool_calls"].get(0))
            .collect();
        assert_eq!(calls.len(), 1);
        assert_eq!(
            (&calls[0]["function"], &calls[0]["index"]),
            (&expected, &json!(0))
        );

        // The call and its result go back into the conversation.
        let history = json!([
            {"role": "user", "content": "say x"}, choice["message"],
            {"role": "tool", "tool_call_id": call["id"], "content": "3"}, {"role": "user", "content": "say so"}]);
        let next = server.chat(
            "",
            &json!({"messages": history, "tools": tools, "chat_template_kwargs": null}),
        );
        assert_eq!(next.content(), "so");
    }
    assert_eq!(
        server.metric("forkcast_requests_total{outcome=\"tool_calls\"}"),
        4.0
    );
}

#[test]
fn what_the_template_would_drop_is_refused() {
    let server = server(Method::Mfd);
    let tools = json!([{"type": "function", "function": {"name": "add"}}]);
    let refused = server.chat("x", &json!({"tools": tools}));
    assert_eq!(
        (refused.status, &refused.json()["error"]["param"]),
        (400, &json!("tools"))
    );
    assert_eq!(
        server
            .chat("x", &json!({"tools": tools, "tool_choice": "none"}))
            .content(),
        "x"
    );
    let call = json!([{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    let messages = json!([{"role": "assistant", "content": null, "tool_calls": call}, {"role": "user", "content": "say x"}]);
    let refused = server.chat("x", &json!({"messages": messages}));
    assert_eq!(refused.json()["error"]["param"], "messages[0].tool_calls");
    let plain = Server::start(Options {
        template: Some(
            "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n",
        ),
        ..Options::default()
    });
    let refused = plain.chat("x", &json!({}));
    assert_eq!(
        refused.json()["error"]["param"],
        "chat_template_kwargs.enable_thinking"
    );
}

#[test]
fn continued_texts() {
    let server = server(Method::Mfd);
    let body = json!({"prompt": "say a 🦀 and more|", "max_tokens": 50, "temperature": 0, "logprobs": 2});
    let whole = server.post("/v1/completions", &body).json();
    let choice = &whole["choices"][0];
    assert_eq!(
        (&choice["text"], &choice["finish_reason"]),
        (&json!("a 🦀 and more"), &json!("stop")),
        "{whole}"
    );
    let tokens = whole["usage"]["completion_tokens"].as_u64().unwrap() as usize;
    for field in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(
            choice["logprobs"][field].as_array().unwrap().len(),
            tokens,
            "{field}"
        );
    }
    let mut streamed = body.clone();
    streamed["stream"] = json!(true);
    let chunks = server.stream("/v1/completions", &streamed).chunks();
    assert_eq!(text(&chunks, "text"), "a 🦀 and more");
    let offsets = chunks
        .iter()
        .filter_map(|c| c["choices"][0]["logprobs"]["text_offset"].as_array())
        .flatten();
    let whole_offsets = choice["logprobs"]["text_offset"].as_array().unwrap();
    assert_eq!(
        offsets.collect::<Vec<_>>(),
        whole_offsets.iter().collect::<Vec<_>>()
    );
    let default = server
        .post(
            "/v1/completions",
            &json!({"prompt": format!("say {}|", "word ".repeat(40))}),
        )
        .json();
    assert_eq!(
        (
            &default["usage"]["completion_tokens"],
            &default["choices"][0]["finish_reason"]
        ),
        (&json!(16), &json!("length"))
    );
    let ids = server.post("/tokenize", &json!({"prompt": "say ids|"})).json()["tokens"].clone();
    let by_ids = server
        .post("/v1/completions", &json!({"prompt": ids, "temperature": 0}))
        .json();
    assert_eq!(by_ids["choices"][0]["text"], "ids");
}

#[test]
fn prompts_that_do_not_fit_are_refused_with_both_numbers() {
    let server = Server::start(Options {
        script: Script {
            context: 100,
            ..Script::default()
        },
        ..Options::default()
    });
    let refused = server.chat(&"word ".repeat(200), &json!({}));
    assert_eq!(refused.status, 400);
    let error = refused.json()["error"].clone();
    assert_eq!(
        (&error["code"], &error["param"]),
        (&json!("context_length_exceeded"), &json!("messages"))
    );
    let count = server
        .post(
            "/tokenize",
            &chat_body(&"word ".repeat(200), &json!({"temperature": null})),
        )
        .json();
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains(&count["count"].to_string()) && message.contains("100"),
        "{message}"
    );
    let cut = server.chat(&"go ".repeat(46), &json!({})).json();
    assert_eq!(cut["choices"][0]["finish_reason"], "length");
    assert_eq!(cut["usage"]["total_tokens"], 100);
    for (prompt, param) in [
        (json!([5000]), "prompt[0]"),
        (json!(""), "prompt"),
        (json!([]), "prompt"),
    ] {
        let refused = server.post("/v1/completions", &json!({"prompt": prompt}));
        assert_eq!(
            (refused.status, &refused.json()["error"]["param"]),
            (400, &json!(param))
        );
    }
    let bias = server.chat("x", &json!({"logit_bias": {"2048": 1}}));
    assert_eq!(bias.json()["error"]["param"], "logit_bias.2048");
}

#[test]
fn sampling_is_honoured_and_defaults_come_from_the_model() {
    let server = server(Method::Mfd);
    let seeded = json!({"temperature": 1.5, "top_k": 0, "seed": 7});
    let first = server.chat("abc", &seeded).json();
    assert_eq!(first["forkcast"]["seed"], 7);
    assert_eq!(first["choices"], server.chat("abc", &seeded).json()["choices"]);
    // A bias that outweighs the mock changes the text.
    let a = server.post("/tokenize", &json!({"prompt": "A"})).json()["tokens"][0].to_string();
    let biased = server.chat("abc", &json!({"logit_bias": {a: 100}, "max_tokens": 3}));
    assert_eq!(biased.content(), "AAA");
    let defaults = read_defaults(Some(&checkpoint().join("generation_config.json"))).unwrap();
    assert_eq!(
        (defaults.temperature, defaults.top_k, defaults.top_p),
        (0.7, 20, 0.8)
    );
    assert_eq!(read_defaults(None).unwrap().temperature, 1.0);
}
