//! Values written as Python writes them, since chat templates are made for it.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// `str(value)` of Python; an undefined value is the empty string, as in Jinja.
pub(crate) fn display(value: &Value) -> String {
    match value.kind() {
        ValueKind::Undefined => String::new(),
        ValueKind::String => value.to_string(),
        _ => repr(value),
    }
}

/// `repr(value)` of Python.
fn repr(value: &Value) -> String {
    match value.kind() {
        ValueKind::None => "None".into(),
        ValueKind::Bool => if value.is_true() { "True" } else { "False" }.into(),
        ValueKind::Number => number(value),
        ValueKind::String => quoted(value.as_str().unwrap_or_default()),
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<_> = value.try_iter().into_iter().flatten().map(|item| repr(&item)).collect();
            format!("[{}]", items.join(", "))
        }
        ValueKind::Map => {
            let keys = value.try_iter().into_iter().flatten();
            let entries: Vec<_> = keys
                .map(|k| format!("{}: {}", repr(&k), repr(&value.get_item(&k).unwrap_or_default())))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        _ => value.to_string(),
    }
}

/// Single quotes, unless the text has some and no double ones.
fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// Whole numbers as they are; floats in their shortest form, with an exponent from 1e16 on and below 1e-4.
fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    let Ok(x) = f64::try_from(value.clone()) else { return value.to_string() };
    let scientific = format!("{x:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return value.to_string() };
    match exponent.parse::<i32>() {
        Ok(e) if x != 0.0 && !(-4..16).contains(&e) => {
            format!("{digits}e{}{:02}", if e < 0 { '-' } else { '+' }, e.unsigned_abs())
        }
        _ => format!("{x:?}"),
    }
}

/// The options of `json.dumps` that templates use.
#[derive(Clone, Copy)]
pub(crate) struct JsonStyle {
    /// Spaces a level, each entry on its own line; `None` for one line.
    pub(crate) indent: Option<usize>,
    pub(crate) sort_keys: bool,
    pub(crate) ensure_ascii: bool,
}

/// `json.dumps(value)` of Python: a space after commas and colons.
pub(crate) fn json(value: &Value, style: JsonStyle) -> Result<String, Error> {
    let mut out = String::new();
    write_json(&mut out, value, style, 0)?;
    Ok(out)
}

fn write_json(out: &mut String, value: &Value, style: JsonStyle, depth: usize) -> Result<(), Error> {
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&number(value)),
        ValueKind::String => json_string(out, value.as_str().unwrap_or_default(), style.ensure_ascii),
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            write_entries(out, ['[', ']'], items.len(), style, depth, |out, i| {
                write_json(out, &items[i], style, depth + 1)
            })?;
        }
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if style.sort_keys {
                keys.sort();
            }
            write_entries(out, ['{', '}'], keys.len(), style, depth, |out, i| {
                json_string(out, &keys[i].to_string(), style.ensure_ascii);
                out.push_str(": ");
                write_json(out, &value.get_item(&keys[i])?, style, depth + 1)
            })?;
        }
        kind => {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("tojson: a value of kind {kind} is not JSON"),
            ));
        }
    }
    Ok(())
}

fn write_entries(
    out: &mut String,
    [open, close]: [char; 2],
    count: usize,
    style: JsonStyle,
    depth: usize,
    mut write_one: impl FnMut(&mut String, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let new_line = |out: &mut String, depth: usize| {
        if let Some(spaces) = style.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', spaces * depth));
        }
    };
    out.push(open);
    for i in 0..count {
        if i > 0 {
            out.push_str(if style.indent.is_some() { "," } else { ", " });
        }
        new_line(out, depth + 1);
        write_one(out, i)?;
    }
    if count > 0 {
        new_line(out, depth);
    }
    out.push(close);
    Ok(())
}

fn json_string(out: &mut String, text: &str, ensure_ascii: bool) {
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
            c if c < ' ' || (ensure_ascii && !c.is_ascii()) => {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
