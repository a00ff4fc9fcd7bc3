//! Chat templates, rendered as `transformers` renders them.

use std::path::{Path, PathBuf};

use jiff::civil::DateTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value};
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, context};
use minijinja_contrib::pycompat::unknown_method_callback;

use crate::python;
use crate::{Error, Json, Message};

const NAME: &str = "chat template";
/// The names reasoning goes by, the one that templates read first.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// A compiled chat template with the special tokens it may name.
#[derive(Clone, Debug)]
pub(crate) struct ChatTemplate {
    path: PathBuf,
    environment: Environment<'static>,
}

impl ChatTemplate {
    /// Compiles a template; `path` is named in errors, `special_tokens` are pairs such as `("eos_token", "<|im_end|>")`.
    pub(crate) fn new(path: &Path, source: &str, special_tokens: &[(String, String)]) -> Result<Self, Error> {
        let mut environment = Environment::new();
        environment.set_syntax(
            SyntaxConfig::builder()
                .trim_blocks(true)
                .lstrip_blocks(true)
                .build()
                .expect("the default delimiters are valid"),
        );
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_unknown_method_callback(unknown_method_callback);
        environment.set_formatter(|out, _, value| {
            out.write_str(&python::display(value))
                .map_err(|_| minijinja::Error::new(ErrorKind::WriteFailure, "out of memory"))
        });
        environment.add_filter("tojson", to_json);
        environment.add_filter("string", |value: &Value| python::display(value));
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", no_clock);
        for (name, token) in special_tokens {
            environment.add_global(name.clone(), token.clone());
        }
        environment
            .add_template_owned(NAME, without_generation_tags(source))
            .map_err(|error| Error::Render { path: path.into(), reason: reason(&error) })?;
        Ok(Self { path: path.into(), environment })
    }

    /// Fixes what `strftime_now` in the template says.
    pub(crate) fn set_now(&mut self, now: DateTime) {
        self.environment.add_function("strftime_now", move |format: &str| {
            jiff::fmt::strtime::format(format, now)
                .map_err(|error| minijinja::Error::new(ErrorKind::InvalidOperation, error.to_string()))
        });
    }

    pub(crate) fn render(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String, Error> {
        let messages: Vec<Value> = messages.iter().map(to_value).collect();
        self.environment
            .get_template(NAME)
            .and_then(|template| {
                template.render(context! {
                    messages, add_generation_prompt, tools => (), documents => (),
                })
            })
            .map_err(|error| Error::Render { path: self.path.clone(), reason: reason(&error) })
    }
}

/// Gives a message as the template sees it: null keys left out, reasoning under all the names it goes by.
fn to_value(message: &Message) -> Value {
    let mut entries = vec![("role".to_owned(), Value::from(message.role.as_str()))];
    if let Some(content) = &message.content {
        entries.push(("content".to_owned(), Value::from(content.as_str())));
    }
    let not_null = |key: &str| message.extra.get(key).map(json_value).filter(|value| !value.is_none());
    entries.extend(message.extra.iter().filter_map(|(key, _)| Some((key.to_owned(), not_null(key)?))));
    if let Some(reasoning) = REASONING.into_iter().find_map(not_null) {
        if not_null("thinking").is_none() {
            entries.push(("thinking".to_owned(), reasoning.clone()));
        }
        if not_null("reasoning_content").is_none() {
            entries.push(("reasoning_content".to_owned(), reasoning));
        }
    }
    Value::from_pairs(entries)
}

fn json_value(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(b) => Value::from(*b),
        Json::Number(n) => match (n.as_u64(), n.as_i64()) {
            (Some(n), _) => Value::from(n),
            (None, Some(n)) => Value::from(n),
            (None, None) => Value::from(n.as_f64()),
        },
        Json::String(s) => Value::from(s.as_str()),
        Json::Array(items) => items.iter().map(json_value).collect(),
        Json::Object(object) => Value::from_pairs(object.iter().map(|(key, value)| (key, json_value(value)))),
    }
}

fn raise_exception(message: &str) -> Result<Value, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, format!("the template says: {message}")))
}

/// The clock would make prompts differ between a run and its resumption.
fn no_clock(_format: &str) -> Result<Value, minijinja::Error> {
    let detail = "the template prints today's date; fix one for the whole run with Tokenizer::with_now";
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, detail))
}

fn to_json(value: &Value, kwargs: Kwargs) -> Result<String, minijinja::Error> {
    let indent: Option<usize> = kwargs.get("indent")?;
    let sort_keys: Option<bool> = kwargs.get("sort_keys")?;
    let ensure_ascii: Option<bool> = kwargs.get("ensure_ascii")?;
    kwargs.assert_all_used()?;
    python::json(
        value,
        python::JsonStyle {
            indent,
            sort_keys: sort_keys.unwrap_or(false),
            ensure_ascii: ensure_ascii.unwrap_or(false),
        },
    )
}

fn reason(error: &minijinja::Error) -> String {
    match (error.detail(), error.line()) {
        (Some(detail), Some(line)) => format!("{detail} (line {line} of the template)"),
        (Some(detail), None) => detail.into(),
        (None, Some(line)) => format!("{} (line {line} of the template)", error.kind()),
        (None, None) => error.kind().to_string(),
    }
}

/// Turns the `generation` tags of `transformers`, which mark the assistant's words, into tags that change nothing.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(end) = rest[start..].find("%}").map(|end| start + end) else { break };
        let (before, tag) = (&rest[..start + 2], &rest[start + 2..end]);
        out.push_str(before);
        match tag.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+') {
            "generation" => out.push_str(&tag.replace("generation", "if true")),
            "endgeneration" => out.push_str(&tag.replace("endgeneration", "endif")),
            _ => out.push_str(tag),
        }
        rest = &rest[end..];
    }
    out + rest
}
