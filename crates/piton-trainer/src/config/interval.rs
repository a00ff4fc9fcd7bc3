//! Every so many steps, or never.

use std::num::NonZeroU64;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An interval in train steps; absent or −1 is off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Interval(Option<NonZeroU64>);

impl Interval {
    /// Never.
    pub const OFF: Self = Self(None);

    /// Every `steps` steps.
    pub fn every(steps: NonZeroU64) -> Self {
        Self(Some(steps))
    }

    /// The number of steps, or `None` when off.
    pub fn steps(self) -> Option<u64> {
        self.0.map(NonZeroU64::get)
    }

    /// Whether something is due at this step (from 1).
    pub fn is_due(self, step: u64) -> bool {
        self.0.is_some_and(|every| step > 0 && step.is_multiple_of(every.get()))
    }
}

impl Serialize for Interval {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            None => serializer.serialize_i64(-1),
            Some(steps) => serializer.serialize_u64(steps.get()),
        }
    }
}

impl<'de> Deserialize<'de> for Interval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = i64::deserialize(deserializer)?;
        if value == -1 {
            return Ok(Self::OFF);
        }
        u64::try_from(value).ok().and_then(NonZeroU64::new).map(Self::every).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "{value} is not an interval: write a positive number of steps, or -1 (or leave the key out) for never"
            ))
        })
    }
}
