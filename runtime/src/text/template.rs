//! Chat templates: Jinja as the reference implementation runs it.

use super::tokenizer::{read_bounded, read_json};
use super::{Conversation, TextError, clock, python, values};
use forkcast_engines::manifest::TextFiles;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, Value};
use serde_json::Value as Json;
use std::path::Path;

/// Work that one rendering may take, in instructions or 64 bytes of data each: no template runs for ever or fills the
/// memory. The template of Qwen3.5 takes about a hundred for a message: room for more than any context holds.
const FUEL: u64 = 10_000_000;

/// What a caller chooses about the rendering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderOptions {
    /// Whether the template opens the assistant's turn.
    pub generation_prompt: bool,
    /// `enable_thinking`; none leaves it undefined, so that the template's own default holds.
    pub thinking: Option<bool>,
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self {
            generation_prompt: true,
            thinking: None,
        }
    }
}

/// The template of a model.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    /// Names of the templates; `default` first.
    names: Vec<String>,
    /// `bos_token`, `eos_token` and the like, as templates know them.
    tokens: Vec<(String, String)>,
    /// Whether the source mentions `enable_thinking`.
    thinking: bool,
}

impl ChatTemplate {
    /// Reads the template of a bundle in `dir`: `chat_template.jinja`, else the one in
    /// `tokenizer_config.json`. None without either.
    ///
    /// # Errors
    /// A file is unreadable, or the template is no valid Jinja.
    pub fn open(dir: &Path, files: &TextFiles) -> Result<Option<Self>, TextError> {
        let config = files.tokenizer_config.as_ref().map(|name| dir.join(name));
        let config = config
            .map(|path| Ok::<_, TextError>((read_json(&path)?, path)))
            .transpose()?;
        let tokens = config
            .as_ref()
            .map(|(c, _)| special_tokens(c))
            .unwrap_or_default();
        if let Some(name) = &files.chat_template {
            let path = dir.join(name);
            let source = String::from_utf8(read_bounded(&path)?).map_err(|e| TextError::file(&path, e))?;
            let named = vec![("default".to_owned(), source)];
            return Self::new(named, tokens).map(Some).map_err(|e| in_file(&path, &e));
        }
        let Some((config, path)) = &config else {
            return Ok(None);
        };
        match config.get("chat_template") {
            None | Some(Json::Null) => Ok(None),
            Some(template) => {
                let named = sources(template).map_err(|reason| TextError::file(path, reason))?;
                Self::new(named, tokens).map(Some).map_err(|e| in_file(path, &e))
            }
        }
    }

    /// A template from its source.
    ///
    /// # Errors
    /// The source is no valid Jinja.
    pub fn from_source(source: &str) -> Result<Self, TextError> {
        Self::new(vec![("default".to_owned(), source.to_owned())], Vec::new())
    }

    fn new(named: Vec<(String, String)>, tokens: Vec<(String, String)>) -> Result<Self, TextError> {
        let mut environment = environment();
        let thinking = named.iter().any(|(_, source)| source.contains("enable_thinking"));
        let mut names = Vec::new();
        for (name, source) in named {
            environment
                .add_template_owned(name.clone(), source)
                .map_err(|e| TextError::Template(describe(&e)))?;
            names.push(name);
        }
        names.sort_by_key(|name| name != "default");
        Ok(Self {
            environment,
            names,
            tokens,
            thinking,
        })
    }

    /// Whether `enable_thinking` means something to this template.
    #[must_use]
    pub fn knows_thinking(&self) -> bool {
        self.thinking
    }

    /// The prompt of a conversation. Arguments of tool calls that are JSON in a string are first given
    /// to the template as they are (Qwen3 writes them verbatim), and as objects when it cannot take strings
    /// (Qwen3.5).
    ///
    /// # Errors
    /// The template fails, or refuses the conversation by `raise_exception`.
    pub fn render(&self, conversation: &Conversation, options: RenderOptions) -> Result<String, TextError> {
        let first = self.render_once(conversation, options);
        match (&first, conversation.with_parsed_arguments()) {
            (Err(_), Some(parsed)) => self.render_once(&parsed, options).or(first),
            _ => first,
        }
    }

    fn render_once(&self, conversation: &Conversation, options: RenderOptions) -> Result<String, TextError> {
        let tools = conversation.tools();
        let wanted = if tools.is_some() { "tool_use" } else { "default" };
        let name = self.names.iter().find(|n| *n == wanted).or(self.names.first());
        let name = name.ok_or(TextError::NoTemplate)?;
        let mut context: Vec<(String, Value)> = self
            .tokens
            .iter()
            .map(|(k, v)| (k.clone(), Value::from(v.as_str())))
            .collect();
        let messages: Value = conversation.messages().iter().map(values::from_json).collect();
        let tools = tools.map_or(Value::from(()), |t| t.iter().map(values::from_json).collect());
        context.push(("messages".to_owned(), messages));
        context.push(("tools".to_owned(), tools));
        context.push(("documents".to_owned(), Value::from(())));
        context.push((
            "add_generation_prompt".to_owned(),
            Value::from(options.generation_prompt),
        ));
        if let Some(on) = options.thinking {
            context.push(("enable_thinking".to_owned(), Value::from(on)));
        }
        let template = self.environment.get_template(name);
        template
            .and_then(|t| t.render(values::map_of(context.into_iter())))
            .map_err(|e| TextError::Template(describe(&e)))
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_fuel(Some(FUEL));
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build();
    environment.set_syntax(syntax.unwrap_or_default());
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_unknown_method_callback(python::method);
    environment.set_formatter(|out, _, value| {
        if let Some(text) = value.as_str() {
            out.write_str(text)?;
        } else {
            out.write_str(&python::text(value))?;
        }
        Ok(())
    });
    environment.add_filter("tojson", python::tojson);
    environment.add_filter("trim", python::trim);
    environment.add_filter("string", |value: &Value| python::text(value));
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", |format: String| -> Result<String, Error> {
        clock::now(&format).map_err(|reason| Error::new(ErrorKind::InvalidOperation, reason))
    });
    environment
}

/// `chat_template` of a configuration: one, or several by name.
fn sources(template: &Json) -> Result<Vec<(String, String)>, String> {
    match template {
        Json::String(source) => Ok(vec![("default".to_owned(), source.clone())]),
        Json::Array(list) => {
            let field = |item: &Json, name: &str| item.get(name).and_then(Json::as_str).map(str::to_owned);
            let named: Option<Vec<_>> = list
                .iter()
                .map(|item| Some((field(item, "name")?, field(item, "template")?)))
                .collect();
            let named = named.ok_or("chat_template: an entry lacks `name` or `template`")?;
            if !named.iter().any(|(name, _)| name == "default") {
                return Err("chat_template: none of the templates is called \"default\"".to_owned());
            }
            Ok(named)
        }
        _ => Err("chat_template: neither a string nor a list of named templates".to_owned()),
    }
}

/// Entries `*_token` of a configuration, as strings.
fn special_tokens(config: &Json) -> Vec<(String, String)> {
    let Json::Object(fields) = config else {
        return Vec::new();
    };
    let text = |v: &Json| {
        v.as_str()
            .or_else(|| v.get("content")?.as_str())
            .map(str::to_owned)
    };
    fields
        .iter()
        .filter(|(name, _)| name.ends_with("_token"))
        .filter_map(|(name, value)| Some((name.clone(), text(value)?)))
        .collect()
}

fn in_file(path: &Path, error: &TextError) -> TextError {
    TextError::file(path, error)
}

/// What the engine says, with the line of the template.
fn describe(error: &Error) -> String {
    if error.kind() == ErrorKind::OutOfFuel {
        return format!("it takes more than {FUEL} steps");
    }
    let what = error
        .detail()
        .map_or_else(|| error.kind().to_string(), str::to_owned);
    match error.line() {
        Some(line) => format!("{what} (line {line} of the template)"),
        None => what,
    }
}
