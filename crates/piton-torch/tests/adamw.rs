//! AdamW and clipping against torch 2.13.0 (fixtures/golden/torch/adamw.py).

#![expect(
    clippy::unwrap_used,
    reason = "helpers of a test or bench: a failure should stop it where it happens"
)]

use std::collections::BTreeMap;
use std::path::Path;

use piton_torch::{AdamW, AdamWConfig, clip_grad_norm, grad_norm, non_finite_grads, zero_grad};
use serde::Deserialize;
use tch::{Kind, Tensor};

type Values = BTreeMap<String, Vec<f64>>;
type Params = BTreeMap<String, Tensor>;

#[derive(Deserialize)]
struct Golden {
    shapes: BTreeMap<String, Vec<i64>>,
    adamw: Vec<Case>,
    clip: Clip,
}

#[derive(Deserialize)]
struct Case {
    config: AdamWConfig,
    start: Values,
    grads: Vec<Values>,
    after: BTreeMap<usize, BTreeMap<String, After>>,
}

#[derive(Deserialize)]
struct After {
    param: Vec<f64>,
    exp_avg: Vec<f64>,
    exp_avg_sq: Vec<f64>,
}

#[derive(Deserialize)]
struct Clip {
    grads: Values,
    cases: Vec<ClipCase>,
}

#[derive(Deserialize)]
struct ClipCase {
    max_norm: f64,
    norm: f64,
    clipped: Values,
}

fn golden() -> Golden {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/torch/adamw.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn tensor(values: &[f64], shape: &[i64], kind: Kind) -> Tensor {
    Tensor::from_slice(values).to_kind(kind).reshape(shape)
}

fn leaves(golden: &Golden, values: &Values) -> Params {
    let leaf = |(name, shape): (&String, &Vec<i64>)| {
        (name.clone(), tensor(&values[name], shape, Kind::Float).set_requires_grad(true))
    };
    golden.shapes.iter().map(leaf).collect()
}

/// Gives each parameter this gradient: that of `sum(param * grad)`.
fn set_grads(params: &mut Params, grads: &Values) {
    zero_grad(params).unwrap();
    let mut loss = Tensor::from(0.0);
    for (name, param) in &*params {
        let grad = tensor(&grads[name], &param.size(), param.kind());
        loss += (param * grad).sum(None);
    }
    loss.backward();
}

/// Largest difference, relative to values above 1.
fn difference(found: &Tensor, expected: &[f64]) -> f64 {
    let expected = Tensor::from_slice(expected);
    let found = found.detach().flatten(0, -1).to_kind(Kind::Double);
    ((&found - &expected).abs() / expected.abs().clamp_min(1.0)).max().double_value(&[])
}

fn check_adamw(layout: impl Fn(Tensor) -> Tensor) {
    let golden = golden();
    for case in &golden.adamw {
        let mut params: Params = leaves(&golden, &case.start)
            .into_iter()
            .map(|(name, tensor)| (name, layout(tensor.detach()).set_requires_grad(true)))
            .collect();
        let mut optimizer = AdamW::new(case.config.clone(), &params).unwrap();
        for (index, grads) in case.grads.iter().enumerate() {
            set_grads(&mut params, grads);
            optimizer.step(&mut params).unwrap();
            let state = optimizer.state();
            for (name, after) in case.after.get(&(index + 1)).into_iter().flatten() {
                let pairs = [
                    (&params[name], &after.param),
                    (&state[&format!("exp_avg.{name}")], &after.exp_avg),
                    (&state[&format!("exp_avg_sq.{name}")], &after.exp_avg_sq),
                ];
                for (found, expected) in pairs {
                    let difference = difference(found, expected);
                    assert!(difference < 3e-7, "{name} at step {}: off by {difference:e}", index + 1);
                }
            }
        }
        assert_eq!(optimizer.steps(), 20);
    }
}

#[test]
fn twenty_steps_equal_pytorch_to_3e_7() {
    check_adamw(|tensor| tensor);
}

#[test]
fn twenty_steps_without_the_fused_loop_equal_pytorch_to_3e_7() {
    // every second element of a larger tensor: no dense memory, so libtorch's operations do the step
    check_adamw(|tensor| Tensor::stack(&[&tensor, &tensor], -1).select(-1, 0));
}

#[test]
fn a_loaded_state_continues_with_the_same_bits() {
    let golden = golden();
    let case = &golden.adamw[0];
    let mut straight = leaves(&golden, &case.start);
    let mut optimizer = AdamW::new(case.config.clone(), &straight).unwrap();
    let mut resumed = None;
    for (index, grads) in case.grads.iter().enumerate() {
        if index == 7 {
            let copy = |params: &Params| -> Params {
                params.iter().map(|(name, tensor)| (name.clone(), tensor.detach().copy())).collect()
            };
            let params: Params = copy(&straight)
                .into_iter()
                .map(|(name, tensor)| (name, tensor.set_requires_grad(true)))
                .collect();
            let mut other = AdamW::new(case.config.clone(), &params).unwrap();
            other.load_state(&copy(&optimizer.state()), &optimizer.state_metadata()).unwrap();
            resumed = Some((params, other));
        }
        set_grads(&mut straight, grads);
        optimizer.step(&mut straight).unwrap();
        if let Some((params, other)) = &mut resumed {
            set_grads(params, grads);
            other.step(params).unwrap();
        }
    }
    let (params, other) = resumed.unwrap();
    assert_eq!(other.state_metadata()["step"], "20");
    for (name, tensor) in &straight {
        assert!(tensor.equal(&params[name]), "{name}");
    }
    for (name, tensor) in optimizer.state() {
        assert!(tensor.equal(&other.state()[&name]), "{name}");
    }
}

#[test]
fn a_foreign_state_is_refused_with_all_faults_and_changes_nothing() {
    let golden = golden();
    let params = leaves(&golden, &golden.adamw[0].start);
    let mut optimizer = AdamW::new(AdamWConfig::default(), &params).unwrap();
    let mut state = optimizer.state();
    state.remove("exp_avg.bias");
    state.insert("exp_avg.cube".to_owned(), Tensor::ones([6], (Kind::Float, tch::Device::Cpu)));
    state.insert("exp_avg_sq.matrix".to_owned(), Tensor::ones([3, 4], (Kind::Double, tch::Device::Cpu)));
    state.insert("exp_avg.head".to_owned(), Tensor::ones([1], (Kind::Float, tch::Device::Cpu)));
    let error = optimizer.load_state(&state, &optimizer.state_metadata()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "load optimizer state:\n  exp_avg.bias is missing, expected Float[5]\n  exp_avg.cube is Float[6], expected \
         Float[2, 1, 3]\n  exp_avg_sq.matrix is Double[3, 4], expected Float[3, 4]\n  exp_avg.head (Float[1]) is not \
         expected"
    );
    let error = optimizer.load_state(&optimizer.state(), &BTreeMap::new()).unwrap_err();
    assert!(error.to_string().contains("metadata key step is absent"), "{error}");
    assert!(optimizer.state().values().all(|tensor| tensor.abs().max().double_value(&[]) == 0.0));
}

#[test]
fn clipping_equals_pytorch() {
    let golden = golden();
    for case in &golden.clip.cases {
        let zeros =
            golden.clip.grads.iter().map(|(name, grad)| (name.clone(), vec![0.0; grad.len()])).collect();
        let mut params = leaves(&golden, &zeros);
        set_grads(&mut params, &golden.clip.grads);
        let norm = clip_grad_norm(&params, case.max_norm).unwrap();
        assert!((norm - case.norm).abs() < 1e-5, "{norm} against {}", case.norm);
        for (name, clipped) in &case.clipped {
            assert!(difference(&params[name].grad(), clipped) < 1e-6, "{name} at {}", case.max_norm);
        }
        assert!((grad_norm(&params).unwrap() - case.norm.min(case.max_norm)).abs() < 1e-5);
    }
}

#[test]
fn gradients_that_are_not_finite_are_named_and_left_alone() {
    let golden = golden();
    let mut grads = golden.clip.grads.clone();
    grads.get_mut("cube").unwrap()[1] = f64::NAN;
    grads.get_mut("matrix").unwrap()[0] = f64::INFINITY;
    let mut params = leaves(&golden, &golden.adamw[0].start);
    set_grads(&mut params, &grads);
    assert!(!clip_grad_norm(&params, 1.0).unwrap().is_finite());
    assert!(difference(&params["bias"].grad(), &grads["bias"]) < 1e-6);
    assert_eq!(non_finite_grads(&params).unwrap(), ["cube", "matrix"]);
}

#[test]
fn a_learning_rate_of_zero_is_legal_and_a_negative_one_is_not() {
    assert!(AdamWConfig { lr: 0.0, ..AdamWConfig::default() }.check().is_ok());
    let error = AdamWConfig { lr: -1.0, ..AdamWConfig::default() }.check().unwrap_err();
    assert_eq!(error.to_string(), "lr is -1, expected a finite number, 0 or more");
}
