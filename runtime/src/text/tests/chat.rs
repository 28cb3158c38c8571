//! Conversations: what is read and what is refused, by message.

use super::super::Conversation;

fn refusal(json: &str) -> String {
    Conversation::parse(json.as_bytes())
        .expect_err("refused")
        .to_string()
}

#[test]
fn both_forms() {
    let list = Conversation::parse(br#"[{"role": "user", "content": "hi"}]"#).expect("a list");
    assert_eq!(list, Conversation::user("hi"));
    let object = br#"{"id": "a-000", "messages": [{"role": "user", "content": "hi"}], "tools": []}"#;
    assert_eq!(Conversation::parse(object).expect("an object"), list);
}

#[test]
fn parts_of_text_are_joined() {
    let json = br#"[{"role": "user", "content": [{"type": "text", "text": "a"}, {"text": "b"}]}]"#;
    assert_eq!(
        Conversation::parse(json).expect("text parts"),
        Conversation::user("ab")
    );
}

#[test]
fn refusals() {
    assert!(refusal("{").starts_with("not valid JSON: "));
    assert_eq!(
        refusal("3"),
        "neither an array of messages nor an object with `messages`"
    );
    assert_eq!(refusal("{}"), "`messages` is missing");
    assert_eq!(refusal(r#"{"messages": 1}"#), "`messages` is not an array");
    assert_eq!(refusal("[]"), "`messages` is empty");
    assert_eq!(refusal("[1]"), "messages[0] is not an object");
    assert_eq!(refusal(r#"[{"content": "x"}]"#), "messages[0].role is missing");
    assert_eq!(
        refusal(r#"[{"role": 1, "content": "x"}]"#),
        "messages[0].role is not a string"
    );
    assert_eq!(refusal(r#"[{"role": "user"}]"#), "messages[0].content is missing");
    assert!(refusal(r#"[{"role": "user", "content": 1}]"#).starts_with("messages[0].content is neither"));
    let image = r#"[{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]"#;
    assert_eq!(
        refusal(image),
        "messages[0].content[0]: type `image_url` is not supported, only text is"
    );
    let field = r#"{"messages": [{"role": "user", "content": "x"}], "temperature": 1}"#;
    assert_eq!(refusal(field), "field `temperature` is not known");
    let tools = r#"{"messages": [{"role": "user", "content": "x"}], "tools": [1]}"#;
    assert_eq!(refusal(tools), "tools[0] is not an object");
}
