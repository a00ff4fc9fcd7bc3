//! The arithmetic of one AdamW step, twice: a single pass in Rust, and libtorch's operations.

use std::marker::PhantomData;

use tch::{Device, Kind, Tensor};

use crate::{AdamWConfig, Result};

/// The scalars of one step, as `torch.optim.AdamW` derives them.
pub(crate) struct Coefficients {
    /// `1 - lr * weight_decay`
    decay: f64,
    /// `1 - beta1`
    lerp: f64,
    beta2: f64,
    eps: f64,
    /// `lr / (1 - beta1^step)`
    step_size: f64,
    /// `sqrt(1 - beta2^step)`
    correction2_sqrt: f64,
}

impl Coefficients {
    pub(crate) fn new(config: &AdamWConfig, step: u64) -> Self {
        let (beta1, beta2) = config.betas;
        let step = i32::try_from(step).unwrap_or(i32::MAX);
        Self {
            decay: 1.0 - config.lr * config.weight_decay,
            lerp: 1.0 - beta1,
            beta2,
            eps: config.eps,
            step_size: config.lr / (1.0 - beta1.powi(step)),
            correction2_sqrt: (1.0 - beta2.powi(step)).sqrt(),
        }
    }
}

/// Updates one parameter and its moments in place; the caller holds the no-grad guard.
pub(crate) fn update(
    coefficients: &Coefficients,
    param: &mut Tensor,
    grad: &Tensor,
    exp_avg: &mut Tensor,
    exp_avg_sq: &mut Tensor,
) -> Result<()> {
    let grad = grad.f_contiguous()?;
    match (Block::of(param)?, Block::of(&grad)?, Block::of(exp_avg)?, Block::of(exp_avg_sq)?) {
        (Some(param), Some(grad), Some(exp_avg), Some(exp_avg_sq))
            if same_length_and_apart([&param, &grad, &exp_avg, &exp_avg_sq]) =>
        {
            fused(coefficients, param, grad.into_slice(), exp_avg, exp_avg_sq);
            Ok(())
        }
        _ => generic(coefficients, param, &grad, exp_avg, exp_avg_sq),
    }
}

/// As [`update`], with a gradient in plain memory that has as many elements as the parameter.
pub(crate) fn update_along(
    coefficients: &Coefficients,
    param: &mut Tensor,
    grad: &[f32],
    exp_avg: &mut Tensor,
    exp_avg_sq: &mut Tensor,
) -> Result<()> {
    match (Block::of(param)?, Block::of(exp_avg)?, Block::of(exp_avg_sq)?) {
        (Some(param), Some(exp_avg), Some(exp_avg_sq))
            if same_length_and_apart([&param, &exp_avg, &exp_avg_sq]) =>
        {
            fused(coefficients, param, grad, exp_avg, exp_avg_sq);
            Ok(())
        }
        _ => {
            let grad = Tensor::f_from_slice(grad)?.f_view_as(param)?.f_to_device(param.device())?;
            generic(coefficients, param, &grad.f_to_kind(param.f_kind()?)?, exp_avg, exp_avg_sq)
        }
    }
}

/// Every operation is rounded once and none is contracted, so this gives the same bits on every CPU.
fn fused(
    coefficients: &Coefficients,
    param: Block<'_>,
    grads: &[f32],
    exp_avg: Block<'_>,
    exp_avg_sq: Block<'_>,
) {
    #[expect(clippy::cast_possible_truncation, reason = "scalars meet f32 tensors in f32, as in PyTorch")]
    let [decay, lerp, beta2, square, eps, step_size, correction2_sqrt] = [
        coefficients.decay,
        coefficients.lerp,
        coefficients.beta2,
        1.0 - coefficients.beta2,
        coefficients.eps,
        coefficients.step_size,
        coefficients.correction2_sqrt,
    ]
    .map(|scalar| scalar as f32);
    let params = param.into_slice();
    let (exp_avgs, exp_avg_sqs) = (exp_avg.into_slice(), exp_avg_sq.into_slice());
    for (((param, &grad), exp_avg), exp_avg_sq) in params.iter_mut().zip(grads).zip(exp_avgs).zip(exp_avg_sqs)
    {
        *exp_avg += lerp * (grad - *exp_avg);
        *exp_avg_sq = *exp_avg_sq * beta2 + square * grad * grad;
        let denominator = exp_avg_sq.sqrt() / correction2_sqrt + eps;
        *param = *param * decay - step_size * (*exp_avg / denominator);
    }
}

fn generic(
    coefficients: &Coefficients,
    param: &mut Tensor,
    grad: &Tensor,
    exp_avg: &mut Tensor,
    exp_avg_sq: &mut Tensor,
) -> Result<()> {
    let _ = param.f_mul_scalar_(coefficients.decay)?;
    let _ = exp_avg.f_lerp_(grad, coefficients.lerp)?;
    let squares = (grad.f_mul(grad)?).f_mul_scalar(1.0 - coefficients.beta2)?;
    let _ = exp_avg_sq.f_mul_scalar_(coefficients.beta2)?.f_add_(&squares)?;
    let denominator =
        exp_avg_sq.f_sqrt()?.f_div_scalar(coefficients.correction2_sqrt)?.f_add_scalar(coefficients.eps)?;
    let update = exp_avg.f_div(&denominator)?.f_mul_scalar(-coefficients.step_size)?;
    let _ = param.f_add_(&update)?;
    Ok(())
}

/// A dense f32 tensor in main memory.
pub(crate) struct Block<'a> {
    start: *mut f32,
    len: usize,
    tensor: PhantomData<&'a Tensor>,
}

impl<'a> Block<'a> {
    /// `None` for a tensor on a device, of another dtype, or with gaps.
    pub(crate) fn of(tensor: &'a Tensor) -> Result<Option<Self>> {
        let plain = tensor.device() == Device::Cpu
            && tensor.f_kind()? == Kind::Float
            && !tensor.is_sparse()
            && !tensor.is_mkldnn()
            && tensor.is_contiguous()
            && tensor.numel() > 0;
        Ok(plain.then(|| Self { start: tensor.data_ptr().cast(), len: tensor.numel(), tensor: PhantomData }))
    }

    /// Whether no element is NaN or infinite.
    #[expect(unsafe_code, reason = "tch gives no view of a tensor's memory")]
    pub(crate) fn is_finite(&self) -> bool {
        // SAFETY: `of` saw a contiguous CPU tensor of f32, so `len` aligned, initialised elements start at `start`. The
        // tensor is borrowed for 'a and no libtorch call runs in between.
        let numbers = unsafe { std::slice::from_raw_parts(self.start, self.len) };
        let all_ones = |x: &f32| u32::from(x.to_bits() & 0x7f80_0000 == 0x7f80_0000);
        numbers.chunks(4096).all(|part| part.iter().map(all_ones).sum::<u32>() == 0)
    }

    #[expect(
        unsafe_code,
        reason = "tch gives no view of a tensor's memory; copying twice costs more than the step"
    )]
    fn into_slice(self) -> &'a mut [f32] {
        // SAFETY: `of` saw a contiguous CPU tensor of f32, so `len` aligned, initialised elements start at `start`.
        // The tensor is borrowed for 'a. `update` makes the blocks that reach this point, three of the tensors it holds
        // mutably, and `same_length_and_apart` saw that no two share an element; a block is consumed here, so
        // there is one slice of each. No libtorch call runs in between.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

fn same_length_and_apart<const N: usize>(blocks: [&Block<'_>; N]) -> bool {
    let mut starts = blocks.map(|block| block.start.addr());
    starts.sort_unstable();
    let bytes = blocks[0].len * size_of::<f32>();
    blocks.iter().all(|block| block.len == blocks[0].len)
        && starts.windows(2).all(|pair| pair[1] - pair[0] >= bytes)
}
