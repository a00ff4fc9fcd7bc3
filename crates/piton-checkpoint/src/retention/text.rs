//! Policies as people write them, on a command line and in a configuration file.

use std::fmt;
use std::num::{NonZeroU64, NonZeroUsize};
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::keep::{Keep, Order, Retention};

/// A text that is no policy, and what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RetentionError {
    /// Nothing would be kept.
    #[error("{text:?} would keep no checkpoint: write \"all\" to keep every one, or a positive number")]
    Nothing {
        /// The text.
        text: String,
    },
    /// None of the forms.
    #[error(
        "{text:?} is not a policy: write \"all\", 3 (the newest three), \"every 1000\" (steps), \"last 24h\" (or s, m, d), \
         \"best 2 by return\" or \"best 2 by lowest loss\"; several with commas between them"
    )]
    Unknown {
        /// The text.
        text: String,
    },
}

impl FromStr for Keep {
    type Err = RetentionError;

    fn from_str(text: &str) -> Result<Self, RetentionError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let unknown = || RetentionError::Unknown { text: text.to_owned() };
        let nothing = || RetentionError::Nothing { text: text.to_owned() };
        // A minus sign or a zero is a wish for nothing or for everything, and nobody can tell which.
        let number = |word: &str| match word.strip_prefix('-').unwrap_or(word).parse::<u64>() {
            Ok(number) if number == 0 || word.starts_with('-') => Err(nothing()),
            Ok(number) => NonZeroU64::new(number).ok_or_else(nothing),
            Err(_) => Err(unknown()),
        };
        let count = |word: &str| NonZeroUsize::try_from(number(word)?).map_err(|_| unknown());
        match words[..] {
            ["all"] => Ok(Self::All),
            ["last", age] if duration(age).is_some() => {
                let time = duration(age).ok_or_else(unknown)?;
                if time.is_zero() { Err(nothing()) } else { Ok(Self::Within(time)) }
            }
            [one] | ["last", one] => Ok(Self::Last(count(one)?)),
            ["every", steps] | ["every", steps, "step" | "steps"] => Ok(Self::EverySteps(number(steps)?)),
            ["best", n, "by", metric] | ["best", n, "by", "highest", metric] => {
                Ok(Self::Best { count: count(n)?, metric: metric.to_owned(), order: Order::Highest })
            }
            ["best", n, "by", "lowest", metric] => {
                Ok(Self::Best { count: count(n)?, metric: metric.to_owned(), order: Order::Lowest })
            }
            _ => Err(unknown()),
        }
    }
}

/// `90s`, `15m`, `24h`, `7d`.
fn duration(text: &str) -> Option<Duration> {
    let seconds = match text.chars().next_back()? {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        _ => return None,
    };
    let number: u64 = text[..text.len() - 1].parse().ok()?;
    Some(Duration::from_secs(number.checked_mul(seconds)?))
}

impl FromStr for Retention {
    type Err = RetentionError;

    fn from_str(text: &str) -> Result<Self, RetentionError> {
        let mut policies = text.split(',').map(str::parse);
        let first: Result<Keep, _> =
            policies.next().unwrap_or(Err(RetentionError::Unknown { text: text.into() }));
        policies.try_fold(Self::from(first?), |all, one| Ok(all.or(one?)))
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Last(count) => write!(f, "last {count}"),
            Self::EverySteps(steps) => write!(f, "every {steps}"),
            Self::Best { count, metric, order: Order::Highest } => write!(f, "best {count} by {metric}"),
            Self::Best { count, metric, order: Order::Lowest } => {
                write!(f, "best {count} by lowest {metric}")
            }
            Self::Within(time) => {
                let seconds = time.as_secs();
                let units = [(24 * 60 * 60, 'd'), (60 * 60, 'h'), (60, 'm'), (1, 's')];
                let fits =
                    units.into_iter().find(|(unit, _)| seconds >= *unit && seconds.is_multiple_of(*unit));
                let (unit, letter) = fits.unwrap_or((1, 's'));
                write!(f, "last {}{letter}", seconds / unit)
            }
        }
    }
}

impl fmt::Display for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, policy) in self.policies().iter().enumerate() {
            if at > 0 {
                f.write_str(", ")?;
            }
            policy.fmt(f)?;
        }
        Ok(())
    }
}

impl Serialize for Retention {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.policies() {
            [Keep::Last(count)] => serializer.serialize_u64(count.get() as u64),
            _ => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Retention {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RetentionVisitor)
    }
}

struct RetentionVisitor;

impl<'de> Visitor<'de> for RetentionVisitor {
    type Value = Retention;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"all\", a positive number, a policy such as \"every 1000\", or a list of these")
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Retention, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Retention, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Retention, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Retention, A::Error> {
        let Some(mut all) = list.next_element::<Retention>()? else {
            return Err(A::Error::custom(RetentionError::Nothing { text: "[]".to_owned() }));
        };
        while let Some(more) = list.next_element::<Retention>()? {
            all = more.policies().iter().cloned().fold(all, Retention::or);
        }
        Ok(all)
    }
}
