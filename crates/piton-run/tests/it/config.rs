use piton_run::config::{Change, Rule, Verdict, classify, diff, digest};
use serde_json::{Value, json};

#[test]
fn the_digest_does_not_depend_on_the_order_of_keys() {
    let one: Value = serde_json::from_str(r#"{"b":{"d":1,"c":[1,{"y":2,"x":null}]},"a":"text"}"#).unwrap();
    let two: Value = serde_json::from_str(r#"{"a":"text","b":{"c":[1,{"x":null,"y":2}],"d":1}}"#).unwrap();
    assert_eq!(digest(&one), digest(&two));
    // b3sum of the text {"a":"text","b":{"c":[1,{"x":null,"y":2}],"d":1}}
    assert_eq!(digest(&one), "c898fa4b18a44701dd50d4189739c51a1198210768b150908b698d0d870b910e");
    assert_ne!(digest(&one), digest(&json!({"a": "text"})));
}

#[test]
fn differences_are_named_by_dotted_keys() {
    let old = json!({"lr": 0.1, "gone": 1, "tasks": [{"name": "a"}, {"name": "b"}], "same": {"x": 1}});
    let new = json!({"lr": 0.2, "tasks": [{"name": "c"}], "same": {"x": 1}, "extra": null});
    let change = |key: &str, old, new| Change { key: key.to_owned(), old, new };
    assert_eq!(
        diff(&old, &new),
        [
            change("extra", None, Some(Value::Null)),
            change("gone", Some(json!(1)), None),
            change("lr", Some(json!(0.1)), Some(json!(0.2))),
            change("tasks.0.name", Some(json!("a")), Some(json!("c"))),
            change("tasks.1", Some(json!({"name": "b"})), None),
        ]
    );
    assert_eq!(diff(&old, &old), []);
}

#[test]
fn the_longest_prefix_of_whole_parts_decides() {
    let rules = [
        ("optim", Rule::NeedsAllow),
        ("optim.log_every", Rule::Allowed),
        ("model", Rule::Refused),
        ("total_train_steps", Rule::MayGrow),
    ];
    let judge = |key: &str, old: Value, new: Value| {
        classify(&Change { key: key.to_owned(), old: Some(old), new: Some(new) }, &rules, Rule::NeedsAllow)
    };
    assert_eq!(judge("optim.lr", json!(1), json!(2)), Verdict::NeedsAllow);
    assert_eq!(judge("optim.log_every", json!(1), json!(2)), Verdict::Allowed);
    assert_eq!(judge("model.layers.0", json!(1), json!(2)), Verdict::Refused);
    assert_eq!(judge("model_name", json!(1), json!(2)), Verdict::NeedsAllow);
    assert_eq!(judge("total_train_steps", json!(2), json!(3)), Verdict::Allowed);
    assert_eq!(judge("total_train_steps", json!(3), json!(2)), Verdict::Refused);
    assert_eq!(judge("total_train_steps", json!(3), Value::Null), Verdict::Refused);
}
