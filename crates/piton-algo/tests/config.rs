//! The configuration types in a file.
#![cfg(feature = "serde")]
#![expect(clippy::unwrap_used, reason = "a helper of tests: a panic is the failure")]

use std::num::NonZeroU32;

use piton_algo::{AdvantageEstimator, LrConfig, LrType};
use serde_json::{Value, json};

fn reads(written: Value, expected: AdvantageEstimator, resolved: Value) {
    assert_eq!(serde_json::from_value::<AdvantageEstimator>(written).unwrap(), expected);
    assert_eq!(serde_json::to_value(expected).unwrap(), resolved);
}

#[test]
fn estimators_are_read_with_their_defaults_and_written_in_full() {
    reads(json!({"type": "grpo"}), AdvantageEstimator::default(), json!({"type": "grpo", "eps": 1e-8}));
    reads(json!({"type": "rloo"}), AdvantageEstimator::Rloo {}, json!({"type": "rloo"}));
    reads(
        json!({"type": "opo", "eps": 0.5}),
        AdvantageEstimator::Opo { eps: 0.5 },
        json!({"type": "opo", "eps": 0.5}),
    );
    reads(json!({"type": "drgrpo"}), AdvantageEstimator::DrGrpo {}, json!({"type": "drgrpo"}));
    let k = NonZeroU32::new(4).unwrap();
    reads(
        json!({"type": "passk"}),
        AdvantageEstimator::PassK { k, eps: 1e-6 },
        json!({"type": "passk", "k": 4, "eps": 1e-6}),
    );
}

#[test]
fn unknown_keys_and_values_are_named() {
    let refuses = |written: Value, message: &str| {
        let error = serde_json::from_value::<AdvantageEstimator>(written).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    };
    refuses(
        json!({"type": "ppo"}),
        "unknown variant `ppo`, expected one of `grpo`, `rloo`, `opo`, `drgrpo`, `passk`",
    );
    refuses(json!({"type": "rloo", "eps": 1.0}), "unknown field `eps`");
    refuses(json!({"type": "passk", "k": 0}), "expected a nonzero u32");
    let error = serde_json::from_value::<LrConfig>(json!({"lr_type": "step"})).unwrap_err().to_string();
    assert!(
        error.contains("unknown variant `step`, expected one of `constant`, `linear`, `cosine`"),
        "{error}"
    );
}

#[test]
fn a_course_is_read_with_the_references_defaults() {
    let config: LrConfig = serde_json::from_value(json!({"lr_type": "cosine"})).unwrap();
    assert_eq!(config, LrConfig { lr_type: LrType::Cosine, warmup_ratio: 0.03, lr_min: 1e-6 });
}

#[test]
fn faults_say_what_to_write() {
    let config = LrConfig { warmup_ratio: 3.0, lr_min: -1.0, ..LrConfig::default() };
    assert_eq!(
        config.faults(),
        [
            "warmup_ratio is 3: write a number from 0 to 1",
            "lr_min is -1: write 0 or a positive number, such as 1e-6"
        ]
    );
    assert_eq!(
        AdvantageEstimator::Grpo { eps: -1.0 }.faults(),
        ["eps is -1: write 0 or a positive number, such as 1e-8"]
    );
    assert!(AdvantageEstimator::default().faults().is_empty() && LrConfig::default().faults().is_empty());
}
