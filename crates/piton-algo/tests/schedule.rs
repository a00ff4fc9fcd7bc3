//! What holds for every course of the learning rate.
#![expect(clippy::float_cmp, reason = "these values are exact: sums of powers of two, or the bottom itself")]

use piton_algo::{LrConfig, LrType, lr_at};
use proptest::prelude::*;

fn config() -> impl Strategy<Value = LrConfig> {
    let lr_type = prop_oneof![Just(LrType::Constant), Just(LrType::Linear), Just(LrType::Cosine)];
    (lr_type, 0.0..=1.0_f64, prop_oneof![Just(0.0), 0.0..1.0_f64])
        .prop_map(|(lr_type, warmup_ratio, lr_min)| LrConfig { lr_type, warmup_ratio, lr_min })
}

/// Also fields that no configuration may have.
fn any_config() -> impl Strategy<Value = LrConfig> {
    (config(), any::<f64>(), any::<f64>()).prop_flat_map(|(config, warmup_ratio, lr_min)| {
        prop_oneof![Just(config), Just(LrConfig { warmup_ratio, lr_min, ..config })]
    })
}

proptest! {
    #[test]
    fn lies_between_zero_and_the_peak(
        config in any_config(), base_lr in prop_oneof![Just(0.0), 0.0..1.0_f64],
        step in prop_oneof![0_u64..100, any::<u64>()], total in prop_oneof![0_u64..100, any::<u64>()],
    ) {
        let rate = lr_at(step, total, base_lr, &config);
        prop_assert!((0.0..=base_lr).contains(&rate), "{}", rate);
    }

    #[test]
    fn rises_to_the_peak_then_never_again(config in config(), total in 1_u64..200) {
        let rates: Vec<f64> = (1..=total + 5).map(|step| lr_at(step, total, 0.5, &config)).collect();
        let peak = rates.iter().position(|&rate| rate >= 0.5).expect("the peak is reached");
        prop_assert!(rates[..=peak].is_sorted());
        prop_assert!(rates[peak..].is_sorted_by(|earlier, later| earlier >= later));
        prop_assert!(rates[0] > 0.0);
    }

    #[test]
    fn stays_at_the_bottom_past_the_end(config in config(), total in 0_u64..100, past in 1_u64..100) {
        let bottom = if config.lr_type == LrType::Constant { 0.5 } else { config.lr_min.min(0.5) };
        prop_assert_eq!(lr_at(total + past, total, 0.5, &config), bottom);
    }
}

/// By hand: 10 steps, 2 of warm-up, then 8 of a line from 1 to 0.
#[test]
fn a_line_by_hand() {
    let config = LrConfig { lr_type: LrType::Linear, warmup_ratio: 0.25, lr_min: 0.0 };
    let rates: Vec<f64> = (0..=11).map(|step| lr_at(step, 10, 1.0, &config)).collect();
    assert_eq!(rates, [0.5, 0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125, 0.0]);
}

#[test]
fn a_longer_total_is_where_a_run_of_that_length_would_be() {
    let config = LrConfig { lr_type: LrType::Linear, warmup_ratio: 0.0, lr_min: 0.0 };
    assert_eq!(lr_at(7, 8, 1.0, &config), 0.25);
    assert_eq!(lr_at(9, 16, 1.0, &config), 0.5);
}
