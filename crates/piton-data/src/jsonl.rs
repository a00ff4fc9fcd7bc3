//! From the bytes of a line to a row, or to what is wrong with the line.

use serde_json::error::Category;

use crate::fault::{Fault, Place};
use crate::{Json, Message, Object, RewardModel, Row};

const EXAMPLE: &str = r#"{"data_source": "chain_sum", "prompt": [{"role": "user", "content": "1 + 1 ="}], "reward_model": {"style": "rule", "ground_truth": "2"}}"#;
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Splits a file into lines without their LF or CRLF; a final line end makes no further line.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .strip_suffix(b"\n")
        .unwrap_or(bytes)
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// Parses one line.
pub(crate) fn parse_row(line: &[u8]) -> Result<Row, Vec<Fault>> {
    let json = parse_json(line).map_err(|fault| vec![fault])?;
    let Json::Object(object) = json else {
        return Err(vec![fault(
            Place::Line,
            kind(Some(&json)),
            "a JSON object",
            format!("write a row such as {EXAMPLE}"),
        )]);
    };
    Checker::default().row(object)
}

fn parse_json(line: &[u8]) -> Result<Json, Fault> {
    if line.starts_with(BOM) {
        let fix =
            "save the file as UTF-8 without BOM, or remove it with: sed -i '1s/^\\xEF\\xBB\\xBF//' FILE";
        return Err(fault(Place::Column(1), "a byte order mark (EF BB BF)", "a JSON object", fix));
    }
    if line.trim_ascii().is_empty() {
        return Err(fault(Place::Line, "an empty line", "a JSON object", "delete the line"));
    }
    if let Err(error) = std::str::from_utf8(line) {
        let at = error.valid_up_to();
        let found = format!("byte {:#04X}, which is not UTF-8", line[at]);
        return Err(fault(Place::Column(at + 1), found, "UTF-8 text", "save the file as UTF-8"));
    }
    serde_json::from_slice(line).map_err(|error| syntax_fault(line, &error))
}

fn syntax_fault(line: &[u8], error: &serde_json::Error) -> Fault {
    let message = error.to_string();
    let reason = message.rsplit_once(" at line").map_or(message.as_str(), |(reason, _)| reason);
    let place = Place::Column(error.column().max(1));
    if error.classify() == Category::Eof {
        let fix = "complete the line, or delete it: was the file cut while it was written?";
        return fault(place, format!("the end of the line ({reason})"), "the rest of a JSON object", fix);
    }
    let text = String::from_utf8_lossy(line);
    let not_json = format!("text that is not JSON ({reason})");
    let (found, fix) = if reason.contains("surrogate") || reason.contains("hex escape") {
        ("half of a surrogate pair", r"write both halves, as in \ud83d\ude00, or the character itself")
    } else if reason.contains("control character") {
        ("a raw control character in a string", r"write \n for a line break and \t for a tab")
    } else if reason.contains("trailing characters") {
        ("more text after the object", "write one object a line, and nothing after it")
    } else if reason.contains("stands twice") {
        (reason, "keep one of the two")
    } else if text.contains("NaN") || text.contains("Infinity") {
        (not_json.as_str(), "write a finite number: JSON has no NaN and no Infinity")
    } else if text.contains('\'') && !text.contains('"') {
        (
            not_json.as_str(),
            "write keys and strings in double quotes: a Python dict is not JSON, use json.dumps",
        )
    } else {
        (not_json.as_str(), "correct the JSON")
    };
    fault(place, found, "a JSON object", fix)
}

/// Collects every fault of one row.
#[derive(Default)]
struct Checker {
    faults: Vec<Fault>,
}

impl Checker {
    fn row(mut self, mut object: Object) -> Result<Row, Vec<Fault>> {
        let data_source = self.string(
            object.remove("data_source"),
            "data_source",
            "name the source, for example \"chain_sum\"",
        );
        let prompt = self.prompt(object.remove("prompt"));
        let reward_model = self.reward_model(object.remove("reward_model"));
        let extra_info = match object.remove("extra_info") {
            None | Some(Json::Null) => Object::default(),
            Some(Json::Object(info)) => info,
            other => self
                .wrong(
                    "extra_info",
                    other.as_ref(),
                    "an object",
                    "write {\"index\": 0}, or leave the key out",
                )
                .unwrap_or_default(),
        };
        match (data_source, prompt, reward_model) {
            (Some(data_source), Some(prompt), Some(reward_model)) if self.faults.is_empty() => {
                Ok(Row { data_source, prompt, reward_model, extra_info: extra_info.into() })
            }
            _ => Err(self.faults),
        }
    }

    fn prompt(&mut self, value: Option<Json>) -> Option<Vec<Message>> {
        let expected = "an array of chat messages";
        let fix = r#"write [{"role": "user", "content": "..."}]"#;
        match value {
            Some(Json::Array(items)) if items.is_empty() => {
                self.faults.push(fault(
                    Place::Field("prompt".into()),
                    "an empty array",
                    "at least one chat message",
                    fix,
                ));
                None
            }
            Some(Json::Array(items)) => {
                let messages: Vec<_> = items
                    .into_iter()
                    .enumerate()
                    .map(|(i, item)| self.message(&format!("prompt[{i}]"), item))
                    .collect();
                messages.into_iter().collect()
            }
            other => self.wrong("prompt", other.as_ref(), expected, fix),
        }
    }

    fn message(&mut self, field: &str, value: Json) -> Option<Message> {
        let Json::Object(mut object) = value else {
            return self.wrong(
                field,
                Some(&value),
                "a chat message",
                r#"write {"role": "user", "content": "..."}"#,
            );
        };
        let role = self.string(
            object.remove("role"),
            &format!("{field}.role"),
            "write \"system\", \"user\", \"assistant\" or \"tool\"",
        );
        let calls_tools = matches!(object.get("tool_calls"), Some(Json::Array(calls)) if !calls.is_empty());
        let content = match object.remove("content") {
            None | Some(Json::Null) if calls_tools => None,
            other => {
                Some(self.string(other, &format!("{field}.content"), "write the text of the message")?)
            }
        };
        Some(Message { role: role?, content, extra: object })
    }

    fn reward_model(&mut self, value: Option<Json>) -> Option<RewardModel> {
        let fix = r#"write {"style": "rule", "ground_truth": "..."}"#;
        let Some(Json::Object(mut object)) = value else {
            return self.wrong("reward_model", value.as_ref(), "an object", fix);
        };
        let style = self.string(object.remove("style"), "reward_model.style", "write \"rule\"");
        let ground_truth = match object.remove("ground_truth") {
            None | Some(Json::Null) => {
                let found = "null or nothing";
                self.faults.push(fault(
                    Place::Field("reward_model.ground_truth".into()),
                    found,
                    "the right answer",
                    fix,
                ));
                None
            }
            Some(truth) => Some(truth.into()),
        };
        Some(RewardModel { style: style?, ground_truth: ground_truth? })
    }

    fn string(&mut self, value: Option<Json>, field: &str, fix: &str) -> Option<String> {
        match value {
            Some(Json::String(text)) => Some(text),
            other => self.wrong(field, other.as_ref(), "a string", fix),
        }
    }

    fn wrong<T>(&mut self, field: &str, found: Option<&Json>, expected: &str, fix: &str) -> Option<T> {
        self.faults.push(fault(Place::Field(field.into()), kind(found), expected, fix));
        None
    }
}

fn kind(value: Option<&Json>) -> &'static str {
    match value {
        None => "no such key",
        Some(Json::Null) => "null",
        Some(Json::Bool(_)) => "a boolean",
        Some(Json::Number(_)) => "a number",
        Some(Json::String(_)) => "a string",
        Some(Json::Array(_)) => "an array",
        Some(Json::Object(_)) => "an object",
    }
}

fn fault(
    place: Place,
    found: impl Into<String>,
    expected: impl Into<String>,
    fix: impl Into<String>,
) -> Fault {
    Fault { line: 0, place, found: found.into(), expected: expected.into(), fix: fix.into() }
}
