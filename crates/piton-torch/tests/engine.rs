//! The facts that a checkpoint's manifest records.

use piton_torch::{engine_facts, set_threads};

#[test]
fn facts_name_the_loaded_libtorch_and_follow_the_thread_count() {
    set_threads(1).unwrap();
    let facts = engine_facts();
    // the version that tch 0.26 is made for
    assert_eq!((facts.libtorch.as_str(), facts.threads), ("2.13.0", 1));
    set_threads(2).unwrap();
    assert_eq!(engine_facts().threads, 2);
    assert_eq!(set_threads(0).unwrap_err().to_string(), "threads is 0, expected 1 or more");
    let text = serde_json::to_string(&facts).unwrap();
    assert_eq!(serde_json::from_str::<piton_torch::EngineFacts>(&text).unwrap(), facts);
}
