//! How the lines of published sets become prompts (`algorithms.md` 6.1).

use super::Ask;
use serde_json::{Map, Value, json};

/// Sentence under the problems of the mathematical sets.
pub const BOXED: &str = "Please reason step by step, and put your final answer within \\boxed{}.";
const CODE: &str = "Write a solution to the following problem and make sure that it passes the tests:";

/// Layout of a suite's lines, known by their fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `messages`, `prompt` (continued as it is) or `ids`.
    Own,
    /// GSM8K: `question`, `answer`.
    Gsm8k,
    /// MATH-500 and AIME: `problem`.
    Math,
    /// HumanEval: `prompt`, `entry_point`.
    Humaneval,
    /// MBPP: `prompt` (sanitized) or `text` (full), `test_list`.
    Mbpp,
    /// MT-Bench: two turns in `prompt` or `turns`.
    MtBench,
}

impl Format {
    /// The format of a line, by its fields.
    #[must_use]
    pub fn of(line: &Map<String, Value>) -> Option<Self> {
        let has = |name| line.contains_key(name);
        let list = |name| line.get(name).is_some_and(Value::is_array);
        if has("messages") || has("ids") {
            Some(Self::Own)
        } else if list("turns") || list("prompt") {
            Some(Self::MtBench)
        } else if has("test_list") {
            Some(Self::Mbpp)
        } else if has("entry_point") {
            Some(Self::Humaneval)
        } else if has("question") {
            Some(Self::Gsm8k)
        } else if has("problem") {
            Some(Self::Math)
        } else if has("prompt") {
            Some(Self::Own)
        } else {
            None
        }
    }

    /// What a line of this format asks.
    ///
    /// # Errors
    /// A field that is missing or of another type, by name.
    pub fn ask(self, line: &Map<String, Value>) -> Result<Ask, String> {
        match self {
            Self::Own => own(line),
            Self::Gsm8k => Ok(user(&[format!("{}\n{BOXED}", string(line, "question")?)])),
            Self::Math => Ok(user(&[format!("{}\n{BOXED}", string(line, "problem")?)])),
            Self::Humaneval => {
                let prompt = string(line, "prompt")?;
                Ok(user(&[format!("{CODE}\n```python\n{prompt}\n```")]))
            }
            Self::Mbpp => {
                let name = if line.contains_key("prompt") {
                    "prompt"
                } else {
                    "text"
                };
                Ok(user(&[string(line, name)?.to_owned()]))
            }
            Self::MtBench => {
                let name = if line.contains_key("turns") {
                    "turns"
                } else {
                    "prompt"
                };
                let turns = strings(line, name)?;
                if turns.is_empty() {
                    return Err(format!("`{name}` is empty"));
                }
                Ok(user(&turns))
            }
        }
    }
}

/// A conversation of user messages, each answered before the next.
fn user(texts: &[String]) -> Ask {
    let message = |text: &String| vec![json!({"role": "user", "content": text})];
    Ask::Turns(texts.iter().map(message).collect())
}

fn own(line: &Map<String, Value>) -> Result<Ask, String> {
    let given: Vec<&str> = ["messages", "prompt", "ids"]
        .into_iter()
        .filter(|n| line.contains_key(*n))
        .collect();
    if let [a, b, ..] = given.as_slice() {
        return Err(format!("`{a}` and `{b}` are both given"));
    }
    match line.get("ids") {
        Some(ids) => serde_json::from_value(ids.clone())
            .map(Ask::Ids)
            .map_err(|e| format!("`ids` is no list of token ids: {e}")),
        None if line.contains_key("prompt") => Ok(Ask::Text(string(line, "prompt")?.to_owned())),
        None => match line.get("messages") {
            Some(Value::Array(messages)) => turns(messages),
            _ => Err("`messages` is not a list".to_owned()),
        },
    }
}

/// Cuts messages behind every user message that no assistant message of the file answers.
fn turns(messages: &[Value]) -> Result<Ask, String> {
    let role = |m: &Value| m.get("role").and_then(Value::as_str).map(str::to_owned);
    let mut turns = Vec::new();
    let mut open = Vec::new();
    for (i, message) in messages.iter().enumerate() {
        open.push(message.clone());
        let answered = messages.get(i + 1).and_then(role).as_deref() == Some("assistant");
        if matches!(role(message).as_deref(), Some("user" | "tool")) && !answered {
            turns.push(std::mem::take(&mut open));
        }
    }
    if turns.is_empty() || !open.is_empty() {
        return Err("`messages` does not end with a message of the user".to_owned());
    }
    Ok(Ask::Turns(turns))
}

fn string<'a>(line: &'a Map<String, Value>, name: &str) -> Result<&'a str, String> {
    match line.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("`{name}` is not a string")),
        None => Err(format!("`{name}` is missing")),
    }
}

fn strings(line: &Map<String, Value>, name: &str) -> Result<Vec<String>, String> {
    let value = line.get(name).cloned().unwrap_or_default();
    serde_json::from_value(value).map_err(|_| format!("`{name}` is not a list of strings"))
}
