//! Mean, spread and range.

/// What a set of numbers looks like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// How many.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Their unbiased standard deviation (n − 1), which one number alone has not.
    pub std: Option<f64>,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Summarises `f32` or `f64` values; `None` when there are none. A NaN makes mean and deviation NaN; the range skips it.
    pub fn of<T: Copy + Into<f64>>(values: &[T]) -> Option<Self> {
        let values = || values.iter().map(|&value| value.into());
        let (min, max) = (values().reduce(f64::min)?, values().reduce(f64::max)?);
        let count = values().count();
        let mean = values().sum::<f64>() / count as f64;
        let spread: f64 = values().map(|value| (value - mean).powi(2)).sum();
        let std = (count > 1).then(|| (spread / (count - 1) as f64).sqrt());
        Some(Self { count, mean, std, min, max })
    }
}
