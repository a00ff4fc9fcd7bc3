//! Which prompt comes next, for ever.

use std::fmt;
use std::num::NonZeroUsize;

use piton_rng::Seed;

use crate::{Error, SamplerState};

/// Deals the rows of a data set, epoch after epoch, in an order that is a function of (seed, task, epoch).
///
/// The whole state is an absolute position: the number of draws so far. It is also the id of the next group, so ids
/// never restart, an epoch that is exactly over is not dealt again, and rows left over by a batch begin the next one.
///
/// ```
/// use std::num::NonZeroUsize;
/// use piton_data::Sampler;
/// use piton_rng::Seed;
///
/// # fn main() -> Result<(), piton_data::Error> {
/// let rows = NonZeroUsize::new(10).expect("ten is not zero");
/// let mut sampler = Sampler::new("math", rows, Seed(7));
/// let first: Vec<_> = sampler.by_ref().take(4).collect();
/// let saved = sampler.state(); // plain data with serde
///
/// let mut resumed = Sampler::new("math", rows, Seed(7));
/// resumed.restore(&saved)?;
/// assert_eq!(resumed.draw(), sampler.draw());
/// assert_eq!(resumed.at(0), first[0]); // a group's prompt can be looked up by its id
/// # Ok(())
/// # }
/// ```
pub struct Sampler {
    task: String,
    rows: NonZeroUsize,
    dataset_digest: String,
    seed: Seed,
    order: Order,
    position: u64,
    /// The order of the epoch that `position` lies in, or of another one.
    dealt: (u64, Vec<usize>),
}

/// In which order the rows of an epoch are dealt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Another order each epoch, a function of (seed, task, epoch).
    Shuffled,
    /// The order of the file, each epoch.
    File,
}

/// One row, dealt to one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// The absolute position of this draw: 0, 1, 2, ... over all epochs and restarts.
    pub group_id: u64,
    /// Which pass over the rows this is, from 0.
    pub epoch: u64,
    /// The row, below the number of rows.
    pub row_index: usize,
}

impl Sampler {
    /// Makes a sampler of `rows` rows at position 0, shuffled, without a digest.
    #[must_use]
    pub fn new(task: impl Into<String>, rows: NonZeroUsize, seed: Seed) -> Self {
        let mut sampler = Self {
            task: task.into(),
            rows,
            dataset_digest: String::new(),
            seed,
            order: Order::Shuffled,
            position: 0,
            dealt: (0, Vec::new()),
        };
        sampler.dealt.1 = sampler.epoch_order(0);
        sampler
    }

    /// Sets the order of the rows.
    #[must_use]
    pub fn with_order(mut self, order: Order) -> Self {
        self.order = order;
        self.dealt = (0, self.epoch_order(0));
        self
    }

    /// Names the data, so that a state is not resumed on other data.
    #[must_use]
    pub fn with_digest(mut self, dataset_digest: impl Into<String>) -> Self {
        self.dataset_digest = dataset_digest.into();
        self
    }

    /// Deals the next row.
    pub fn draw(&mut self) -> Draw {
        let epoch = self.position / self.rows.get() as u64;
        if self.dealt.0 != epoch {
            self.dealt = (epoch, self.epoch_order(epoch));
        }
        let draw = self.at(self.position);
        self.position += 1;
        draw
    }

    /// Looks up the draw at a position, past or future, without moving.
    #[must_use]
    pub fn at(&self, position: u64) -> Draw {
        let rows = self.rows.get() as u64;
        let epoch = position / rows;
        let place = usize::try_from(position % rows).expect("below the number of rows, which is a usize");
        let row_index =
            if self.dealt.0 == epoch { self.dealt.1[place] } else { self.epoch_order(epoch)[place] };
        Draw { group_id: position, epoch, row_index }
    }

    /// The number of draws so far, and the `group_id` of the next.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Refuses a batch that would hold a row twice.
    ///
    /// # Errors
    /// [`Error::FewerRowsThanBatch`] when there are fewer rows than `batch`.
    pub fn check_batch(&self, batch: usize) -> Result<(), Error> {
        let rows = self.rows.get();
        if rows < batch {
            return Err(Error::FewerRowsThanBatch { task: self.task.clone(), rows, batch });
        }
        Ok(())
    }

    /// Gives the state to save.
    #[must_use]
    pub fn state(&self) -> SamplerState {
        SamplerState {
            version: SamplerState::VERSION,
            task: self.task.clone(),
            position: self.position,
            rows: self.rows,
            dataset_digest: self.dataset_digest.clone(),
            shuffle: self.order == Order::Shuffled,
            seed: self.seed,
        }
    }

    /// Goes on where a saved state stands.
    ///
    /// # Errors
    /// [`Error::SamplerChanged`] when the state belongs to another task, data set, order or seed, naming all that
    /// differs; [`Error::SamplerVersion`] when its format is not known. The sampler is then as it was.
    pub fn restore(&mut self, state: &SamplerState) -> Result<(), Error> {
        let differences = state.differences(&self.state());
        if !differences.is_empty() {
            return Err(Error::SamplerChanged { task: self.task.clone(), differences });
        }
        self.restore_despite_changes(state)
    }

    /// Goes on at the position of a saved state, on this sampler's own data, order and seed.
    ///
    /// Ids go on without a gap; which rows of the current epoch are still to come is that of the new data.
    ///
    /// # Errors
    /// [`Error::SamplerVersion`] when the format of the state is not known.
    pub fn restore_despite_changes(&mut self, state: &SamplerState) -> Result<(), Error> {
        let (found, expected) = (state.version, SamplerState::VERSION);
        if found != expected {
            return Err(Error::SamplerVersion { task: self.task.clone(), found, expected });
        }
        self.position = state.position;
        Ok(())
    }

    fn epoch_order(&self, epoch: u64) -> Vec<usize> {
        let rows = self.rows.get();
        match self.order {
            Order::Shuffled => {
                self.seed.stream(&format!("sampler/{}", self.task), [epoch, 0, 0]).permutation(rows)
            }
            Order::File => (0..rows).collect(),
        }
    }
}

/// Never ends.
impl Iterator for Sampler {
    type Item = Draw;

    fn next(&mut self) -> Option<Draw> {
        Some(self.draw())
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampler").field("state", &self.state()).finish_non_exhaustive()
    }
}
