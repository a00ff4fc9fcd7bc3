//! Text to token ids and back, as `transformers` does it.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::template::ChatTemplate;
use crate::tokenizer_files::TokenizerFiles;
use crate::{Error, Message};

/// The tokenizer and the chat template of a Hugging Face model directory.
///
/// Gives the ids that `AutoTokenizer.from_pretrained(dir)` gives. The two things it leaves to the caller:
/// no text gets special tokens around it (chat templates write them), and the template cannot read the clock.
#[derive(Clone)]
pub struct Tokenizer {
    dir: PathBuf,
    inner: tokenizers::Tokenizer,
    template: Option<ChatTemplate>,
    vocab_size: usize,
    eos_ids: Vec<u32>,
    pad_id: Option<u32>,
}

impl Tokenizer {
    /// Reads `tokenizer.json`, `tokenizer_config.json` and, where they exist, `chat_template.jinja`,
    /// `generation_config.json` and `config.json`.
    ///
    /// # Errors
    /// When a file is missing or wrong, a special token is not in the vocabulary, the template does not compile, or no
    /// file names a token that ends an answer.
    pub fn from_dir(dir: impl AsRef<Path>) -> Result<Self, Error> {
        let files = TokenizerFiles::read(dir.as_ref())?;
        let inner = files.tokenizer()?;
        let token_id = |token: &str| inner.token_to_id(token);
        let eos_ids = files.eos_ids(token_id)?;
        let pad_id = files.pad_id(token_id)?;
        let template = files.chat_template()?;
        let vocab_size = inner.get_vocab(true).into_values().max().map_or(0, |id| id as usize + 1);
        Ok(Self { dir: dir.as_ref().into(), inner, template, vocab_size, eos_ids, pad_id })
    }

    /// Fixes the date that a template sees when it asks for today's.
    ///
    /// Take it from the run's configuration, not from the clock, or a resumed run has other prompts.
    #[must_use]
    pub fn with_now(mut self, now: jiff::civil::DateTime) -> Self {
        if let Some(template) = &mut self.template {
            template.set_now(now);
        }
        self
    }

    /// Gives the ids of a text; special tokens written out in it become their ids, none are added.
    ///
    /// # Errors
    /// [`Error::Tokenize`] when the tokenizer has no token for a part of the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        let encoding = self.inner.encode_fast(text, false).map_err(|error| self.failed("encode", &error))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Gives the text of ids; ids without a token (spare rows of a model) are left out.
    ///
    /// # Errors
    /// [`Error::Tokenize`] when the decoder fails.
    pub fn decode(&self, ids: &[u32], skip_special_tokens: bool) -> Result<String, Error> {
        self.inner.decode(ids, skip_special_tokens).map_err(|error| self.failed("decode", &error))
    }

    /// Renders a conversation with the chat template, `add_generation_prompt` opening the assistant's turn.
    ///
    /// # Errors
    /// [`Error::NoTemplate`], or [`Error::Render`] when the template refuses the conversation.
    pub fn render_chat(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String, Error> {
        let template = self.template.as_ref().ok_or_else(|| Error::NoTemplate { path: self.dir.clone() })?;
        template.render(messages, add_generation_prompt)
    }

    /// Gives the ids of a rendered conversation: [`render_chat`](Self::render_chat), then [`encode`](Self::encode).
    ///
    /// # Errors
    /// Those of both.
    pub fn encode_chat(&self, messages: &[Message], add_generation_prompt: bool) -> Result<Vec<u32>, Error> {
        self.encode(&self.render_chat(messages, add_generation_prompt)?)
    }

    /// The largest id the tokenizer can produce, plus one: the fewest embedding rows a model must have.
    #[must_use]
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// The ids that end an answer, at least one, the tokenizer's own `eos_token` first.
    #[must_use]
    pub fn eos_ids(&self) -> &[u32] {
        &self.eos_ids
    }

    /// The id that fills up short rows of a batch, if the files name one.
    #[must_use]
    pub fn pad_id(&self) -> Option<u32> {
        self.pad_id
    }

    /// The directory the tokenizer came from, as it was given.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn failed(&self, operation: &'static str, reason: &tokenizers::Error) -> Error {
        Error::Tokenize { operation, path: self.dir.clone(), reason: reason.to_string() }
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer")
            .field("dir", &self.dir)
            .field("vocab_size", &self.vocab_size)
            .field("eos_ids", &self.eos_ids)
            .field("pad_id", &self.pad_id)
            .finish_non_exhaustive()
    }
}
