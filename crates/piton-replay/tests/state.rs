//! The state on disk: its exact bytes, and what is refused on the way back.

use std::num::NonZeroUsize;

use piton_replay::{BufferState, Error, FifoBuffer, Record};
use serde_json::json;

fn capacity(groups: usize) -> NonZeroUsize {
    NonZeroUsize::new(groups).expect("tests use positive capacities")
}

fn state(uids: &[u64], next_uid: u64) -> BufferState<u8> {
    let record = |&uid| Record { uid, task: "a".to_owned(), item: 0 };
    BufferState { version: 1, capacity: capacity(3), next_uid, records: uids.iter().map(record).collect() }
}

#[test]
fn is_written_like_this() {
    let mut buffer = FifoBuffer::new(capacity(4));
    for (task, item) in [("b", 10), ("a", 11), ("b", 12)] {
        buffer.put(task, item).unwrap();
    }
    assert_eq!(buffer.take("b", 1), [10]);
    let expected = json!({
        "version": 1, "capacity": 4, "next_uid": 3,
        "records": [{"uid": 1, "task": "a", "item": 11}, {"uid": 2, "task": "b", "item": 12}],
    });
    assert_eq!(serde_json::to_value(buffer.state()).unwrap(), expected);
    assert_eq!(
        serde_json::to_string(&buffer.state_ref()).unwrap(),
        serde_json::to_string(&buffer.state()).unwrap()
    );
}

#[test]
fn uids_go_on_after_everything_was_taken() {
    let mut buffer = FifoBuffer::new(capacity(2));
    assert_eq!(buffer.put("a", ()), Ok(0));
    assert_eq!(buffer.put("a", ()), Ok(1));
    buffer.take("a", 2);
    let mut resumed = FifoBuffer::from_state(buffer.state()).unwrap();
    assert_eq!(resumed.put("a", ()), Ok(2));
}

#[test]
fn capacity_can_grow_on_resume() {
    let grown = BufferState { capacity: capacity(9), ..state(&[0, 1, 2], 3) };
    let mut buffer = FifoBuffer::from_state(grown).unwrap();
    assert_eq!(buffer.put("a", 1), Ok(3));
}

#[test]
fn refuses_states_that_no_buffer_can_have() {
    let refuses = |state, error| assert_eq!(FifoBuffer::from_state(state), Err(error));
    refuses(BufferState { version: 2, ..state(&[], 0) }, Error::Version { found: 2, expected: 1 });
    refuses(state(&[0, 1, 2, 3], 4), Error::OverCapacity { found: 4, capacity: capacity(3) });
    refuses(state(&[1, 0], 2), Error::UidOrder { found: 0, before: 1 });
    refuses(state(&[1, 1], 2), Error::UidOrder { found: 1, before: 1 });
    refuses(state(&[1, 4], 4), Error::NextUid { found: 4 });
    refuses(state(&[], u64::MAX), Error::NextUid { found: u64::MAX });
}

#[test]
fn messages_say_what_to_do() {
    let full = FifoBuffer::from_state(state(&[0, 1, 2], 3)).unwrap().put("a", 7).unwrap_err();
    assert_eq!(full.item, 7);
    assert_eq!(
        full.to_string(),
        "put into replay buffer: it is full at 3 groups; take some first or raise its capacity"
    );
    let over = FifoBuffer::from_state(state(&[0, 1, 2, 3], 4)).unwrap_err();
    assert_eq!(
        over.to_string(),
        "load replay buffer: found 4 records, expected at most 3, its capacity; raise `capacity`"
    );
}
