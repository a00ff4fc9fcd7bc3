//! AdamW over named parameters, with a state that can be saved and loaded exactly.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::adamw_kernel::{Coefficients, update, update_along};
use crate::{Error, Result, TensorSpec, check_tensors};

const STEP: &str = "step";

/// Hyper-parameters of [`AdamW`], as in Loshchilov and Hutter 2019.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdamWConfig {
    /// Learning rate, 0 or more; a schedule changes it with [`AdamW::set_lr`].
    pub lr: f64,
    /// Decay of the two moments, each in [0, 1); (0.9, 0.95) as in XTuner, where PyTorch has (0.9, 0.999).
    pub betas: (f64, f64),
    /// Added to the root of the second moment, 0 or more; 1e-8 as in PyTorch.
    pub eps: f64,
    /// Decoupled decay: parameters shrink by `lr * weight_decay` a step; 0.01 as in PyTorch.
    pub weight_decay: f64,
}

impl Default for AdamWConfig {
    fn default() -> Self {
        Self { lr: 1e-5, betas: (0.9, 0.95), eps: 1e-8, weight_decay: 0.01 }
    }
}

impl AdamWConfig {
    /// Checks every field against its range.
    ///
    /// # Errors
    /// [`Error::Setting`] for the first that is out of it.
    pub fn check(&self) -> Result<()> {
        let at_least_0 = [("lr", self.lr), ("eps", self.eps), ("weight_decay", self.weight_decay)];
        for (name, found) in at_least_0 {
            if !found.is_finite() || found < 0.0 {
                return Err(Error::Setting { name, found, expected: "a finite number, 0 or more" });
            }
        }
        for (name, found) in [("betas.0", self.betas.0), ("betas.1", self.betas.1)] {
            if !(0.0..1.0).contains(&found) {
                return Err(Error::Setting { name, found, expected: "at least 0 and below 1" });
            }
        }
        Ok(())
    }
}

/// The optimizer: hyper-parameters, a step counter, and two moments a parameter.
///
/// One step is that of `torch.optim.AdamW`: decoupled decay first, bias-corrected moments,
/// `eps` outside the root. On the CPU in f32 it is one pass over memory; elsewhere libtorch's operations.
#[derive(Debug)]
pub struct AdamW {
    config: AdamWConfig,
    step: u64,
    moments: BTreeMap<String, Moments>,
}

#[derive(Debug)]
struct Moments {
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
}

impl AdamW {
    /// An optimizer at step 0 for these parameters, on their devices and in their dtypes.
    ///
    /// # Errors
    /// When a hyper-parameter is out of range, or libtorch cannot allocate.
    pub fn new(config: AdamWConfig, params: &BTreeMap<String, Tensor>) -> Result<Self> {
        config.check()?;
        let mut moments = BTreeMap::new();
        for (name, param) in params {
            let zeros = || Ok::<_, Error>(param.f_detach()?.f_zeros_like()?);
            moments.insert(name.clone(), Moments { exp_avg: zeros()?, exp_avg_sq: zeros()? });
        }
        Ok(Self { config, step: 0, moments })
    }

    /// The hyper-parameters in force.
    pub fn config(&self) -> &AdamWConfig {
        &self.config
    }

    /// Number of steps taken.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Sets the learning rate of the steps to come.
    ///
    /// # Errors
    /// When it is negative or not finite.
    pub fn set_lr(&mut self, lr: f64) -> Result<()> {
        let config = AdamWConfig { lr, ..self.config.clone() };
        config.check()?;
        self.config = config;
        Ok(())
    }

    /// Takes one step along the parameters' gradients, in place.
    ///
    /// A parameter without a gradient is left as it is. There is one step counter: a parameter that
    /// joins late gets the bias correction of the others, where PyTorch counts for each.
    ///
    /// # Errors
    /// When the names are not those of [`AdamW::new`], or libtorch refuses.
    pub fn step(&mut self, params: &mut BTreeMap<String, Tensor>) -> Result<()> {
        self.check_names(params)?;
        let _guard = tch::no_grad_guard();
        self.step += 1;
        let coefficients = Coefficients::new(&self.config, self.step);
        for (param, moments) in params.values_mut().zip(self.moments.values_mut()) {
            let grad = param.f_grad()?;
            if grad.defined() {
                update(&coefficients, param, &grad, &mut moments.exp_avg, &mut moments.exp_avg_sq)?;
            }
        }
        Ok(())
    }

    /// Takes one step along gradients that lie in plain memory, one for each parameter, in its shape, row by row.
    ///
    /// On f32 tensors on the CPU it does what [`step`](Self::step) does, to the bit.
    ///
    /// # Errors
    /// When the names are not those of [`AdamW::new`], a gradient's length is not its parameter's, or libtorch refuses.
    pub fn step_along(
        &mut self,
        params: &mut BTreeMap<String, Tensor>,
        gradients: &BTreeMap<String, &[f32]>,
    ) -> Result<()> {
        self.check_names(params)?;
        let sizes = |name: &String, tensor: &Tensor| {
            let found = gradients.get(name).map(|gradient| gradient.len());
            (found != Some(tensor.numel())).then(|| {
                format!("{name} has {} elements, its gradient {}", tensor.numel(), found.unwrap_or(0))
            })
        };
        let faults: Vec<String> = params.iter().filter_map(|(name, tensor)| sizes(name, tensor)).collect();
        if !faults.is_empty() {
            return Err(Error::Mismatch { context: "gradients of an optimizer step".to_owned(), faults });
        }
        let _guard = tch::no_grad_guard();
        self.step += 1;
        let coefficients = Coefficients::new(&self.config, self.step);
        for ((name, param), moments) in params.iter_mut().zip(self.moments.values_mut()) {
            let gradient = gradients.get(name).copied().unwrap_or_default();
            update_along(&coefficients, param, gradient, &mut moments.exp_avg, &mut moments.exp_avg_sq)?;
        }
        Ok(())
    }

    /// The moments as `exp_avg.<name>` and `exp_avg_sq.<name>`, sharing their memory with the optimizer.
    pub fn state(&self) -> BTreeMap<String, Tensor> {
        let mut state = BTreeMap::new();
        for (name, moments) in &self.moments {
            state.insert(format!("exp_avg.{name}"), moments.exp_avg.shallow_clone());
            state.insert(format!("exp_avg_sq.{name}"), moments.exp_avg_sq.shallow_clone());
        }
        state
    }

    /// What a saved state needs beside the tensors: `step`, in decimal.
    pub fn state_metadata(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(STEP.to_owned(), self.step.to_string())])
    }

    /// Takes over a saved state: the next step is the one that would have followed.
    ///
    /// Hyper-parameters are not part of it; they come from the configuration.
    ///
    /// # Errors
    /// When names, shapes or dtypes differ (all are listed), or the step is missing. Nothing is changed then.
    pub fn load_state(
        &mut self,
        state: &BTreeMap<String, Tensor>,
        metadata: &BTreeMap<String, String>,
    ) -> Result<()> {
        let mut expected = BTreeMap::new();
        for (name, tensor) in self.state() {
            expected.insert(name, TensorSpec::of(&tensor)?);
        }
        check_tensors("load optimizer state", state, &expected)?;
        let step = metadata.get(STEP).map(|step| step.parse());
        let Some(Ok(step)) = step else {
            let found = metadata.get(STEP).map_or("absent", String::as_str);
            return Err(Error::Mismatch {
                context: "load optimizer state".to_owned(),
                faults: vec![format!("metadata key {STEP} is {found}, expected a number of steps")],
            });
        };
        let _guard = tch::no_grad_guard();
        for (name, mut tensor) in self.state() {
            if let Some(saved) = state.get(&name) {
                tensor.f_copy_(saved)?;
            }
        }
        self.step = step;
        Ok(())
    }

    fn check_names(&self, params: &BTreeMap<String, Tensor>) -> Result<()> {
        if params.keys().eq(self.moments.keys()) {
            return Ok(());
        }
        let lost = self.moments.keys().filter(|name| !params.contains_key(*name));
        let new = params.keys().filter(|name| !self.moments.contains_key(*name));
        let faults = lost
            .map(|name| format!("{name} is missing"))
            .chain(new.map(|name| format!("{name} is not expected")))
            .collect();
        Err(Error::Mismatch { context: "parameters of an optimizer step".to_owned(), faults })
    }
}
