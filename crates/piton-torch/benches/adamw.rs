//! One optimizer step over 5 million parameters in 60 tensors: ours, and libtorch's fused AdamW through tch.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of a test or bench: a failure should stop it where it happens"
)]

use std::collections::BTreeMap;

use divan::Bencher;
use piton_torch::{AdamW, AdamWConfig, set_threads};
use tch::{COptimizer, Device, Kind, Tensor};

fn main() {
    divan::main();
}

fn params() -> BTreeMap<String, Tensor> {
    let params: BTreeMap<String, Tensor> = (0..60)
        .map(|index| {
            let tensor = Tensor::randn([83, 1024], (Kind::Float, Device::Cpu)).set_requires_grad(true);
            (format!("layer.{index}"), tensor)
        })
        .collect();
    let loss: Tensor = params.values().map(|param| param.square().sum(None)).sum();
    loss.backward();
    params
}

#[divan::bench(args = [1, 2])]
fn piton(bencher: Bencher<'_, '_>, threads: usize) {
    set_threads(threads).unwrap();
    let mut params = params();
    let mut optimizer = AdamW::new(AdamWConfig::default(), &params).unwrap();
    bencher.bench_local(|| optimizer.step(&mut params).unwrap());
}

/// `torch::optim::AdamW` of the C++ library, the one that tch offers.
#[divan::bench(args = [1, 2])]
fn libtorch(bencher: Bencher<'_, '_>, threads: usize) {
    set_threads(threads).unwrap();
    let params = params();
    let mut optimizer = COptimizer::adamw(1e-5, 0.9, 0.95, 0.01, 1e-8, false).unwrap();
    for param in params.values() {
        optimizer.add_parameters(param, 0).unwrap();
    }
    bencher.bench_local(|| optimizer.step().unwrap());
}
