//! Answers cut at every place give the same parts.

use super::*;
use serde_json::json;

/// Reasoning, content and calls of an answer that comes in pieces.
fn parts(start: Start, tools: bool, pieces: &[&str]) -> (String, String, Vec<ParsedCall>) {
    let tool = Tool {
        name: "f".to_owned(),
        properties:
            json!({"n": {"type": "integer"}, "s": {"type": "string"}, "b": {"anyOf": [{"type": "boolean"}]},
            "o": {"type": ["object", "null"]}})
            .as_object()
            .unwrap()
            .clone(),
        json: json!({}),
    };
    let mut splitter = Splitter::new(start, tools.then(|| Arc::new(vec![tool])));
    let mut out = Vec::new();
    for piece in pieces {
        splitter.push(piece, &mut out);
    }
    splitter.finish(&mut out);
    let (mut reasoning, mut content, mut calls) = (String::new(), String::new(), Vec::new());
    for part in out {
        match part {
            Part::Reasoning(text) => reasoning += &text,
            Part::Content(text) => content += &text,
            Part::Call(call) => calls.push(call),
        }
    }
    (reasoning, content, calls)
}

/// The same parts whatever the pieces: all at once, one character each, every cut in two.
fn all_cuts(start: Start, tools: bool, text: &str) -> (String, String, Vec<ParsedCall>) {
    let whole = parts(start, tools, &[text]);
    let letters: Vec<String> = text.chars().map(String::from).collect();
    let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
    assert_eq!(parts(start, tools, &letters), whole, "{text:?}");
    for (at, _) in text.char_indices() {
        let (a, b) = text.split_at(at);
        assert_eq!(parts(start, tools, &[a, b]), whole, "{a:?} {b:?}");
    }
    whole
}

fn text(start: Start, tools: bool, text: &str) -> (String, String) {
    let (reasoning, content, calls) = all_cuts(start, tools, text);
    assert!(calls.is_empty());
    (reasoning, content)
}

fn pair(a: &str, b: &str) -> (String, String) {
    (a.to_owned(), b.to_owned())
}

#[test]
fn reasoning_is_taken_apart() {
    let r = Start::Reasoning;
    assert_eq!(
        text(r, false, "\nwhy é\n</think>\n\nso 💡\n"),
        pair("why é", "so 💡\n")
    );
    assert_eq!(text(r, false, "</think>\n\nso"), pair("", "so"));
    assert_eq!(text(r, false, "cut off </thi"), pair("cut off </thi", ""));
    assert_eq!(
        text(r, false, "a </thinker> b</think>c"),
        pair("a </thinker> b", "c")
    );
    assert_eq!(
        text(Start::Open, false, "\n<think>\nx\n</think>\n\ny"),
        pair("x", "y")
    );
    assert_eq!(text(Start::Open, false, " <thin air"), pair("", " <thin air"));
    assert_eq!(
        text(Start::Open, false, "plain <think>"),
        pair("", "plain <think>")
    );
    assert_eq!(
        text(Start::Content, false, "<think>no</think>"),
        pair("", "<think>no</think>")
    );
    assert_eq!(text(Start::Content, false, " \n"), pair("", " \n"));
}

#[test]
fn where_an_answer_starts() {
    assert_eq!(Start::after("<|im_start|>assistant\n<think>\n"), Start::Reasoning);
    assert_eq!(
        Start::after("<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        Start::Content
    );
    assert_eq!(
        Start::after("<think> no <|im_end|>\n<|im_start|>assistant\n"),
        Start::Open
    );
}

fn call(name: &str, arguments: &str) -> ParsedCall {
    ParsedCall {
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    }
}

#[test]
fn calls_in_json() {
    let answer = "Let me look.\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"z\": \"</x>\", \"a\": 1}}\n</tool_call>\n\
        <tool_call>\n{\"name\": \"g\"}\n</tool_call>";
    let (_, content, calls) = all_cuts(Start::Content, true, answer);
    assert_eq!(content, "Let me look.");
    assert_eq!(calls, [call("f", r#"{"z":"</x>","a":1}"#), call("g", "{}")]);
}

#[test]
fn calls_in_markup() {
    let answer = "<think>x</think>\n\n<tool_call>\n<function=f>\n<parameter=n>\n5\n</parameter>\n<parameter=s>\n5\nlines\n\
        </parameter>\n<parameter=b>\nTrue\n</parameter>\n<parameter=o>\n{\"k\": [1]}\n</parameter>\n\
        <parameter=unknown>\n7\n</parameter>\n</function>\n</tool_call>";
    let (reasoning, content, calls) = all_cuts(Start::Open, true, answer);
    assert_eq!((reasoning.as_str(), content.as_str()), ("x", ""));
    let arguments = r#"{"n":5,"s":"5\nlines","b":true,"o":{"k":[1]},"unknown":"7"}"#;
    assert_eq!(calls, [call("f", arguments)]);
}

#[test]
fn a_value_that_does_not_fit_its_schema_stays_text() {
    let answer = "<tool_call><function=f><parameter=n>five</parameter></function></tool_call>";
    let (_, _, calls) = all_cuts(Start::Content, true, answer);
    assert_eq!(calls, [call("f", r#"{"n":"five"}"#)]);
}

#[test]
fn what_is_no_call_stays_text() {
    for answer in [
        "<tool_call>{\"name\": 1}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
        "<tool_call>nonsense</tool_call>",
        "<tool_call>{\"name\": \"f\", \"argum",
        "<tool_call><function=f><parameter=a>1</function></tool_call>",
        "a < b <tool_box> c \n",
    ] {
        assert_eq!(text(Start::Content, true, answer).1, answer);
    }
    let without_tools = "<tool_call>{\"name\": \"f\"}</tool_call>";
    assert_eq!(text(Start::Content, false, without_tools).1, without_tools);
}
