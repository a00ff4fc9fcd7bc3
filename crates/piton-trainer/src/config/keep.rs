//! How many checkpoints stay: a positive number or `"all"`.

use std::num::NonZeroUsize;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Retention of checkpoints and exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxKeep {
    /// Nothing is deleted; written `"all"`.
    All,
    /// The newest so many stay.
    Last(NonZeroUsize),
}

impl Default for MaxKeep {
    /// Three: a finite number, so that a long run cannot fill a disk.
    fn default() -> Self {
        Self::Last(NonZeroUsize::new(3).expect("3 is not zero"))
    }
}

impl Serialize for MaxKeep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("all"),
            Self::Last(count) => serializer.serialize_u64(count.get() as u64),
        }
    }
}

impl<'de> Deserialize<'de> for MaxKeep {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = MaxKeep;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a positive number of checkpoints, or \"all\"")
            }
            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<MaxKeep, E> {
                match usize::try_from(value).ok().and_then(NonZeroUsize::new) {
                    Some(count) => Ok(MaxKeep::Last(count)),
                    None => Err(E::custom(format!(
                        "{value} checkpoints cannot be kept: write \"all\" to keep every one, or a positive number"
                    ))),
                }
            }
            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<MaxKeep, E> {
                self.visit_i64(i64::try_from(value).unwrap_or(i64::MAX))
            }
            fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<MaxKeep, E> {
                if value == "all" {
                    Ok(MaxKeep::All)
                } else {
                    Err(E::custom(format!(
                        "{value:?} is not a retention: write \"all\" or a positive number"
                    )))
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
