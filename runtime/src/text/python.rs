//! What Python templates expect of `str()`, `repr()`, `json.dumps` and string methods.

use minijinja::value::{Kwargs, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};
use std::fmt::Write;

/// `str(value)`.
pub(super) fn text(value: &Value) -> String {
    match value.kind() {
        ValueKind::Seq | ValueKind::Map | ValueKind::Number => {
            let mut out = String::new();
            repr(value, &mut out);
            out
        }
        _ => value.to_string(),
    }
}

/// `repr(value)`, appended.
fn repr(value: &Value, out: &mut String) {
    match value.kind() {
        ValueKind::String => quote(value.as_str().unwrap_or_default(), out),
        ValueKind::Number => out.push_str(&number(value)),
        ValueKind::Seq => {
            out.push('[');
            each(value, out, repr);
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            each(value, out, |key, out| {
                repr(key, out);
                out.push_str(": ");
                repr(&value.get_item(key).unwrap_or_default(), out);
            });
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
}

fn each(value: &Value, out: &mut String, mut write: impl FnMut(&Value, &mut String)) {
    for (i, item) in value.try_iter().into_iter().flatten().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write(&item, out);
    }
}

/// A string as Python writes it: single quotes unless only they occur inside.
fn quote(text: &str, out: &mut String) {
    let mark = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(mark);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == mark => {
                out.push('\\');
                out.push(c);
            }
            c if (c as u32) < 0x20 || (0x7F..0xA1).contains(&(c as u32)) => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push(mark);
}

/// An integer, or a float in Python's shortest form.
fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    match f64::try_from(value.clone()) {
        Ok(x) => float(x),
        Err(_) => value.to_string(),
    }
}

/// `repr(float)`.
pub(super) fn float(x: f64) -> String {
    if x.is_nan() {
        return "nan".to_owned();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{x:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if x != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{x}");
    if plain.contains('.') {
        plain
    } else {
        format!("{plain}.0")
    }
}

/// How `json.dumps` lays out.
struct Json<'a> {
    item: &'a str,
    key: &'a str,
    indent: Option<usize>,
    ascii: bool,
    sorted: bool,
}

/// The `tojson` filter: `json.dumps` with `ensure_ascii=False`, keys in input order, nothing escaped for HTML.
pub(super) fn tojson(value: &Value, indent: Option<Value>, options: Kwargs) -> Result<Value, Error> {
    let indent = indent.or(options.get::<Option<Value>>("indent")?);
    let indent = match indent {
        Some(v) if !v.is_none() && !v.is_undefined() => Some(v.as_usize().ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidOperation,
                "tojson: indent is not a small number",
            )
        })?),
        _ => None,
    };
    let separators: Option<Vec<String>> = options.get("separators")?;
    let layout = Json {
        item: match &separators {
            Some(s) if s.len() == 2 => &s[0],
            Some(_) => {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    "tojson: separators are two",
                ));
            }
            None if indent.is_some() => ",",
            None => ", ",
        },
        key: separators.as_ref().map_or(": ", |s| &s[1]),
        indent,
        ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        sorted: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    options.assert_all_used()?;
    let mut out = String::new();
    layout.write(value, 0, &mut out)?;
    Ok(Value::from_safe_string(out))
}

impl Json<'_> {
    fn write(&self, value: &Value, level: usize, out: &mut String) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&match number(value).as_str() {
                "nan" => "NaN".to_owned(),
                "inf" => "Infinity".to_owned(),
                "-inf" => "-Infinity".to_owned(),
                plain => plain.to_owned(),
            }),
            ValueKind::String => self.string(value.as_str().unwrap_or_default(), out),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.list('[', ']', &items, level, out, |item, out| {
                    self.write(item, level + 1, out)
                })?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sorted {
                    keys.sort();
                }
                self.list('{', '}', &keys, level, out, |key, out| {
                    self.string(&key_text(key), out);
                    out.push_str(self.key);
                    self.write(&value.get_item(key)?, level + 1, out)
                })?;
            }
            kind => {
                let reason = format!("tojson: {kind} has no JSON form");
                return Err(Error::new(ErrorKind::InvalidOperation, reason));
            }
        }
        Ok(())
    }

    fn list(
        &self,
        open: char,
        close: char,
        items: &[Value],
        level: usize,
        out: &mut String,
        mut each: impl FnMut(&Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(open);
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                out.push_str(self.item);
            }
            self.newline(level + 1, out);
            each(item, out)?;
        }
        if !items.is_empty() {
            self.newline(level, out);
        }
        out.push(close);
        Ok(())
    }

    fn newline(&self, level: usize, out: &mut String) {
        if let Some(width) = self.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', width.min(64) * level));
        }
    }

    fn string(&self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if (c as u32) < 0x20 || (self.ascii && !c.is_ascii()) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

fn key_text(key: &Value) -> String {
    match key.kind() {
        ValueKind::None => "null".to_owned(),
        ValueKind::Bool => if key.is_true() { "true" } else { "false" }.to_owned(),
        _ => text(key),
    }
}

/// Whether Python's `str.isspace` holds: it counts four control characters that Unicode's property does not.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// The `trim` filter.
pub(super) fn trim(value: &Value, chars: Option<&str>) -> String {
    stripped(&text(value), chars, true, true).to_owned()
}

fn stripped<'a>(text: &'a str, chars: Option<&str>, start: bool, end: bool) -> &'a str {
    let out = |c: char| chars.map_or_else(|| is_space(c), |set| set.contains(c));
    let text = if start { text.trim_start_matches(out) } else { text };
    if end { text.trim_end_matches(out) } else { text }
}

/// Methods of Python's types; the ones that differ here, the others from minijinja's collection.
pub(super) fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let Some(text) = value.as_str() else {
        return minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args);
    };
    let (start, end) = match name {
        "strip" => (true, true),
        "lstrip" => (true, false),
        "rstrip" => (false, true),
        "removeprefix" | "removesuffix" => {
            let (affix,): (&str,) = from_args(args)?;
            let rest = if name == "removeprefix" {
                text.strip_prefix(affix)
            } else {
                text.strip_suffix(affix)
            };
            return Ok(Value::from(rest.unwrap_or(text)));
        }
        _ => return minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args),
    };
    let (chars,): (Option<&str>,) = from_args(args)?;
    Ok(Value::from(stripped(text, chars, start, end)))
}
