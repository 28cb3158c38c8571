//! The template engine does what templates expect of Python. Expected strings were checked with Jinja 3.

use super::super::{ChatTemplate, Conversation, RenderOptions, TextError, clock, python};
use super::data;
use forkcast_engines::manifest::TextFiles;
use serde_json::{Value, json};

fn render(source: &str, messages: Value) -> Result<String, TextError> {
    let Value::Array(messages) = messages else {
        panic!("messages are an array")
    };
    let chat = Conversation::new(
        messages,
        Some(vec![json!({"b": 1, "a": [true, null, 1.5, "<é'&\"\n"]})]),
    )?;
    ChatTemplate::from_source(source)?.render(&chat, RenderOptions::default())
}

fn user() -> Value {
    json!([{"role": "user", "content": "x", "extra": {"k": [1, "it's", null, true, 1e20]}}])
}

#[test]
fn json_as_python_writes_it() {
    let found = render("{{ tools[0] | tojson }}", user()).expect("renders");
    assert_eq!(found, r#"{"b": 1, "a": [true, null, 1.5, "<é'&\"\n"]}"#);
    let found = render("{{ tools[0] | tojson(indent=1, sort_keys=true) }}", user()).expect("renders");
    assert_eq!(
        found,
        "{\n \"a\": [\n  true,\n  null,\n  1.5,\n  \"<é'&\\\"\\n\"\n ],\n \"b\": 1\n}"
    );
    let found = render("{{ 'é😀' | tojson(ensure_ascii=true) }}{{ [] | tojson }}", user()).expect("renders");
    assert_eq!(found, r#""\u00e9\ud83d\ude00"[]"#);
    assert!(render("{{ nothing | tojson }}", user()).is_err());
}

#[test]
fn strings_as_python_writes_them() {
    let found = render("{{ messages[0].extra }}|{{ true }}|{{ none | string }}", user()).expect("renders");
    assert_eq!(found, r#"{'k': [1, "it's", None, True, 1e+20]}|True|None"#);
    let found = render("{{ 'a' ~ true ~ 1.0 }}|{{ (false | string).upper() }}", user()).expect("renders");
    assert_eq!(found, "aTrue1.0|FALSE");
}

#[test]
fn floats() {
    let cases = [
        (0.0, "0.0"),
        (1.0, "1.0"),
        (0.1, "0.1"),
        (1e15, "1000000000000000.0"),
        (1e16, "1e+16"),
        (1.5e-5, "1.5e-05"),
        (0.0001, "0.0001"),
        (-2.5e100, "-2.5e+100"),
    ];
    for (x, text) in cases {
        assert_eq!(python::float(x), text);
    }
}

#[test]
fn methods_slices_and_loops() {
    let source = "{%- for m in messages[::-1] %}{{ loop.index0 }}{{ m.content.strip('-') }}\
        {%- if loop.previtem is defined %}<{{ loop.previtem.content }}{% endif %};{% endfor %}";
    let messages = json!([{"role": "a", "content": "-x-"}, {"role": "b", "content": "y\u{1c}"}]);
    assert_eq!(render(source, messages).expect("renders"), "0y\u{1c};1x<y\u{1c};");
    let found = render(
        "{{ ' y\u{1c}'.strip() }}{{ '  z ' | trim }}|{{ 'abc'.removeprefix('a') }}",
        user(),
    );
    assert_eq!(found.expect("renders"), "yz|bc");
    let found = render(
        "{% for c in [1,2,3] %}{% if c == 2 %}{% continue %}{% endif %}{{ c }}{% endfor %}",
        user(),
    );
    assert_eq!(found.expect("renders"), "13");
}

#[test]
fn blocks_are_trimmed() {
    let found = render("a\n  {% if true %}\n  b\n  {% endif %}\nc\n", user()).expect("renders");
    assert_eq!(found, "a\n  b\nc");
}

#[test]
fn a_refusal_keeps_its_words() {
    let error = render("{{ raise_exception('No user query.') }}", user()).expect_err("refused");
    assert_eq!(
        error.to_string(),
        "chat template: No user query. (line 1 of the template)"
    );
    assert!(ChatTemplate::from_source("{% if %}").is_err());
}

#[test]
fn arguments_of_tool_calls() {
    let call = |arguments: Value| {
        json!([{"role": "assistant", "content": null,
            "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": arguments}}]}])
    };
    let verbatim = "{% set a = messages[0].tool_calls[0].function.arguments %}\
        {{ a if a is string else a | tojson }}";
    assert_eq!(
        render(verbatim, call(json!("{\"x\":1}"))).expect("renders"),
        "{\"x\":1}"
    );
    let items =
        "{% for k, v in messages[0].tool_calls[0].function.arguments | items %}{{ k }}={{ v }}{% endfor %}";
    assert_eq!(
        render(items, call(json!({"x": true}))).expect("renders"),
        "x=True"
    );
    assert_eq!(render(items, call(json!("{\"x\":1}"))).expect("renders"), "x=1");
    assert!(render(items, call(json!("no JSON"))).is_err());
}

#[test]
fn where_templates_come_from() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = json!({
        "eos_token": {"content": "<e>"},
        "chat_template": [
            {"name": "tool_use", "template": "tools{{ eos_token }}"},
            {"name": "default", "template": "plain{{ eos_token }}"},
        ],
    });
    std::fs::write(folder.path().join("tokenizer_config.json"), config.to_string()).expect("written");
    std::fs::write(folder.path().join("chat_template.jinja"), "file{{ eos_token }}").expect("written");
    let mut files = TextFiles {
        tokenizer_config: Some("tokenizer_config.json".to_owned()),
        chat_template: Some("chat_template.jinja".to_owned()),
        ..TextFiles::default()
    };
    let chat = Conversation::user("x");
    let tools = Conversation::new(chat.messages().to_vec(), Some(vec![json!({})])).expect("tools");
    let open = |files: &TextFiles| ChatTemplate::open(folder.path(), files).expect("readable");
    let render =
        |template: &ChatTemplate, c: &Conversation| template.render(c, RenderOptions::default()).ok();
    let template = open(&files).expect("from the file");
    assert_eq!(render(&template, &chat).as_deref(), Some("file<e>"));
    files.chat_template = None;
    let template = open(&files).expect("from the configuration");
    assert_eq!(render(&template, &chat).as_deref(), Some("plain<e>"));
    assert_eq!(render(&template, &tools).as_deref(), Some("tools<e>"));
    files.tokenizer_config = None;
    assert!(open(&files).is_none());
}

#[test]
fn thinking_is_looked_for() {
    let files = TextFiles {
        chat_template: Some("chat_template.jinja".to_owned()),
        ..TextFiles::default()
    };
    let tiny = ChatTemplate::open(&data("models/tiny-qwen3"), &files);
    assert!(tiny.expect("readable").expect("there").knows_thinking());
    assert!(!ChatTemplate::from_source("x").expect("valid").knows_thinking());
}

#[test]
fn dates() {
    assert_eq!(
        clock::at(0, "%Y-%m-%d %H:%M:%S %a %B").as_deref(),
        Ok("1970-01-01 00:00:00 Thu January")
    );
    assert_eq!(
        clock::at(951_826_154, "%d %b %Y %I%p").as_deref(),
        Ok("29 Feb 2000 12PM")
    );
    assert!(clock::at(0, "%Q").is_err());
}

#[test]
fn no_template_runs_for_ever() {
    let endless = "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}";
    let begin = std::time::Instant::now();
    let refused = render(endless, user())
        .expect_err("it would take minutes")
        .to_string();
    assert_eq!(refused, "chat template: it takes more than 10000000 steps");
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
    let itself = "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}";
    assert!(render(itself, user()).is_err());
    let long = "{% for a in range(90000) %}{{ messages[0].content * 10000 }}{% endfor %}";
    let double =
        "{% set n = namespace(x='x') %}{% for a in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}";
    for bomb in [long, double, "{{ 'x' * 10000000000 }}"] {
        let refused = render(bomb, user()).expect_err("gigabytes").to_string();
        assert!(refused.contains("steps"), "{refused}");
    }
}

#[test]
fn long_conversations_are_rendered() {
    let folder = data("models/tiny-qwen3.5");
    let files = TextFiles {
        chat_template: Some("chat_template.jinja".into()),
        ..TextFiles::default()
    };
    let template = ChatTemplate::open(&folder, &files)
        .expect("readable")
        .expect("there");
    let message = |i| json!({"role": if i % 2 == 0 { "user" } else { "assistant" }, "content": "a"});
    // Five tokens at least for each: a quarter of a million tokens, the published context.
    let chat = Conversation::new((0..50_001).map(message).collect(), None).expect("a conversation");
    let prompt = template.render(&chat, RenderOptions::default()).expect("renders");
    assert!(prompt.len() > 1_000_000);
}
