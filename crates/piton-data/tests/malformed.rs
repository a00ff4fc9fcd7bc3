//! What a user is told about a prompt file that cannot be used.

use insta::assert_snapshot;
use piton_data::Dataset;

const GOOD: &str = r#"{"data_source":"unit","prompt":[{"role":"user","content":"1 + 1 ="}],"reward_model":{"style":"rule","ground_truth":"2"},"extra_info":{"index":0}}"#;

/// The error of a file whose second line is `line`.
fn error_of(line: impl AsRef<[u8]>) -> String {
    let bytes = [GOOD.as_bytes(), b"\n", line.as_ref(), b"\n"].concat();
    Dataset::from_jsonl("train.jsonl", &bytes).expect_err("the line is malformed").to_string()
}

fn error_of_row(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from));
    error_of(GOOD.replace(from, to))
}

#[test]
fn lines_that_are_no_json_say_where_and_why() {
    assert_snapshot!(error_of(r#"{"prompt": "#), @r#"
    cannot use the prompts in train.jsonl: 1 fault
      line 2, column 11: found the end of the line (EOF while parsing a value), expected the rest of a JSON object; complete the line, or delete it: was the file cut while it was written?
    "#);
    assert_snapshot!(error_of("{'prompt': 1}"), @r#"
    cannot use the prompts in train.jsonl: 1 fault
      line 2, column 2: found text that is not JSON (key must be a string), expected a JSON object; write keys and strings in double quotes: a Python dict is not JSON, use json.dumps
    "#);
    assert_snapshot!(error_of(format!("{GOOD} {GOOD}")), @r#"
    cannot use the prompts in train.jsonl: 1 fault
      line 2, column 147: found more text after the object, expected a JSON object; write one object a line, and nothing after it
    "#);
    assert_snapshot!(error_of("{\"data_source\":\"a\tb\"}"), @r#"
    cannot use the prompts in train.jsonl: 1 fault
      line 2, column 18: found a raw control character in a string, expected a JSON object; write \n for a line break and \t for a tab
    "#);
    assert_snapshot!(error_of(r#"{"data_source":"a","data_source":"b"}"#), @r#"
    cannot use the prompts in train.jsonl: 1 fault
      line 2, column 37: found key "data_source" stands twice, expected a JSON object; keep one of the two
    "#);
    assert_snapshot!(error_of(r#"{"extra_info":NaN}"#), @r#"
    cannot use the prompts in train.jsonl: 1 fault
      line 2, column 15: found text that is not JSON (expected value), expected a JSON object; write a finite number: JSON has no NaN and no Infinity
    "#);
    assert_snapshot!(error_of(""), @r#"
    cannot use the prompts in train.jsonl: 1 fault
      line 2: found an empty line, expected a JSON object; delete the line
    "#);
}

#[test]
fn bytes_that_are_no_text_say_where() {
    assert_snapshot!(error_of(b"{\"data_source\":\"caf\xE9\"}"), @r#"
    cannot use the prompts in train.jsonl: 1 fault
      line 2, column 20: found byte 0xE9, which is not UTF-8, expected UTF-8 text; save the file as UTF-8
    "#);
    assert_snapshot!(error_of(r#"{"data_source":"\ud83d"}"#), @r#"
    cannot use the prompts in train.jsonl: 1 fault
      line 2, column 23: found half of a surrogate pair, expected a JSON object; write both halves, as in \ud83d\ude00, or the character itself
    "#);
    assert_snapshot!(error_of(r#"{"data_source":"\ude00"}"#), @r#"
    cannot use the prompts in train.jsonl: 1 fault
      line 2, column 22: found half of a surrogate pair, expected a JSON object; write both halves, as in \ud83d\ude00, or the character itself
    "#);
    let with_bom = format!("\u{feff}{GOOD}\n");
    assert_snapshot!(Dataset::from_jsonl("train.jsonl", with_bom.as_bytes()).expect_err("a BOM"), @r#"
    cannot use the prompts in train.jsonl: 1 fault
      line 1, column 1: found a byte order mark (EF BB BF), expected a JSON object; save the file as UTF-8 without BOM, or remove it with: sed -i '1s/^\xEF\xBB\xBF//' FILE
    "#);
}

#[test]
fn json_that_is_no_row_says_what_a_row_is() {
    assert_snapshot!(error_of("[]"), @r#"
    cannot use the prompts in train.jsonl: 1 fault
      line 2: found an array, expected a JSON object; write a row such as {"data_source": "chain_sum", "prompt": [{"role": "user", "content": "1 + 1 ="}], "reward_model": {"style": "rule", "ground_truth": "2"}}
    "#);
    assert_snapshot!(error_of("null"), @r#"
    cannot use the prompts in train.jsonl: 1 fault
      line 2: found null, expected a JSON object; write a row such as {"data_source": "chain_sum", "prompt": [{"role": "user", "content": "1 + 1 ="}], "reward_model": {"style": "rule", "ground_truth": "2"}}
    "#);
    assert_snapshot!(error_of("{}"), @r#"
    cannot use the prompts in train.jsonl: 3 faults
      line 2, data_source: found no such key, expected a string; name the source, for example "chain_sum"
      line 2, prompt: found no such key, expected an array of chat messages; write [{"role": "user", "content": "..."}]
      line 2, reward_model: found no such key, expected an object; write {"style": "rule", "ground_truth": "..."}
    "#);
}

#[test]
fn fields_of_the_wrong_type_are_named() {
    assert_snapshot!(error_of_row(r#""unit""#, "7"), @r#"
    cannot use the prompts in train.jsonl: 1 fault
      line 2, data_source: found a number, expected a string; name the source, for example "chain_sum"
    "#);
    assert_snapshot!(error_of_row(r#"[{"role":"user","content":"1 + 1 ="}]"#, r#""1 + 1 =""#), @r#"
    cannot use the prompts in train.jsonl: 1 fault
      line 2, prompt: found a string, expected an array of chat messages; write [{"role": "user", "content": "..."}]
    "#);
    assert_snapshot!(error_of_row(r#"[{"role":"user","content":"1 + 1 ="}]"#, "[]"), @r#"
    cannot use the prompts in train.jsonl: 1 fault
      line 2, prompt: found an empty array, expected at least one chat message; write [{"role": "user", "content": "..."}]
    "#);
    assert_snapshot!(error_of_row(r#""role":"user","content":"1 + 1 =""#, r#""role":null,"content":["text"]"#), @r#"
    cannot use the prompts in train.jsonl: 2 faults
      line 2, prompt[0].role: found null, expected a string; write "system", "user", "assistant" or "tool"
      line 2, prompt[0].content: found an array, expected a string; write the text of the message
    "#);
    assert_snapshot!(error_of_row(r#""ground_truth":"2""#, r#""ground_truth":null"#), @r#"
    cannot use the prompts in train.jsonl: 1 fault
      line 2, reward_model.ground_truth: found null or nothing, expected the right answer; write {"style": "rule", "ground_truth": "..."}
    "#);
    assert_snapshot!(error_of_row(r#"{"index":0}"#, "[0]"), @r#"
    cannot use the prompts in train.jsonl: 1 fault
      line 2, extra_info: found an array, expected an object; write {"index": 0}, or leave the key out
    "#);
}

#[test]
fn all_faults_come_at_once_and_ten_are_shown() {
    let lines = format!("{GOOD}\n").repeat(3) + &"null\n".repeat(12);
    let error =
        Dataset::from_jsonl("train.jsonl", lines.as_bytes()).expect_err("twelve bad lines").to_string();
    let shown: Vec<_> =
        error.lines().map(|line| line.split(", expected").next().unwrap_or_default()).collect();
    assert_snapshot!(shown.join("\n"), @r#"
    cannot use the prompts in train.jsonl: 12 faults
      line 4: found null
      line 5: found null
      line 6: found null
      line 7: found null
      line 8: found null
      line 9: found null
      line 10: found null
      line 11: found null
      line 12: found null
      line 13: found null
      and 2 more
    "#);
}

#[test]
fn files_without_rows_are_refused() {
    assert_snapshot!(Dataset::from_jsonl("train.jsonl", b"").expect_err("empty"), @r#"no prompts in train.jsonl: found an empty file, expected one JSON object a line; check how the file was made"#);
    assert_snapshot!(Dataset::from_jsonl("train.jsonl", b"\n").expect_err("one empty line"), @r#"
    cannot use the prompts in train.jsonl: 1 fault
      line 1: found an empty line, expected a JSON object; delete the line
    "#);
    assert_snapshot!(Dataset::read_jsonl("no/such.jsonl").expect_err("no file"), @r#"cannot read no/such.jsonl: No such file or directory (os error 2); check that the file exists and may be read"#);
}
