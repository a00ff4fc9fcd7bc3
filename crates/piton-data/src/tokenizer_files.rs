//! The files of a model directory that say how text becomes ids.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::{Map, Value};

use crate::Error;
use crate::template::ChatTemplate;

const TOKENIZER: &str = "tokenizer.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const TEMPLATE: &str = "chat_template.jinja";
const SPECIAL_TOKENS: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// What the files say, still unchecked against each other.
pub(crate) struct TokenizerFiles {
    dir: PathBuf,
    tokenizer_json: Vec<u8>,
    config: Map<String, Value>,
    generation: Map<String, Value>,
    template: Option<(PathBuf, String)>,
}

impl TokenizerFiles {
    pub(crate) fn read(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(TOKENIZER);
        let tokenizer_json = fs::read(&path).map_err(|source| Error::Read { path, source })?;
        let path = dir.join(TOKENIZER_CONFIG);
        let config = read_object(&path)?
            .ok_or_else(|| Error::Read { path, source: io::ErrorKind::NotFound.into() })?;
        let generation = match read_object(&dir.join("generation_config.json"))? {
            Some(generation) if generation.contains_key("eos_token_id") => generation,
            _ => read_object(&dir.join("config.json"))?.unwrap_or_default(),
        };
        let template = template_source(dir, &config)?;
        Ok(Self { dir: dir.into(), tokenizer_json, config, generation, template })
    }

    pub(crate) fn tokenizer(&self) -> Result<tokenizers::Tokenizer, Error> {
        let mut tokenizer = tokenizers::Tokenizer::from_bytes(&self.tokenizer_json).map_err(|error| {
            let fix = "save the tokenizer again with a current version of `tokenizers`";
            self.wrong(TOKENIZER, format!("{error}"), "a tokenizer of the `tokenizers` library", fix)
        })?;
        // `transformers` cuts and pads only on request, whatever the file says.
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| {
            self.wrong(
                TOKENIZER,
                format!("{error}"),
                "a tokenizer that does not truncate",
                "remove `truncation` from the file",
            )
        })?;
        Ok(tokenizer)
    }

    pub(crate) fn chat_template(&self) -> Result<Option<ChatTemplate>, Error> {
        let Some((path, source)) = &self.template else { return Ok(None) };
        let tokens: Vec<_> = SPECIAL_TOKENS
            .iter()
            .filter_map(|key| Some(((*key).to_owned(), self.special_token(key)?.to_owned())))
            .collect();
        ChatTemplate::new(path, source, &tokens).map(Some)
    }

    /// The tokenizer's `eos_token`, then what the generation config (or else the model's) names.
    pub(crate) fn eos_ids(&self, token_id: impl Fn(&str) -> Option<u32>) -> Result<Vec<u32>, Error> {
        let mut ids: Vec<u32> = self.id_of("eos_token", token_id)?.into_iter().collect();
        let named = match self.generation.get("eos_token_id") {
            Some(Value::Array(ids)) => ids.as_slice(),
            Some(id) => std::slice::from_ref(id),
            None => &[],
        };
        for id in named.iter().filter_map(Value::as_u64).filter_map(|id| u32::try_from(id).ok()) {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        if ids.is_empty() {
            let fix = "name the token that ends an answer, for example \"eos_token\": \"<|im_end|>\"";
            return Err(self.wrong(
                TOKENIZER_CONFIG,
                "no eos_token, here or in generation_config.json or config.json",
                "one",
                fix,
            ));
        }
        Ok(ids)
    }

    pub(crate) fn pad_id(&self, token_id: impl Fn(&str) -> Option<u32>) -> Result<Option<u32>, Error> {
        self.id_of("pad_token", token_id)
    }

    fn id_of(&self, key: &str, token_id: impl Fn(&str) -> Option<u32>) -> Result<Option<u32>, Error> {
        let Some(token) = self.special_token(key) else { return Ok(None) };
        let Some(id) = token_id(token) else {
            let found = format!("{key} {token:?}, which {TOKENIZER} does not know");
            return Err(self.wrong(
                TOKENIZER_CONFIG,
                found,
                "a token of the vocabulary",
                "correct one of the two files",
            ));
        };
        Ok(Some(id))
    }

    /// A token is written as a string or as an object with `content`.
    fn special_token(&self, key: &str) -> Option<&str> {
        let value = self.config.get(key)?;
        value.as_str().or_else(|| value.get("content")?.as_str())
    }

    fn wrong(&self, file: &str, found: impl Into<String>, expected: &str, fix: &str) -> Error {
        Error::TokenizerFile {
            path: self.dir.join(file),
            found: found.into(),
            expected: expected.into(),
            fix: fix.into(),
        }
    }
}

/// The template's own file wins over the one in the configuration, as in `transformers`.
fn template_source(dir: &Path, config: &Map<String, Value>) -> Result<Option<(PathBuf, String)>, Error> {
    let path = dir.join(TEMPLATE);
    match fs::read_to_string(&path) {
        Ok(source) => return Ok(Some((path, source))),
        Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(Error::Read { path, source }),
        Err(_) => {}
    }
    let path = dir.join(TOKENIZER_CONFIG);
    match config.get("chat_template") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(source)) => Ok(Some((path, source.clone()))),
        Some(Value::Array(named)) => {
            let default = named.iter().find(|entry| entry["name"] == "default");
            match default.and_then(|entry| entry["template"].as_str()) {
                Some(source) => Ok(Some((path, source.into()))),
                None => Err(wrong_template(path, "several templates, none named `default`")),
            }
        }
        Some(_) => Err(wrong_template(path, "a chat_template that is no string")),
    }
}

fn wrong_template(path: PathBuf, found: &str) -> Error {
    let fix = format!("write the template as a string, or into {TEMPLATE} beside it");
    Error::TokenizerFile { path, found: found.into(), expected: "one chat template".into(), fix }
}

/// Reads a JSON object; `None` when there is no such file.
fn read_object(path: &Path) -> Result<Option<Map<String, Value>>, Error> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::Read { path: path.into(), source }),
    };
    serde_json::from_slice(&text).map(Some).map_err(|error| Error::TokenizerFile {
        path: path.into(),
        found: error.to_string(),
        expected: "a JSON object".into(),
        fix: "correct the file".into(),
    })
}
