//! Names, shapes and dtypes against what was expected, all faults at once.

use std::collections::BTreeMap;
use std::fmt;

use tch::{Kind, Tensor};

use crate::{Error, Result};

/// Shape and dtype that a tensor should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    /// Size of each dimension.
    pub shape: Vec<i64>,
    /// Element type.
    pub kind: Kind,
}

impl TensorSpec {
    /// The shape and dtype of a tensor at hand.
    ///
    /// # Errors
    /// When its dtype is unknown to tch.
    pub fn of(tensor: &Tensor) -> Result<Self> {
        Ok(Self { shape: tensor.size(), kind: tensor.f_kind()? })
    }
}

impl fmt::Display for TensorSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}{:?}", self.kind, self.shape)
    }
}

/// Holds tensors against what was expected; `context` opens the message.
///
/// # Errors
/// [`Error::Mismatch`] with a line for every missing or unexpected name, wrong shape and wrong dtype.
pub fn check_tensors(
    context: &str,
    found: &BTreeMap<String, Tensor>,
    expected: &BTreeMap<String, TensorSpec>,
) -> Result<()> {
    let mut faults = Vec::new();
    for (name, wanted) in expected {
        match found.get(name) {
            None => faults.push(format!("{name} is missing, expected {wanted}")),
            Some(tensor) => {
                let spec = TensorSpec::of(tensor)?;
                if &spec != wanted {
                    faults.push(format!("{name} is {spec}, expected {wanted}"));
                }
            }
        }
    }
    for (name, tensor) in found.iter().filter(|(name, _)| !expected.contains_key(*name)) {
        faults.push(format!("{name} ({}) is not expected", TensorSpec::of(tensor)?));
    }
    if faults.is_empty() { Ok(()) } else { Err(Error::Mismatch { context: context.to_owned(), faults }) }
}
