//! Numbers and arrays across the border to libtorch.

use tch::{Device, Kind, Tensor};

use crate::{Error, Result};

/// A position as libtorch counts.
pub(crate) fn index(position: usize) -> Result<i64> {
    i64::try_from(position)
        .map_err(|_| Error::Torch(tch::TchError::Convert(format!("{position} is beyond i64"))))
}

/// A count as a divisor.
pub(crate) fn float(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

/// `[N]` the values of a tensor in f32, off the graph and on the CPU.
pub(crate) fn values(tensor_n: &Tensor) -> Result<Vec<f32>> {
    let tensor_n = tensor_n.f_detach()?.f_to_device(Device::Cpu)?.f_to_kind(Kind::Float)?.f_contiguous()?;
    Ok(Vec::try_from(&tensor_n)?)
}
