//! Every field and every refusal of the request bodies.

use super::*;
use serde_json::{Value, json};

fn chat(extra: &Value) -> Result<ChatRequest, ApiError> {
    let mut body = json!({"messages": [{"role": "user", "content": "hi"}]});
    for (name, value) in extra.as_object().unwrap() {
        body[name] = value.clone();
    }
    ChatRequest::parse(body.to_string().as_bytes())
}

fn refused(extra: &Value) -> String {
    match chat(extra) {
        Ok(_) => panic!("{extra} was taken"),
        Err(e) => {
            assert_eq!(e.status.as_u16(), 400, "{extra}");
            let param = e.detail.param.clone().expect("a field is named");
            assert!(e.detail.message.contains(&param), "{}", e.detail.message);
            param
        }
    }
}

#[test]
fn every_field_is_honoured() {
    let request = chat(&json!({
        "model": "m", "temperature": 0.5, "top_p": 0.9, "top_k": 20, "min_p": 0.1, "seed": -1,
        "repetition_penalty": 1.1, "presence_penalty": 0.2, "frequency_penalty": -0.3, "logit_bias": {"5": -100},
        "stop": ["a", "b"], "stream": true, "stream_options": {"include_usage": true, "include_rounds": true},
        "n": 1, "max_completion_tokens": 7, "max_tokens": 7, "logprobs": true, "top_logprobs": 3,
        "chat_template_kwargs": {"enable_thinking": false}, "response_format": {"type": "text"},
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"x": {}}}}}],
        "tool_choice": "auto"
    }))
    .unwrap();
    assert_eq!(request.common.sampling.seed, Some(u64::MAX));
    assert_eq!(request.common.sampling.logit_bias, [(5, -100.0)]);
    assert_eq!(request.common.stop, ["a", "b"]);
    assert!(request.common.streaming.usage && request.common.streaming.rounds);
    assert_eq!((request.max_tokens, request.logprobs), (Some(7), Some(3)));
    assert_eq!(request.thinking, Some(false));
    assert_eq!(request.tools[0].name, "f");
    assert!(chat(&json!({"tools": [], "tool_choice": "none", "stop": null, "logprobs": false})).is_ok());
}

#[test]
fn unknown_fields_are_named() {
    for field in [
        "user",
        "functions",
        "best_of",
        "store",
        "temprature",
        "echo",
        "audio",
    ] {
        assert_eq!(refused(&json!({field: null})), field);
    }
    assert_eq!(
        refused(&json!({"stream": true, "stream_options": {"usage": true}})),
        "stream_options.usage"
    );
    assert_eq!(
        refused(&json!({"chat_template_kwargs": {"style": 1}})),
        "chat_template_kwargs.style"
    );
}

#[test]
fn values_out_of_range_are_named() {
    let cases = json!({
        "n": [0, 2, 1.5, "1"], "temperature": [-0.1, 101, "1", true], "top_p": [0, 1.1, -1], "top_k": [-1, 1.5, "a"],
        "min_p": [-0.1, 1.1], "repetition_penalty": [0, -1], "presence_penalty": [2.1], "frequency_penalty": [-2.1],
        "seed": [1.5, "1", 1e30], "stop": [1, {}], "max_tokens": [0, -1, 1.5], "max_completion_tokens": [0],
        "stream": ["yes", 1], "logprobs": [1, "true"], "tool_choice": ["required", {"type": "function"}],
        "logit_bias": [1, []], "messages": [[], "hi", 1]
    });
    for (field, values) in cases.as_object().unwrap() {
        for value in values.as_array().unwrap() {
            assert_eq!(&refused(&json!({field: value})), field, "{value}");
        }
    }
    assert_eq!(refused(&json!({"logit_bias": {"x": 1}})), "logit_bias.x");
    assert_eq!(refused(&json!({"logit_bias": {"3": 101}})), "logit_bias.3");
    assert_eq!(refused(&json!({"stop": ["a", ""]})), "stop[1]");
    assert_eq!(refused(&json!({"stop": vec!["a"; 17]})), "stop");
    assert_eq!(refused(&json!({"top_logprobs": 2})), "top_logprobs");
    assert_eq!(
        refused(&json!({"logprobs": true, "top_logprobs": 21})),
        "top_logprobs"
    );
    assert_eq!(refused(&json!({"stream_options": {}})), "stream_options");
    assert_eq!(
        refused(&json!({"response_format": {"type": "json_object"}})),
        "response_format.type"
    );
    assert_eq!(
        refused(&json!({"max_tokens": 3, "max_completion_tokens": 4})),
        "max_completion_tokens"
    );
}

fn message(message: &Value) -> String {
    refused(&json!({"messages": [message]}))
}

#[test]
fn malformed_messages_are_named() {
    assert_eq!(message(&json!("hi")), "messages[0]");
    assert_eq!(message(&json!({"content": "x"})), "messages[0].role");
    assert_eq!(
        message(&json!({"role": "robot", "content": "x"})),
        "messages[0].role"
    );
    assert_eq!(message(&json!({"role": "user"})), "messages[0].content");
    assert_eq!(
        message(&json!({"role": "user", "content": "x", "name": "a"})),
        "messages[0].name"
    );
    assert_eq!(
        message(&json!({"role": "user", "content": [{"type": "image_url"}]})),
        "messages[0].content[0].type"
    );
    assert_eq!(
        message(&json!({"role": "user", "content": [{"type": "text", "text": 1}]})),
        "messages[0].content[0].text"
    );
    assert_eq!(message(&json!({"role": "assistant"})), "messages[0].content");
    assert_eq!(
        message(&json!({"role": "tool", "content": "x", "tool_call_id": "c"})),
        "messages[0].tool_call_id"
    );
    let call = |arguments: &str| {
        json!({"role": "assistant", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}]})
    };
    assert_eq!(
        message(&call("[1]")),
        "messages[0].tool_calls[0].function.arguments"
    );
    let tool = json!({"role": "tool", "content": "x", "tool_call_id": "c"});
    assert!(chat(&json!({"messages": [call("{}"), tool]})).is_ok());
}

#[test]
fn malformed_tools_are_named() {
    let tool = |function: Value| refused(&json!({"tools": [{"type": "function", "function": function}]}));
    assert_eq!(tool(json!({})), "tools[0].function.name");
    assert_eq!(tool(json!({"name": "a b"})), "tools[0].function.name");
    assert_eq!(
        tool(json!({"name": "f", "strict": true})),
        "tools[0].function.strict"
    );
    assert_eq!(
        tool(json!({"name": "f", "parameters": 1})),
        "tools[0].function.parameters"
    );
    assert_eq!(tool(json!({"name": "f", "wait": 1})), "tools[0].function.wait");
    assert_eq!(
        refused(&json!({"tools": [{"type": "retrieval"}]})),
        "tools[0].type"
    );
}

#[test]
fn text_parts_are_joined() {
    let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    let request = chat(&json!({"messages": [{"role": "user", "content": parts}]})).unwrap();
    assert_eq!(request.messages, [json!({"role": "user", "content": "ab"})]);
}

#[test]
fn prompts_of_completions() {
    let parse = |prompt: Value| CompletionRequest::parse(json!({"prompt": prompt}).to_string().as_bytes());
    assert_eq!(parse(json!("a")).unwrap().prompt, Prompt::Text("a".into()));
    assert_eq!(parse(json!(["a"])).unwrap().prompt, Prompt::Text("a".into()));
    assert_eq!(parse(json!([1, 2])).unwrap().prompt, Prompt::Ids(vec![1, 2]));
    assert_eq!(parse(json!([[1, 2]])).unwrap().prompt, Prompt::Ids(vec![1, 2]));
    let param = |prompt| parse(prompt).unwrap_err().detail.param.unwrap();
    assert_eq!(param(json!(["a", "b"])), "prompt");
    assert_eq!(param(json!([1, -2])), "prompt[1]");
    assert_eq!(param(json!(null)), "prompt");
    let echo = CompletionRequest::parse(br#"{"prompt": "a", "echo": true}"#).unwrap_err();
    assert_eq!(echo.detail.param.as_deref(), Some("echo"));
}

#[test]
fn bodies_that_are_no_objects() {
    for body in ["", "[1]", "{", "null", "{\"a\":1}}"] {
        assert_eq!(
            ChatRequest::parse(body.as_bytes()).unwrap_err().status.as_u16(),
            400,
            "{body}"
        );
    }
    let deep = "[".repeat(100_000);
    assert!(ChatRequest::parse(deep.as_bytes()).is_err());
}

/// Names in the published description are the names that are read.
#[test]
fn schemas_list_the_fields_that_are_read() {
    let known = |read: &dyn Fn(&mut fields::Fields), body: &str| {
        let mut fields = fields::Fields::body(body.as_bytes()).unwrap();
        read(&mut fields);
        let mut names: Vec<String> = fields.finish().unwrap().into_iter().map(str::to_owned).collect();
        names.sort();
        names
    };
    let chat = known(
        &|f| drop(ChatRequest::read(f).unwrap()),
        r#"{"messages": [{"role": "user", "content": "a"}]}"#,
    );
    assert_eq!(chat, names::<ChatBody>());
    let text = known(
        &|f| drop(CompletionRequest::read(f).unwrap()),
        r#"{"prompt": "a"}"#,
    );
    assert_eq!(text, names::<CompletionBody>());
}

fn names<T: utoipa::PartialSchema>() -> Vec<String> {
    let schema = serde_json::to_value(T::schema()).unwrap();
    let mut names: Vec<String> = schema["properties"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    names.sort();
    names
}
