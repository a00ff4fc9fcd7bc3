//! What holds for the advantages of every group.

use std::num::NonZeroU32;

use piton_algo::AdvantageEstimator::{self, DrGrpo, Grpo, Opo, PassK, Rloo};
use proptest::prelude::*;

fn pass(k: u32) -> AdvantageEstimator {
    PassK { k: NonZeroU32::new(k).expect("tests draw at least one"), eps: 0.0 }
}

fn estimator() -> impl Strategy<Value = AdvantageEstimator> {
    let eps = prop_oneof![Just(0.0), Just(1e-8), Just(1e-3)];
    prop_oneof![
        eps.clone().prop_map(|eps| Grpo { eps }),
        eps.prop_map(|eps| Opo { eps }),
        Just(DrGrpo {}),
        Just(Rloo {}),
        (1_u32..9).prop_map(pass),
    ]
}

/// Every finite value, and often the few that judges give.
fn reward() -> impl Strategy<Value = f32> {
    let finite = any::<f32>().prop_filter("finite", |reward| reward.is_finite());
    prop_oneof![Just(0.0), Just(-0.0), Just(1.0), Just(0.1), Just(-1.0), -5.0_f32..5.0, finite]
}

fn group() -> impl Strategy<Value = (Vec<f32>, Vec<usize>)> {
    prop::collection::vec((reward(), 0_usize..40_000), 0..20).prop_map(|samples| samples.into_iter().unzip())
}

/// Plain rewards, for which rounding is easy to bound.
fn plain_group() -> impl Strategy<Value = (Vec<f32>, Vec<usize>)> {
    let reward = (-8_i8..8).prop_map(f32::from);
    prop::collection::vec((reward, 1_usize..40_000), 2..20).prop_map(|samples| samples.into_iter().unzip())
}

proptest! {
    #[test]
    fn finite_rewards_give_finite_advantages(estimator in estimator(), (rewards, lengths) in group()) {
        let advantages = estimator.compute(&rewards, &lengths);
        prop_assert_eq!(advantages.len(), rewards.len());
        prop_assert!(advantages.iter().all(|advantage| advantage.is_finite()), "{:?}", advantages);
    }

    #[test]
    fn equal_rewards_give_exactly_zero(estimator in estimator(), reward in reward(), n in 2_usize..100) {
        prop_assert_eq!(estimator.compute(&vec![reward; n], &vec![7; n]), vec![0.0; n]);
    }

    #[test]
    fn a_group_of_one_gives_zero(eps in prop_oneof![Just(0.0), Just(1e-8)], reward in reward()) {
        for estimator in [Grpo { eps }, DrGrpo {}, Opo { eps }, pass(1), pass(4)] {
            prop_assert_eq!(estimator.compute(&[reward], &[7]), vec![0.0], "{:?}", estimator);
        }
    }

    #[test]
    fn a_baseline_takes_out_what_all_rewards_share(
        (rewards, lengths) in plain_group(), shift in (-100_i8..100).prop_map(f32::from),
    ) {
        let shifted: Vec<f32> = rewards.iter().map(|reward| reward + shift).collect();
        for estimator in [Grpo { eps: 1e-8 }, DrGrpo {}, Rloo {}, Opo { eps: 0.0 }] {
            let (here, there) = (estimator.compute(&rewards, &lengths), estimator.compute(&shifted, &lengths));
            for (here, there) in here.iter().zip(&there) {
                prop_assert!((here - there).abs() <= 1e-5, "{:?}: {} and {}", estimator, here, there);
            }
        }
    }

    #[test]
    fn advantages_of_a_group_sum_to_zero((rewards, lengths) in plain_group(), k in 1_u32..9) {
        for estimator in [Grpo { eps: 1e-8 }, DrGrpo {}, Rloo {}, pass(k)] {
            let sum: f64 = estimator.compute(&rewards, &lengths).into_iter().map(f64::from).sum();
            prop_assert!(sum.abs() <= 2e-5, "{:?}: {}", estimator, sum);
        }
        let opo = Opo { eps: 0.0 }.compute(&rewards, &lengths);
        let by_token: f64 = opo.into_iter().zip(&lengths).map(|(a, &length)| f64::from(a) * length as f64).sum();
        prop_assert!(by_token.abs() <= 1e-6 * 16.0 * lengths.iter().sum::<usize>() as f64, "by token: {}", by_token);
    }
}

#[test]
fn rloo_alone_keeps_its_reward() {
    assert_eq!(Rloo {}.compute(&[0.75], &[7]), [0.75]);
}

/// With k above n, ρ = c/n = 1/4: (1 − ρ)/√(3/16) = √3 and −ρ/√(3/16) = −1/√3.
#[test]
fn a_group_smaller_than_k_is_scored_by_single_draws() {
    let found = pass(8).compute(&[0.0, 1.0, 0.0, 0.0], &[1; 4]);
    let (success, failure) = (3_f32.sqrt(), -(1_f32 / 3.0).sqrt());
    for (found, expected) in found.iter().zip([failure, success, failure, failure]) {
        assert!((found - expected).abs() <= 2.0 * f32::EPSILON, "{found}, expected {expected}");
    }
}

#[test]
fn opo_without_tokens_has_no_baseline() {
    assert_eq!(Opo { eps: 0.0 }.compute(&[1.0, 0.5], &[0, 0]), [1.0, 0.5]);
}

#[test]
fn a_reward_that_is_not_finite_cannot_pass_unseen() {
    for estimator in [Grpo { eps: 1e-8 }, DrGrpo {}, Rloo {}, Opo { eps: 0.0 }, pass(1)] {
        for bad in [f32::NAN, f32::INFINITY] {
            assert!(estimator.compute(&[1.0, bad, 0.0], &[1; 3]).iter().all(|advantage| advantage.is_nan()));
        }
    }
}
