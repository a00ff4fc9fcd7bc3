//! Random weights for a model that has none yet.

use std::collections::BTreeMap;

use piton_rng::Seed;
use tch::{Device, Tensor};

use crate::{ModelConfig, Result, Weights, parameter_shapes};

/// Standard deviation of matrices: `initializer_range` of transformers' Qwen3Config.
const DEVIATION: f64 = 0.02;

/// Weights drawn for `config`: matrices normal with deviation 0.02, norms one, biases zero.
///
/// Each tensor has its own stream, named by the seed and the tensor's name, so the values of one do not
/// depend on which others exist, nor on `device` or thread count.
///
/// # Errors
/// When libtorch cannot allocate.
pub fn init(config: &ModelConfig, seed: Seed, device: Device) -> Result<Weights> {
    let mut tensors = BTreeMap::new();
    for (name, shape) in parameter_shapes(config) {
        let count = shape.iter().product::<i64>();
        let values: Vec<f32> = if shape.len() == 1 {
            let value = if name.ends_with(".bias") { 0.0 } else { 1.0 };
            (0..count).map(|_| value).collect()
        } else {
            let mut stream = seed.stream(&format!("init.{name}"), [0; 3]);
            (0..count).map(|_| to_f32(DEVIATION * stream.standard_normal())).collect()
        };
        tensors.insert(name, Tensor::f_from_slice(&values)?.f_view(shape.as_slice())?.f_to_device(device)?);
    }
    Weights::new(config, tensors, "random initialisation")
}

#[expect(clippy::cast_possible_truncation, reason = "weights are f32")]
fn to_f32(value: f64) -> f32 {
    value as f32
}
