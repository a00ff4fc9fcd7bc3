//! The buffer against the plainest thing that could be one: a vector searched from its start.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use piton_replay::{FifoBuffer, Full};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Put(&'static str, u8),
    Take(&'static str, usize),
    SaveAndLoad,
}

/// `(uid, task, item)` in the order they were put.
#[derive(Default)]
struct Naive {
    puts: u64,
    records: Vec<(u64, &'static str, u8)>,
}

impl Naive {
    fn put(&mut self, capacity: NonZeroUsize, task: &'static str, item: u8) -> Result<u64, Full<u8>> {
        if self.records.len() == capacity.get() {
            return Err(Full { item, capacity });
        }
        self.records.push((self.puts, task, item));
        self.puts += 1;
        Ok(self.puts - 1)
    }

    fn take(&mut self, task: &str, n: usize) -> Vec<u8> {
        let mut taken = Vec::new();
        while taken.len() < n
            && let Some(at) = self.records.iter().position(|record| record.1 == task)
        {
            taken.push(self.records.remove(at).2);
        }
        taken
    }

    fn counts(&self) -> Vec<(&str, usize)> {
        let mut counts = BTreeMap::new();
        for (_, task, _) in &self.records {
            *counts.entry(*task).or_default() += 1;
        }
        counts.into_iter().collect()
    }
}

fn task() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("b"), Just("a"), Just("")]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (task(), any::<u8>()).prop_map(|(task, item)| Op::Put(task, item)),
        2 => (task(), 0_usize..4).prop_map(|(task, n)| Op::Take(task, n)),
        1 => Just(Op::SaveAndLoad),
    ]
}

proptest! {
    #[test]
    fn does_what_a_searched_vector_does(capacity in 1_usize..8, ops in prop::collection::vec(op(), 0..60)) {
        let capacity = NonZeroUsize::new(capacity).expect("from 1");
        let mut buffer = FifoBuffer::new(capacity);
        let mut naive = Naive::default();
        for op in ops {
            match op {
                Op::Put(task, item) => prop_assert_eq!(buffer.put(task, item), naive.put(capacity, task, item)),
                Op::Take(task, n) => prop_assert_eq!(buffer.take(task, n), naive.take(task, n)),
                Op::SaveAndLoad => {
                    let saved = serde_json::to_string(&buffer.state_ref())?;
                    let loaded = FifoBuffer::from_state(serde_json::from_str(&saved)?)?;
                    prop_assert_eq!(&loaded, &buffer);
                    prop_assert_eq!(serde_json::to_string(&loaded.state())?, saved);
                    buffer = loaded;
                }
            }
            prop_assert_eq!(buffer.counts().collect::<Vec<_>>(), naive.counts());
            prop_assert_eq!(buffer.len(), naive.records.len());
            prop_assert_eq!(buffer.is_empty(), naive.records.is_empty());
            for (task, count) in naive.counts() {
                prop_assert_eq!(buffer.count(task), count);
            }
        }
    }
}
