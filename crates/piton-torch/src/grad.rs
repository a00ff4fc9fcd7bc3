//! Gradients of named parameters: their norm, clipping, and who is not finite.

use std::collections::BTreeMap;

use tch::Tensor;

use crate::adamw_kernel::Block;
use crate::{Error, Result};

/// Forgets all gradients, so that the next backward pass starts from none.
///
/// # Errors
/// When libtorch refuses.
pub fn zero_grad(params: &mut BTreeMap<String, Tensor>) -> Result<()> {
    for param in params.values_mut() {
        let mut grad = param.f_grad()?;
        if grad.defined() {
            let _ = grad.f_detach_()?.f_zero_()?;
        }
    }
    Ok(())
}

/// The 2-norm over all gradients together; parameters without one do not count.
///
/// # Errors
/// When libtorch refuses.
pub fn grad_norm(params: &BTreeMap<String, Tensor>) -> Result<f64> {
    total_norm(&gradients(params)?)
}

/// Scales all gradients so that their total norm is at most `max_norm`; returns the norm before.
///
/// As `torch.nn.utils.clip_grad_norm_`: the factor is `max_norm / (norm + 1e-6)`, never above 1.
/// A norm that is NaN or infinite is returned and the gradients are left as they are, where PyTorch
/// would multiply them by NaN or 0: the caller can still name the culprits with [`non_finite_grads`].
///
/// # Errors
/// When `max_norm` is not above 0, or libtorch refuses.
pub fn clip_grad_norm(params: &BTreeMap<String, Tensor>, max_norm: f64) -> Result<f64> {
    if max_norm.is_nan() || max_norm <= 0.0 {
        return Err(Error::Setting { name: "max_norm", found: max_norm, expected: "above 0" });
    }
    let mut grads = gradients(params)?;
    let norm = total_norm(&grads)?;
    let factor = max_norm / (norm + 1e-6);
    if norm.is_finite() && factor < 1.0 {
        let _guard = tch::no_grad_guard();
        for grad in &mut grads {
            let _ = grad.f_mul_scalar_(factor)?;
        }
    }
    Ok(norm)
}

/// Names of the parameters whose gradient holds a NaN or an infinity.
///
/// # Errors
/// When libtorch refuses.
pub fn non_finite_grads(params: &BTreeMap<String, Tensor>) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for (name, param) in params {
        let grad = param.f_grad()?;
        if grad.defined() && !is_finite(&grad)? {
            names.push(name.clone());
        }
    }
    Ok(names)
}

/// Refuses tensors that hold a NaN or an infinity, all named at once.
///
/// `context` says what they are, such as `weights at step 12`. Integer tensors are finite.
///
/// # Errors
/// [`Error::NonFinite`] with the names.
pub fn check_finite(context: &str, tensors: &BTreeMap<String, Tensor>) -> Result<()> {
    let mut names = Vec::new();
    for (name, tensor) in tensors {
        if !is_finite(tensor)? {
            names.push(name.clone());
        }
    }
    if names.is_empty() { Ok(()) } else { Err(Error::NonFinite { context: context.to_owned(), names }) }
}

fn is_finite(tensor: &Tensor) -> Result<bool> {
    if let Some(numbers) = Block::of(&tensor.f_detach()?)? {
        // one pass at the speed of memory, where libtorch's operations make a tensor of truths first
        return Ok(numbers.is_finite());
    }
    Ok(tensor.f_detach()?.f_isfinite()?.f_all()?.f_int64_value(&[])? != 0)
}

fn gradients(params: &BTreeMap<String, Tensor>) -> Result<Vec<Tensor>> {
    let mut grads = Vec::with_capacity(params.len());
    for param in params.values() {
        let grad = param.f_grad()?;
        if grad.defined() {
            grads.push(grad.f_detach()?);
        }
    }
    Ok(grads)
}

/// The norm of the norms, as PyTorch takes it; one transfer from the device.
fn total_norm(grads: &[Tensor]) -> Result<f64> {
    let mut norms = Vec::with_capacity(grads.len());
    for grad in grads {
        norms.push(grad.f_norm()?);
    }
    if norms.is_empty() {
        return Ok(0.0);
    }
    Ok(Tensor::f_stack(&norms, 0)?.f_norm()?.f_double_value(&[])?)
}
