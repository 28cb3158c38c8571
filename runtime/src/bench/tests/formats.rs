//! Suite files of every known layout, and what is refused.

use crate::bench::suite::{Ask, BOXED, Suite, random, read};
use serde_json::{Value, json};
use std::path::PathBuf;
use tempfile::TempDir;

fn file(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.jsonl");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

fn suite(text: &str) -> Suite {
    let (_folder, path) = file(text);
    read(&path).unwrap()
}

fn refusal(text: &str) -> String {
    let (_folder, path) = file(text);
    read(&path).unwrap_err().to_string()
}

/// Contents of the user messages, turn by turn.
fn contents(ask: &Ask) -> Vec<String> {
    let Ask::Turns(turns) = ask else {
        panic!("{ask:?} is no conversation")
    };
    let content = |m: &Value| m["content"].as_str().unwrap().to_owned();
    turns.iter().map(|t| content(t.last().unwrap())).collect()
}

#[test]
fn published_sets_become_the_published_prompts() {
    let cases = [
        (json!({"question": "Q?", "answer": "#### 1"}), vec![format!("Q?\n{BOXED}")]),
        (
            json!({"problem": "P", "solution": "s", "answer": "1", "unique_id": "test/x.json"}),
            vec![format!("P\n{BOXED}")],
        ),
        (json!({"id": 60, "problem": "A", "answer": "204", "year": "2024"}), vec![format!("A\n{BOXED}")]),
        (
            json!({"task_id": "HumanEval/0", "prompt": "def f():\n", "entry_point": "f", "test": "t", "canonical_solution": "c"}),
            vec![
                "Write a solution to the following problem and make sure that it passes the tests:\n```python\ndef f():\n\n```"
                    .to_owned(),
            ],
        ),
        (
            json!({"source_file": "x", "task_id": 2, "prompt": "Write f.", "code": "c", "test_imports": [], "test_list": ["a"]}),
            vec!["Write f.".to_owned()],
        ),
        (
            json!({"task_id": 2, "text": "Write g.", "code": "c", "test_list": ["a"]}),
            vec!["Write g.".to_owned()],
        ),
        (
            json!({"prompt_id": 81, "category": "writing", "prompt": ["one", "two"], "reference": []}),
            vec!["one".to_owned(), "two".to_owned()],
        ),
        (
            json!({"question_id": 81, "category": "writing", "turns": ["one", "two"]}),
            vec!["one".to_owned(), "two".to_owned()],
        ),
    ];
    for (line, expected) in cases {
        let found = suite(&format!("{line}\n"));
        assert_eq!(contents(&found.prompts[0].ask), expected, "{line}");
    }
}

#[test]
fn names_come_from_the_file() {
    let lines =
        "{\"task_id\": 7, \"text\": \"a\", \"test_list\": []}\n\n{\"text\": \"b\", \"test_list\": []}\n";
    let found = suite(lines);
    let ids: Vec<&str> = found.prompts.iter().map(|p| p.id.as_str()).collect();
    assert_eq!((found.name.as_str(), ids), ("set", vec!["7", "3"]));
}

#[test]
fn an_array_is_a_suite_too() {
    let found = suite("[{\"ids\": [1, 2]},\n {\"ids\": [3]}]");
    assert_eq!(found.prompts[1].ask, Ask::Ids(vec![3]));
    assert_eq!(
        suite("{\"prompt\": \"The sea\"}").prompts[0].ask,
        Ask::Text("The sea".to_owned())
    );
}

#[test]
fn conversations_are_cut_behind_unanswered_users() {
    let line = json!({"id": "x", "messages": [
        {"role": "system", "content": "s"}, {"role": "user", "content": "1"},
        {"role": "assistant", "content": "a"}, {"role": "user", "content": "2"}, {"role": "user", "content": "3"}]});
    let found = suite(&line.to_string());
    let Ask::Turns(turns) = &found.prompts[0].ask else {
        panic!()
    };
    assert_eq!(turns.iter().map(Vec::len).collect::<Vec<_>>(), [4, 1]);
}

#[test]
fn selection_is_seeded_and_keeps_every_prompt_once() {
    let text: String = (0..50).map(|i| format!("{{\"ids\": [{i}]}}\n")).collect();
    let shuffled = |seed| {
        let mut s = suite(&text);
        s.select(None, Some(seed));
        s.prompts
    };
    assert_eq!(shuffled(1), shuffled(1));
    assert_ne!(shuffled(1), shuffled(2));
    let key = |ask: &Ask| match ask {
        Ask::Ids(ids) => ids[0],
        _ => u32::MAX,
    };
    let mut ids: Vec<u32> = shuffled(3).iter().map(|p| key(&p.ask)).collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..50));
    let mut few = suite(&text);
    few.select(Some(3), None);
    assert_eq!(few.prompts.len(), 3);
}

#[test]
fn made_up_prompts_are_inside_the_vocabulary() {
    let found = random(7, 3, 100, 5);
    assert_eq!(found, random(7, 3, 100, 5));
    for prompt in &found.prompts {
        let Ask::Ids(ids) = &prompt.ask else { panic!() };
        assert!(ids.len() == 100 && ids.iter().all(|id| *id < 7));
    }
}

#[test]
fn refusals_name_line_and_field() {
    for (text, parts) in [
        ("", vec!["set.jsonl:0", "no prompt"]),
        ("nonsense", vec![":1:", "not valid JSON"]),
        ("{\"ids\": [1]}\n7\n", vec![":2:", "not a JSON object"]),
        ("{\"ids\": [1]}\n{\"ids\": [-1]}\n", vec![":2:", "`ids`"]),
        ("{\"ids\": [1], \"prompt\": \"x\"}", vec!["`prompt` and `ids`"]),
        ("{\"a\": 1, \"b\": 2}", vec!["a, b"]),
        ("{\"question\": 3}", vec!["`question` is not a string"]),
        (
            "{\"question\": \"x\"}\n{\"problem\": \"x\"}",
            vec![":2:", "`question` is missing"],
        ),
        ("{\"turns\": []}", vec!["`turns` is empty"]),
        ("{\"turns\": [1]}", vec!["`turns` is not a list of strings"]),
        (
            "{\"messages\": []}",
            vec!["does not end with a message of the user"],
        ),
        ("{\"messages\": 1}", vec!["`messages` is not a list"]),
    ] {
        let said = refusal(text);
        for part in parts {
            assert!(said.contains(part), "{text:?}: {said:?} lacks {part:?}");
        }
    }
    let missing = read(&PathBuf::from("no/such.jsonl")).unwrap_err();
    assert!(missing.is_input() && missing.to_string().contains("no/such.jsonl"));
}
