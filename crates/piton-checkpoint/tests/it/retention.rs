//! Which checkpoints stay.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use piton_checkpoint::{Keep, Listed, Order, Plan, Retention, Why, plan};
use proptest::prelude::*;

const HOUR_MS: u64 = 60 * 60 * 1000;

/// Steps with the metric `return`, each written an hour after the one before.
fn with_returns(returns: &[(u64, Option<f64>)]) -> BTreeMap<u64, Listed> {
    let listed = |at: usize, value: Option<f64>| Listed {
        created_unix_ms: at as u64 * HOUR_MS,
        metrics: value.map(|value| ("return".to_owned(), value)).into_iter().collect(),
    };
    returns.iter().enumerate().map(|(at, (step, value))| (*step, listed(at, *value))).collect()
}

fn steps(steps: impl IntoIterator<Item = u64>) -> BTreeMap<u64, Listed> {
    steps.into_iter().map(|step| (step, Listed::default())).collect()
}

#[track_caller]
fn check(valid: &BTreeMap<u64, Listed>, policy: &str, now_unix_ms: u64, kept: &[u64]) {
    let plan = plan(valid, &policy.parse().unwrap(), &BTreeSet::new(), now_unix_ms);
    assert_eq!(plan.keep.keys().copied().collect::<Vec<_>>(), kept, "{policy}");
    assert!(valid.keys().all(|step| plan.keep.contains_key(step) != plan.remove.contains(step)));
}

#[test]
fn the_newest_are_the_highest_numbers_not_the_highest_strings() {
    check(&steps((1..=12).chain([100, 99_999, 100_000])), "last 3", 0, &[100, 99_999, 100_000]);
    check(&steps([9_900, 10_000]), "1", 0, &[10_000]);
    check(&steps(199_900..=200_300), "last 50", 0, &(200_251..=200_300).collect::<Vec<_>>());
    check(&steps([1, 2]), "3", 0, &[1, 2]);
}

#[test]
fn multiples_stay_and_so_does_the_newest_that_is_none() {
    check(&steps([0, 400, 500, 900, 1000, 1001]), "every 500", 0, &[0, 500, 1000, 1001]);
}

#[test]
fn the_best_stay_by_value_and_of_equals_the_newer() {
    let valid = with_returns(&[(1, Some(5.0)), (2, Some(7.0)), (3, Some(7.0)), (4, None), (5, Some(-1.0))]);
    check(&valid, "best 1 by return", 0, &[3, 5]);
    check(&valid, "best 3 by return", 0, &[1, 2, 3, 5]);
    check(&valid, "best 2 by lowest return", 0, &[1, 5]);
}

#[test]
fn while_no_checkpoint_has_the_metric_none_is_worse_than_another() {
    let valid = with_returns(&[(1, None), (2, Some(f64::NAN)), (3, None)]);
    check(&valid, "best 1 by return", 0, &[1, 2, 3]);
    check(&with_returns(&[(1, Some(1.0)), (2, None), (3, None)]), "best 1 by return", 0, &[1, 3]);
}

#[test]
fn age_counts_by_the_callers_clock_and_never_removes_the_last() {
    let valid = with_returns(&[(1, None), (2, None), (3, None)]);
    check(&valid, "last 60m", 2 * HOUR_MS, &[2, 3]);
    check(&valid, "last 59m", 2 * HOUR_MS, &[3]);
    check(&valid, "last 1s", 1_000 * HOUR_MS, &[3]);
    // The clock was set back: what seems to come from the future is not old.
    check(&valid, "last 1s", 0, &[1, 2, 3]);
}

#[test]
fn every_reason_is_given() {
    let valid = with_returns(&[(10, Some(3.0)), (20, Some(1.0)), (30, Some(2.0))]);
    let retention: Retention = "1, best 1 by return, every 10".parse().unwrap();
    let Plan { keep, remove } = plan(&valid, &retention, &[20, 99].into(), 0);
    let told = |step| keep[&step].iter().map(Why::to_string).collect::<Vec<_>>().join("; ");
    assert_eq!(told(10), "best 1 by return; every 10");
    assert_eq!(told(20), "every 10; pinned");
    assert_eq!(told(30), "newest; last 1; every 10");
    assert!(remove.is_empty());
}

#[test]
fn texts_say_the_policy_and_wrong_ones_say_what_to_write() {
    for (text, canonical) in [
        ("all", "all"),
        ("3", "last 3"),
        (" last  3 ", "last 3"),
        ("every 1000 steps", "every 1000"),
        ("best 2 by eval/accuracy", "best 2 by eval/accuracy"),
        ("best 2 by highest return", "best 2 by return"),
        ("best 1 by lowest loss,last 90m", "best 1 by lowest loss, last 90m"),
        ("last 24h", "last 1d"),
        ("2, 2, last 2", "last 2"),
    ] {
        let retention: Retention = text.parse().unwrap();
        assert_eq!(retention.to_string(), canonical, "{text}");
        assert_eq!(canonical.parse::<Retention>().unwrap(), retention, "{text}");
    }
    for nothing in ["0", "-1", "last 0", "last -1", "every 0", "best 0 by return", "last 0h", "3, 0"] {
        let error = nothing.parse::<Retention>().unwrap_err().to_string();
        assert!(error.contains(r#"would keep no checkpoint: write "all""#), "{nothing}: {error}");
    }
    for unknown in ["", "three", "best 2", "every", "last 3x", "1.5", "all 3", "3,", "99999999999999999999"] {
        let error = unknown.parse::<Retention>().unwrap_err().to_string();
        assert!(error.contains(r#"is not a policy: write "all", 3"#), "{unknown}: {error}");
    }
}

#[test]
fn a_configuration_takes_numbers_texts_and_lists() {
    let read = |json: &str| serde_json::from_str::<Retention>(json).map_err(|error| error.to_string());
    assert_eq!(read("3").unwrap(), Keep::Last(3.try_into().unwrap()).into());
    assert_eq!(read(r#""all""#).unwrap(), Keep::All.into());
    let listed = read(r#"[2, "every 1000", "best 1 by lowest loss, last 2d"]"#).unwrap();
    let expected = Keep::Last(2.try_into().unwrap())
        .or(Keep::EverySteps(1000.try_into().unwrap()))
        .or(Keep::Best { count: 1.try_into().unwrap(), metric: "loss".to_owned(), order: Order::Lowest })
        .or(Keep::Within(Duration::from_secs(2 * 24 * 60 * 60)));
    assert_eq!(listed, expected);
    assert_eq!(read(&serde_json::to_string(&listed).unwrap()).unwrap(), listed);
    assert_eq!(serde_json::to_string(&read("3").unwrap()).unwrap(), "3");
    for wrong in ["0", "-1", "[]", "[3, 0]"] {
        assert!(read(wrong).unwrap_err().contains(r#"write "all""#), "{wrong}");
    }
    assert!(read("1.5").unwrap_err().contains(r#"expected "all", a positive number"#));
}

fn listings() -> impl Strategy<Value = BTreeMap<u64, Listed>> {
    let value = prop_oneof![Just(f64::NAN), Just(f64::INFINITY), (-3_i8..3).prop_map(f64::from)];
    let metric = proptest::option::of(value);
    let created = prop_oneof![Just(0), 0..1000_u64, Just(u64::MAX)];
    let listed = (created, metric).prop_map(|(created_unix_ms, value)| Listed {
        created_unix_ms,
        metrics: value.map(|value| ("m".to_owned(), value)).into_iter().collect(),
    });
    let step = prop_oneof![0..30_u64, any::<u64>()];
    proptest::collection::btree_map(step, listed, 0..20)
}

fn policies() -> impl Strategy<Value = Keep> {
    let count = || (1..5_usize).prop_map(|count| count.try_into().unwrap());
    let order = prop_oneof![Just(Order::Highest), Just(Order::Lowest)];
    let metric = prop_oneof![Just("m".to_owned()), Just("absent".to_owned())];
    prop_oneof![
        Just(Keep::All),
        count().prop_map(Keep::Last),
        (1..10_u64).prop_map(|steps| Keep::EverySteps(steps.try_into().unwrap())),
        (count(), metric, order).prop_map(|(count, metric, order)| Keep::Best { count, metric, order }),
        (0..1000_u64).prop_map(|ms| Keep::Within(Duration::from_millis(ms))),
    ]
}

proptest! {
    #[test]
    fn the_newest_and_the_pinned_stay_and_nothing_is_in_both_or_neither(
        valid in listings(),
        first in policies(),
        more in proptest::collection::vec(policies(), 0..4),
        pinned in proptest::collection::btree_set(0..30_u64, 0..5),
        now in prop_oneof![0..2000_u64, Just(u64::MAX)],
    ) {
        let alone = plan(&valid, &first.clone().into(), &pinned, now);
        let all = plan(&valid, &more.into_iter().fold(first.into(), Retention::or), &pinned, now);

        prop_assert_eq!(all.keep.is_empty(), valid.is_empty());
        if let Some(newest) = valid.keys().next_back() {
            prop_assert_eq!(&all.keep[newest][0], &Why::Newest);
        }
        for step in valid.keys() {
            prop_assert!(all.keep.contains_key(step) != all.remove.contains(step));
            prop_assert!(!(pinned.contains(step) && all.remove.contains(step)));
        }
        prop_assert_eq!(all.keep.len() + all.remove.len(), valid.len());
        prop_assert!(all.keep.values().all(|reasons| !reasons.is_empty()));
        // One more policy never removes more.
        prop_assert!(all.remove.is_subset(&alone.remove));
    }

    #[test]
    fn deciding_twice_is_deciding_once(valid in listings(), policy in policies(), now in 0..2000_u64) {
        let retention = Retention::from(policy);
        let first = plan(&valid, &retention, &BTreeSet::new(), now);
        let left: BTreeMap<u64, Listed> =
            valid.into_iter().filter(|(step, _)| first.keep.contains_key(step)).collect();
        prop_assert!(plan(&left, &retention, &BTreeSet::new(), now).remove.is_empty());
    }
}
