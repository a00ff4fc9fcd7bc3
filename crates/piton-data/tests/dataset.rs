//! What a well-formed prompt file becomes.

use std::path::{Path, PathBuf};

use piton_data::{Dataset, Message};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

const LINE: &str = r#"{"data_source":"unit","prompt":[{"role":"user","content":"é?"}],"reward_model":{"style":"rule","ground_truth":"ok"},"extra_info":{"index":0,"b":1}}"#;

#[test]
fn rows_keep_what_a_trainer_uses() {
    let dataset = Dataset::read_jsonl(fixtures().join("prompts/mixed.jsonl")).expect("well formed");
    // Whether serde_json's map keeps the order of the file depends on features of other crates in the build.
    insta::with_settings!({ sort_maps => true }, { insta::assert_json_snapshot!(dataset.rows()) });
}

#[test]
fn crlf_and_a_missing_last_line_end_are_fine() {
    let unix = format!("{LINE}\n{LINE}\n");
    let windows = format!("{LINE}\r\n{LINE}");
    let parse = |text: &str| Dataset::from_jsonl("x", text.as_bytes()).expect("well formed");
    assert_eq!(parse(&unix).rows(), parse(&windows).rows());
    assert_eq!(parse(&unix).len(), 2);
}

#[test]
fn the_digest_sees_meaning_and_not_spelling() {
    let digest = |line: &str| Dataset::from_jsonl("x", line.as_bytes()).expect("well formed").digest();
    let original = digest(LINE);
    assert_eq!(digest(&LINE.replace(':', " : ").replace('é', "\\u00e9")), original);
    assert_eq!(digest(&LINE.replace(r#""index":0,"b":1"#, r#""b":1,"index":0"#)), original);
    assert_ne!(digest(&LINE.replace("ok", "no")), original);
    assert_ne!(digest(&format!("{LINE}\n{LINE}")), original);
}

#[test]
fn messages_survive_json_with_their_keys_in_order() {
    let text = r#"{"role":"assistant","tool_calls":[{"function":{"name":"add","arguments":{"z":1,"a":[2.5,null,true]}}}]}"#;
    let message: Message = serde_json::from_str(text).expect("a message");
    assert_eq!(serde_json::to_string(&message).expect("JSON"), text);
}

#[test]
fn files_of_a_task_share_no_prompt() {
    let mut checked = 0;
    for task in ["chain_sum", "basic_arithmetic", "spell_backward", "letter_counting"] {
        let mut seen = std::collections::BTreeMap::new();
        for file in ["train.jsonl", "heldout.jsonl", "warmup.jsonl"] {
            let path = fixtures().join("prompts").join(task).join(file);
            if !path.exists() {
                continue;
            }
            for row in Dataset::read_jsonl(&path).expect("well formed").rows() {
                assert_eq!(row.data_source, task);
                let text = row.prompt[0].content.clone();
                assert_eq!(seen.insert(text.clone(), file), None, "{task}: {text:?} stands in two files");
                checked += 1;
            }
        }
    }
    assert!(checked > 4_000, "{checked} prompts");
}
