//! Token ids are those of transformers; `fixtures/golden/data.py` makes the expected ones.

use std::fs;
use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use piton_data::{Error, Message, Tokenizer};
use serde::Deserialize;
use tempfile::TempDir;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

fn model() -> PathBuf {
    fixtures().join("models/chain-sum")
}

/// A tokenizer directory: that of the model, with files changed or added.
fn directory(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().expect("a folder");
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(model().join(name), dir.path().join(name)).expect("copied");
    }
    for (name, text) in files {
        fs::write(dir.path().join(name), text).expect("written");
    }
    dir
}

fn load_error(files: &[(&str, &str)]) -> String {
    let dir = directory(files);
    let error = Tokenizer::from_dir(dir.path()).expect_err("a wrong directory").to_string();
    error.replace(&dir.path().display().to_string(), "DIR")
}

#[derive(Deserialize)]
struct Case {
    template: Option<String>,
    chat: String,
    messages: Vec<Message>,
    add_generation_prompt: bool,
    text: String,
    ids: Vec<u32>,
}

#[test]
fn conversations_give_the_text_and_the_ids_of_transformers() {
    let golden = fixtures().join("golden/data");
    let cases = fs::read_to_string(golden.join("chats.json")).expect("golden file");
    let cases: Vec<Case> = serde_json::from_str(&cases).expect("golden cases");
    assert_eq!(cases.len(), 28);
    for case in cases {
        let template =
            case.template.as_ref().map(|name| fs::read_to_string(golden.join(name)).expect("a template"));
        // beside a tokenizer_config.json with another template: the file wins
        let files: Vec<_> = template.iter().map(|source| ("chat_template.jinja", source.as_str())).collect();
        let tokenizer = Tokenizer::from_dir(directory(&files).path()).expect("a tokenizer");
        let name =
            format!("{:?}, {}, generation prompt: {}", case.template, case.chat, case.add_generation_prompt);
        let text = tokenizer.render_chat(&case.messages, case.add_generation_prompt).expect("rendered");
        assert_eq!(text, case.text, "{name}");
        assert_eq!(
            tokenizer.encode_chat(&case.messages, case.add_generation_prompt).expect("encoded"),
            case.ids,
            "{name}"
        );
    }
}

#[test]
fn every_digit_is_a_token_and_every_text_comes_back() {
    let tokenizer = Tokenizer::from_dir(model()).expect("a tokenizer");
    assert_eq!(tokenizer.encode("-1024").expect("encoded").len(), 5);
    for text in ["-14", "naïve 漢字 😀\r\n\t", " two  spaces ", ""] {
        let ids = tokenizer.encode(text).expect("encoded");
        assert_eq!(tokenizer.decode(&ids, false).expect("decoded"), text);
    }
}

#[test]
fn special_tokens_are_left_out_on_request_and_spare_rows_say_nothing() {
    let tokenizer = Tokenizer::from_dir(model()).expect("a tokenizer");
    let ids = tokenizer.encode("55<|im_end|>").expect("encoded");
    assert_eq!(ids.last(), tokenizer.eos_ids().first());
    assert_eq!(tokenizer.decode(&ids, false).expect("decoded"), "55<|im_end|>");
    assert_eq!(tokenizer.decode(&ids, true).expect("decoded"), "55");
    let spare = u32::try_from(tokenizer.vocab_size()).expect("small");
    assert_eq!(tokenizer.decode(&[spare], false).expect("decoded"), "");
}

#[test]
fn ends_come_from_the_tokenizer_first_and_then_from_the_generation_config() {
    let ids = |files: &[(&str, &str)]| {
        Tokenizer::from_dir(directory(files).path()).expect("a tokenizer").eos_ids().to_vec()
    };
    let own = ids(&[]);
    assert_eq!(own.len(), 1);
    assert_eq!(ids(&[("generation_config.json", r#"{"eos_token_id": [7, 8]}"#)]), [own[0], 7, 8]);
    assert_eq!(ids(&[("config.json", r#"{"eos_token_id": 9}"#)]), [own[0], 9]);
    let both =
        [("generation_config.json", r#"{"eos_token_id": 7}"#), ("config.json", r#"{"eos_token_id": 9}"#)];
    assert_eq!(ids(&both), [own[0], 7]);
}

#[test]
fn wrong_directories_are_explained() {
    assert_snapshot!(load_error(&[("tokenizer.json", "{}")]), @r#"cannot use the tokenizer file DIR/tokenizer.json: found Model missing. at line 1 column 2, expected a tokenizer of the `tokenizers` library; save the tokenizer again with a current version of `tokenizers`"#);
    assert_snapshot!(load_error(&[("tokenizer_config.json", "{}")]), @r#"cannot use the tokenizer file DIR/tokenizer_config.json: found no eos_token, here or in generation_config.json or config.json, expected one; name the token that ends an answer, for example "eos_token": "<|im_end|>""#);
    assert_snapshot!(load_error(&[("tokenizer_config.json", r#"{"eos_token": "</s>"}"#)]), @r#"cannot use the tokenizer file DIR/tokenizer_config.json: found eos_token "</s>", which tokenizer.json does not know, expected a token of the vocabulary; correct one of the two files"#);
    assert_snapshot!(load_error(&[("chat_template.jinja", "{% if %}")]), @r#"cannot render a conversation with the chat template of DIR/chat_template.jinja: unexpected end of block (line 1 of the template)"#);
    assert_snapshot!(Tokenizer::from_dir("no/such").expect_err("no folder"), @r#"cannot read no/such/tokenizer.json: No such file or directory (os error 2); check that the file exists and may be read"#);
}

#[test]
fn templates_that_refuse_say_why() {
    let error = |source: &str| {
        let dir = directory(&[("chat_template.jinja", source)]);
        let tokenizer = Tokenizer::from_dir(dir.path()).expect("a tokenizer");
        let error =
            tokenizer.render_chat(&[Message::new("user", "hi")], true).expect_err("refused").to_string();
        error.replace(&dir.path().display().to_string(), "DIR")
    };
    assert_snapshot!(error("\n{{ raise_exception('roles must alternate') }}"), @r#"cannot render a conversation with the chat template of DIR/chat_template.jinja: the template says: roles must alternate (line 2 of the template)"#);
    assert_snapshot!(error("{{ messages[0].tools.name }}"), @r#"cannot render a conversation with the chat template of DIR/chat_template.jinja: `messages[0].tools` is undefined (line 1 of the template)"#);
    assert_snapshot!(error("{{ strftime_now('%Y') }}"), @r#"cannot render a conversation with the chat template of DIR/chat_template.jinja: the template prints today's date; fix one for the whole run with Tokenizer::with_now (line 1 of the template)"#);
}

#[test]
fn the_date_is_the_one_that_was_given() {
    let dir = directory(&[("chat_template.jinja", "{{ strftime_now('%d %b %Y, %B %-d %H:%M') }}")]);
    let now = "2026-07-04T09:05:00".parse().expect("a time");
    let tokenizer = Tokenizer::from_dir(dir.path()).expect("a tokenizer").with_now(now);
    assert_eq!(tokenizer.render_chat(&[], false).expect("rendered"), "04 Jul 2026, July 4 09:05");
}

#[test]
fn a_directory_without_a_template_still_encodes_text() {
    let dir = directory(&[("tokenizer_config.json", r#"{"eos_token": {"content": "<|im_end|>"}}"#)]);
    let tokenizer = Tokenizer::from_dir(dir.path()).expect("a tokenizer");
    assert_eq!(tokenizer.encode("12").expect("encoded").len(), 2);
    assert!(matches!(tokenizer.render_chat(&[], true), Err(Error::NoTemplate { .. })));
}
