//! A stream is a value: it stops and goes on anywhere, and a damaged one is refused.
#![expect(clippy::unwrap_used, reason = "a helper of tests: a panic is the failure")]

use piton_rng::{Rng, Seed};
use serde_json::json;

fn words(rng: &mut Rng, count: usize) -> Vec<u64> {
    (0..count).map(|_| rng.next_u64()).collect()
}

#[test]
fn goes_on_where_it_stood_at_any_position() {
    let whole = words(&mut Seed(1).stream("a", [1, 2, 3]), 20);
    for stop in 0..10 {
        let mut rng = Seed(1).stream("a", [1, 2, 3]);
        let mut drawn = words(&mut rng, stop);
        let saved = serde_json::to_string(&rng).unwrap();
        let mut resumed: Rng = serde_json::from_str(&saved).unwrap();
        assert_eq!(resumed, rng);
        drawn.extend(words(&mut resumed, 20 - stop));
        assert_eq!(drawn, whole, "stopped at {stop}");
    }
}

#[test]
fn saves_these_four_fields() {
    let mut rng = Seed(7).stream("sample", [3, 0, 12]);
    rng.next_u64();
    let key = serde_json::to_value(&rng).unwrap()["key"].clone();
    let expected = json!({"version": 1, "key": key, "index": [3, 0, 12], "position": 1});
    assert_eq!(serde_json::to_value(&rng).unwrap(), expected);
}

fn refuses(field: &str, value: serde_json::Value, message: &str) {
    let mut state = serde_json::to_value(Seed(7).stream("sample", [0; 3])).unwrap();
    state[field] = value;
    let error = serde_json::from_value::<Rng>(state).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}

#[test]
fn refuses_what_it_did_not_write() {
    refuses("version", json!(2), "found version 2, expected 1");
    refuses("key", json!("abc"), r#"key is "abc", expected 32 lower-case hexadecimal digits"#);
    refuses("key", json!("+123456789abcdef0123456789abcdef"), "key is");
    refuses("key", json!("0123456789ABCDEF0123456789abcdef"), "key is");
    refuses("index", json!([0, 0]), "invalid length 2");
    refuses("position", json!(-1), "expected u64");
    refuses("block", json!([0, 0, 0, 0]), "unknown field `block`");
}

#[test]
fn order_and_thread_do_not_matter() {
    let domain = Seed(3).domain("sample");
    let first_word = |i| domain.stream([i, 0, 0]).next_u64();
    let forwards: Vec<u64> = (0..64).map(first_word).collect();
    let threaded: Vec<u64> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..64).rev().map(|i| scope.spawn(move || first_word(i))).collect();
        handles.into_iter().rev().map(|handle| handle.join().unwrap()).collect()
    });
    assert_eq!(forwards, threaded);
}
