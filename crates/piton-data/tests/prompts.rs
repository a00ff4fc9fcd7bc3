//! Which rows become prompts, and what is said of the others.

use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use piton_data::{Counts, Dataset, Prompts, Tokenizer};
use piton_rng::Seed;

fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/chain-sum")
}

/// Prompts of 10 + 2 * `lengths[i]` tokens: each digit and each space is one.
fn dataset(lengths: &[usize]) -> Dataset {
    let line = |length: &usize| {
        let content = "1\\n".repeat(*length);
        format!(
            r#"{{"data_source":"unit","prompt":[{{"role":"user","content":"{content}"}}],"reward_model":{{"style":"rule","ground_truth":"1"}}}}"#
        )
    };
    let text: Vec<_> = lengths.iter().map(line).collect();
    Dataset::from_jsonl("train.jsonl", text.join("\n").as_bytes()).expect("well formed")
}

fn tokenize(lengths: &[usize], max_length: Option<usize>) -> Result<Prompts, piton_data::Error> {
    Prompts::tokenize(&dataset(lengths), &Tokenizer::from_dir(model()).expect("a tokenizer"), max_length)
}

#[test]
fn prompts_over_the_limit_are_left_out_and_counted() {
    let all = tokenize(&[1, 2, 3, 4], None).expect("prompts");
    let lengths: Vec<_> = all.as_slice().iter().map(|prompt| prompt.token_ids.len()).collect();
    let limit = lengths[1];
    let kept = tokenize(&[4, 1, 3, 2], Some(limit)).expect("prompts");
    assert_eq!(kept.counts(), Counts { read: 4, kept: 2, skipped: 2 });
    assert_eq!(kept.as_slice().iter().map(|prompt| prompt.line).collect::<Vec<_>>(), [2, 4]);
    assert!(kept.as_slice().iter().all(|prompt| prompt.token_ids.len() <= limit));
}

#[test]
fn the_digest_sees_what_the_limit_leaves_out() {
    let digest = |limit| tokenize(&[1, 2, 30], limit).expect("prompts").digest().to_owned();
    assert_eq!(digest(None), digest(Some(1_000)));
    assert_ne!(digest(None), digest(Some(30)));
}

#[test]
fn a_sampler_of_prompts_carries_their_digest() {
    let prompts = tokenize(&[1, 2, 3], None).expect("prompts");
    let state = prompts.sampler("unit", Seed(1)).state();
    assert_eq!((state.rows.get(), state.dataset_digest.as_str()), (3, prompts.digest()));
}

#[test]
fn a_file_of_over_long_prompts_is_refused() {
    assert_snapshot!(tokenize(&[5, 3, 4], Some(8)).expect_err("all too long"), @r#"no prompts left of train.jsonl: all 3 are longer than max_length = 8 tokens; the shortest has 14, so raise max_length to at least that"#);
}

#[test]
fn lines_that_the_template_refuses_are_all_named() {
    let dir = tempfile::TempDir::new().expect("a folder");
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(model().join(name), dir.path().join(name)).expect("copied");
    }
    let template =
        "{% if messages[0].content | length > 4 %}{{ raise_exception('too many words') }}{% endif %}x";
    std::fs::write(dir.path().join("chat_template.jinja"), template).expect("written");
    let tokenizer = Tokenizer::from_dir(dir.path()).expect("a tokenizer");
    let error = Prompts::tokenize(&dataset(&[1, 3, 2, 4]), &tokenizer, None)
        .expect_err("two lines are refused")
        .to_string();
    assert_snapshot!(error.replace(&dir.path().display().to_string(), "DIR"), @r#"
    cannot use the prompts in train.jsonl: 2 faults
      line 2, prompt: found a conversation that DIR/chat_template.jinja refuses (the template says: too many words (line 1 of the template)), expected one that the chat template accepts; change the messages or the template
      line 4, prompt: found a conversation that DIR/chat_template.jinja refuses (the template says: too many words (line 1 of the template)), expected one that the chat template accepts; change the messages or the template
    "#);
}
