//! Nothing is skipped, nothing comes twice, and a restart changes nothing.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use insta::assert_snapshot;
use piton_data::{Draw, Order, Sampler, SamplerState};
use piton_rng::Seed;
use proptest::prelude::*;

fn sampler(rows: usize) -> Sampler {
    Sampler::new("unit", NonZeroUsize::new(rows).expect("at least one row"), Seed(42)).with_digest("abc")
}

/// Through JSON, as a checkpoint does it.
fn restarted(from: &Sampler, rows: usize) -> Sampler {
    let json = serde_json::to_string(&from.state()).expect("JSON");
    let state: SamplerState = serde_json::from_str(&json).expect("a state");
    let mut fresh = sampler(rows);
    fresh.restore(&state).expect("the same data");
    fresh
}

proptest! {
    #[test]
    fn every_row_comes_once_an_epoch_whatever_the_batch_and_the_restarts(
        rows in 1_usize..40, batch in 1_usize..12, epochs in 1_usize..4, restart_every in 1_usize..6,
    ) {
        let uninterrupted: Vec<Draw> = sampler(rows).take(rows * epochs).collect();
        let (mut running, mut drawn) = (sampler(rows), Vec::new());
        for step in 1.. {
            drawn.extend(running.by_ref().take(batch));
            if step % restart_every == 0 {
                running = restarted(&running, rows);
            }
            if drawn.len() >= rows * epochs {
                break;
            }
        }
        prop_assert_eq!(&drawn[..rows * epochs], uninterrupted.as_slice());
        for (epoch, chunk) in uninterrupted.chunks(rows).enumerate() {
            let seen: BTreeSet<_> = chunk.iter().map(|draw| draw.row_index).collect();
            prop_assert_eq!(seen, (0..rows).collect::<BTreeSet<_>>());
            prop_assert!(chunk.iter().all(|draw| draw.epoch == epoch as u64));
        }
        let ids: Vec<_> = drawn.iter().map(|draw| draw.group_id).collect();
        prop_assert_eq!(ids, (0..drawn.len() as u64).collect::<Vec<_>>());
    }
}

#[test]
fn ten_rows_in_batches_of_four_give_each_row_three_times_in_three_epochs() {
    let mut sampler = sampler(10);
    let batches: Vec<Vec<_>> =
        (0..8).map(|_| sampler.by_ref().take(4).map(|draw| draw.row_index).collect()).collect();
    let mut counts = [0; 10];
    batches.concat()[..30].iter().for_each(|row| counts[*row] += 1);
    assert_eq!(counts, [3; 10]);
    assert_eq!(sampler.position(), 32);
}

#[test]
fn a_checkpoint_at_the_exact_end_of_an_epoch_begins_the_next_one() {
    let mut first = sampler(8);
    let epoch_0: Vec<_> = first.by_ref().take(8).map(|draw| draw.row_index).collect();
    let mut resumed = restarted(&first, 8);
    let epoch_1: Vec<_> = resumed.by_ref().take(8).collect();
    assert_eq!(epoch_1, first.by_ref().take(8).collect::<Vec<_>>());
    assert!(epoch_1.iter().all(|draw| draw.epoch == 1));
    assert_ne!(epoch_1.iter().map(|draw| draw.row_index).collect::<Vec<_>>(), epoch_0);
}

#[test]
fn file_order_is_the_order_of_the_file() {
    let rows: Vec<_> = sampler(3).with_order(Order::File).take(7).map(|draw| draw.row_index).collect();
    assert_eq!(rows, [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn a_draw_can_be_looked_up_by_its_group_id() {
    let drawn: Vec<_> = sampler(5).take(17).collect();
    let other = sampler(5);
    assert_eq!(drawn, (0..17).map(|id| other.at(id)).collect::<Vec<_>>());
}

#[test]
fn task_and_seed_and_epoch_each_change_the_order() {
    let rows = NonZeroUsize::new(20).expect("not zero");
    let order =
        |mut sampler: Sampler| sampler.by_ref().take(20).map(|draw| draw.row_index).collect::<Vec<_>>();
    let base = order(Sampler::new("a", rows, Seed(1)));
    assert_ne!(base, order(Sampler::new("b", rows, Seed(1))));
    assert_ne!(base, order(Sampler::new("a", rows, Seed(2))));
}

#[test]
fn the_state_is_a_position_and_what_it_is_a_position_in() {
    let mut sampler = sampler(8);
    sampler.by_ref().take(3).for_each(drop);
    insta::assert_json_snapshot!(sampler.state(), @r#"
    {
      "version": 1,
      "task": "unit",
      "position": 3,
      "rows": 8,
      "dataset_digest": "abc",
      "shuffle": true,
      "seed": 42
    }
    "#);
}

#[test]
fn changed_data_is_refused_until_it_is_accepted() {
    let mut old = sampler(8);
    old.by_ref().take(11).for_each(drop);
    let rows = NonZeroUsize::new(9).expect("not zero");
    let mut new = Sampler::new("unit", rows, Seed(43)).with_order(Order::File).with_digest("def");
    assert_snapshot!(new.restore(&old.state()).expect_err("other data"), @r#"cannot resume the sampler of task unit: rows was 8 and is now 9, dataset_digest was abc and is now def, shuffle was true and is now false, seed was 42 and is now 43; go back to the data and settings of the run, or accept the change explicitly, and its position is kept"#);
    assert_eq!(new.position(), 0);

    new.restore_despite_changes(&old.state()).expect("accepted");
    assert_eq!(new.draw(), Draw { group_id: 11, epoch: 1, row_index: 2 });
}

#[test]
fn states_of_another_format_are_refused() {
    let mut sampler = sampler(8);
    let state = SamplerState { version: 2, ..sampler.state() };
    assert_snapshot!(sampler.restore(&state).expect_err("version 2"), @r#"cannot resume the sampler of task unit: found state version 2, expected 1; use the version that wrote it"#);
}

#[test]
fn fewer_rows_than_a_batch_are_refused() {
    assert!(sampler(8).check_batch(8).is_ok());
    assert_snapshot!(sampler(3).check_batch(8).expect_err("three rows"), @r#"too few prompts for task unit: found 3, expected at least train_batch_size = 8; add rows, raise max_length, or set train_batch_size to 3 or less"#);
}
