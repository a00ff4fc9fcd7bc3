//! The policies, each a set of steps it names.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use super::Listed;

/// A reason to keep checkpoints. Zero cannot be said: the newest valid one is never deleted.
///
/// As text: `all`, `3` or `last 3`, `every 1000`, `best 2 by return`, `best 2 by lowest loss`, `last 24h`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// Every one.
    All,
    /// The newest so many.
    Last(NonZeroUsize),
    /// Those whose step is a multiple of this; 0 is one.
    EverySteps(NonZeroU64),
    /// The best so many by a metric of their manifests; of equal ones the newer.
    ///
    /// A checkpoint without the metric is not among the best. While none has it, none can be told to be worse, and all
    /// stay: a misspelled name fills the disk, which is noticed, and deletes nothing, which would not be.
    Best {
        /// How many.
        count: NonZeroUsize,
        /// Name of the metric, as given to [`Stage::metric`](crate::Stage::metric).
        metric: String,
        /// Which end of it is good.
        order: Order,
    },
    /// Those written at most so long ago, by the time in the manifest and the clock of the caller. One whose time lies
    /// in the future, since a clock was set back, stays.
    Within(Duration),
}

/// Which values of a metric are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// High ones: a return, an accuracy.
    Highest,
    /// Low ones: a loss.
    Lowest,
}

/// One or more reasons to keep a checkpoint: it stays if any of them names it.
///
/// As text, the policies with commas between them: `last 3, every 1000`. In a configuration file a number, a text, or a
/// list of these.
///
/// ```
/// use piton_checkpoint::{Keep, Retention};
/// let told: Retention = "last 2, every 500".parse()?;
/// assert_eq!(told, Keep::Last(2.try_into()?).or(Keep::EverySteps(500.try_into()?)));
/// assert_eq!(told.to_string(), "last 2, every 500");
/// let error = "0".parse::<Retention>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     r#""0" would keep no checkpoint: write "all" to keep every one, or a positive number"#
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Never empty.
    policies: Vec<Keep>,
}

impl Keep {
    /// This reason or another one.
    #[must_use]
    pub fn or(self, other: Self) -> Retention {
        Retention::from(self).or(other)
    }

    /// The steps of `valid` that this policy names.
    pub(super) fn names(&self, valid: &BTreeMap<u64, Listed>, now_unix_ms: u64) -> Vec<u64> {
        match self {
            Self::All => valid.keys().copied().collect(),
            Self::Last(count) => valid.keys().rev().take(count.get()).copied().collect(),
            Self::EverySteps(steps) => {
                valid.keys().filter(|step| *step % steps.get() == 0).copied().collect()
            }
            Self::Best { count, metric, order } => best(valid, *count, metric, *order),
            Self::Within(time) => {
                let age_ms = |listed: &Listed| now_unix_ms.saturating_sub(listed.created_unix_ms);
                let young = valid.iter().filter(|(_, listed)| u128::from(age_ms(listed)) <= time.as_millis());
                young.map(|(step, _)| *step).collect()
            }
        }
    }
}

fn best(valid: &BTreeMap<u64, Listed>, count: NonZeroUsize, metric: &str, order: Order) -> Vec<u64> {
    let value = |listed: &Listed| listed.metrics.get(metric).copied().filter(|value| value.is_finite());
    let mut ranked: Vec<(f64, u64)> =
        valid.iter().filter_map(|(step, listed)| Some((value(listed)?, *step))).collect();
    if ranked.is_empty() {
        return valid.keys().copied().collect();
    }
    ranked.sort_by(|a, b| {
        let by_value = match order {
            Order::Highest => b.0.partial_cmp(&a.0),
            Order::Lowest => a.0.partial_cmp(&b.0),
        };
        by_value.unwrap_or(Ordering::Equal).then(b.1.cmp(&a.1))
    });
    ranked.into_iter().take(count.get()).map(|(_, step)| step).collect()
}

impl Retention {
    /// The same reasons and one more.
    #[must_use]
    pub fn or(mut self, other: Keep) -> Self {
        if !self.policies.contains(&other) {
            self.policies.push(other);
        }
        self
    }

    /// The policies, in the order they were given.
    pub fn policies(&self) -> &[Keep] {
        &self.policies
    }
}

impl From<Keep> for Retention {
    fn from(policy: Keep) -> Self {
        Self { policies: vec![policy] }
    }
}
