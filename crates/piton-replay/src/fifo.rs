//! First in, first out, per task.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroUsize;

use crate::{BufferState, Error, Full, Record};

/// A bounded buffer that gives each task its oldest groups first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FifoBuffer<T> {
    capacity: NonZeroUsize,
    next_uid: u64,
    len: usize,
    /// Uids increase along every queue, and no queue is empty.
    tasks: BTreeMap<String, VecDeque<(u64, T)>>,
}

impl<T> FifoBuffer<T> {
    /// Makes an empty buffer for at most `capacity` groups, all tasks together. Room is not reserved beforehand.
    #[must_use]
    pub fn new(capacity: NonZeroUsize) -> Self {
        Self { capacity, next_uid: 0, len: 0, tasks: BTreeMap::new() }
    }

    /// Adds a group behind the others of its task and gives its uid.
    ///
    /// # Errors
    /// [`Full`], with the item in it, when `capacity` groups are held; nothing has changed then.
    pub fn put(&mut self, task: &str, item: T) -> Result<u64, Full<T>> {
        if self.len >= self.capacity.get() {
            return Err(Full { item, capacity: self.capacity });
        }
        Ok(self.push(task, item))
    }

    fn push(&mut self, task: &str, item: T) -> u64 {
        let uid = self.next_uid;
        if let Some(queue) = self.tasks.get_mut(task) {
            queue.push_back((uid, item));
        } else {
            self.tasks.insert(task.to_owned(), VecDeque::from([(uid, item)]));
        }
        self.next_uid += 1;
        self.len += 1;
        uid
    }

    /// Removes up to `n` groups of `task`, oldest first: fewer when it holds fewer, none for a task it does not know.
    pub fn take(&mut self, task: &str, n: usize) -> Vec<T> {
        let Some(queue) = self.tasks.get_mut(task) else { return Vec::new() };
        let taken: Vec<T> = queue.drain(..n.min(queue.len())).map(|(_, item)| item).collect();
        if queue.is_empty() {
            self.tasks.remove(task);
        }
        self.len -= taken.len();
        taken
    }

    /// Counts the groups of `task`.
    #[must_use]
    pub fn count(&self, task: &str) -> usize {
        self.tasks.get(task).map_or(0, VecDeque::len)
    }

    /// Counts the groups of every task that has any, in order of their names.
    pub fn counts(&self) -> impl Iterator<Item = (&str, usize)> {
        self.tasks.iter().map(|(task, queue)| (task.as_str(), queue.len()))
    }

    /// Counts the groups of all tasks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Says whether it holds no group.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many groups fit, all tasks together.
    #[must_use]
    pub fn capacity(&self) -> NonZeroUsize {
        self.capacity
    }

    /// Copies the whole buffer into a plain value.
    #[must_use]
    pub fn state(&self) -> BufferState<T>
    where
        T: Clone,
    {
        self.state_with(T::clone)
    }

    /// The same without copying items: serialises to the same bytes as [`FifoBuffer::state`].
    #[must_use]
    pub fn state_ref(&self) -> BufferState<&T> {
        self.state_with(|item| item)
    }

    fn state_with<'a, U>(&'a self, item: impl Fn(&'a T) -> U) -> BufferState<U> {
        let mut records: Vec<Record<U>> = self
            .tasks
            .iter()
            .flat_map(|(task, queue)| queue.iter().map(move |(uid, item)| (task, uid, item)))
            .map(|(task, &uid, it)| Record { uid, task: task.clone(), item: item(it) })
            .collect();
        records.sort_unstable_by_key(|record| record.uid);
        BufferState {
            version: BufferState::<U>::VERSION,
            capacity: self.capacity,
            next_uid: self.next_uid,
            records,
        }
    }

    /// Makes the buffer that a state describes.
    ///
    /// # Errors
    /// When the state is of another version, holds more than its capacity, or has uids that no buffer can have given.
    pub fn from_state(state: BufferState<T>) -> Result<Self, Error> {
        state.check()?;
        let mut buffer = Self::new(state.capacity);
        for Record { uid, task, item } in state.records {
            buffer.next_uid = uid;
            buffer.push(&task, item);
        }
        buffer.next_uid = state.next_uid;
        Ok(buffer)
    }
}
