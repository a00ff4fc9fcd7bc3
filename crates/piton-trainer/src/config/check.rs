//! The checks that need more than one key; done once, before anything is read or written.

use super::{ColocateTrainerConfig, Interval};

impl ColocateTrainerConfig {
    /// Checks the whole configuration and reports every fault at once.
    ///
    /// # Errors
    /// One line a fault: the key, what was found, what to write instead.
    pub fn check(&self) -> Result<(), Vec<String>> {
        let mut faults = Vec::new();
        if self.train_batch_size == 0 {
            faults.push("train_batch_size is 0: write the number of groups a step trains on".to_owned());
        }
        match (self.total_train_steps, self.total_epochs) {
            (None, None) => {
                faults.push(
                    "neither total_train_steps nor total_epochs is given: write one of them".to_owned(),
                );
            }
            (Some(0), _) => faults.push("total_train_steps is 0: write a positive number".to_owned()),
            (None, Some(0)) => faults.push("total_epochs is 0: write a positive number".to_owned()),
            _ => {}
        }
        if self.sync_weights_interval == 0 {
            faults.push("sync_weights_interval is 0: write 1 to publish weights after every step".to_owned());
        }
        if self.evaluate_step == 0 {
            faults.push("evaluate_step is 0: write a positive number, or enable_evaluate = false".to_owned());
        }
        if self.threads == Some(0) {
            faults.push(
                "threads is 0: write a positive number, or leave the key out to use every core".to_owned(),
            );
        }
        self.check_multiples(&mut faults);
        if self.enable_evaluate && self.eval_agent_loop_manager_cfg.is_none() {
            faults.push(
                "enable_evaluate is on and eval_agent_loop_manager_cfg is missing: write it, or enable_evaluate = false"
                    .to_owned(),
            );
        }
        let ratio = self.evaluator_config.eval_sample_ratio;
        if !(0.0..=1.0).contains(&ratio) {
            faults.push(format!("evaluator_config.eval_sample_ratio is {ratio}: write a number from 0 to 1"));
        }
        let timeout = self.rollout_config.rollout_timeout;
        if !(timeout > 0.0 && std::time::Duration::try_from_secs_f64(timeout).is_ok()) {
            faults.push(format!("rollout_config.rollout_timeout is {timeout:?}: write a number of seconds above 0, such as 1200"));
        }
        if self.rollout_config.rollout_max_batch_size_per_instance == 0 {
            faults.push(
                "rollout_config.rollout_max_batch_size_per_instance is 0: write a positive number".to_owned(),
            );
        }
        let mut nested = |key: &str, result: Result<(), Vec<String>>| {
            if let Err(found) = result {
                faults.extend(found.into_iter().map(|fault| format!("{key}.{fault}")));
            }
        };
        nested("train_worker_cfg", self.train_worker_cfg.check());
        nested("agent_loop_manager_cfg", self.agent_loop_manager_cfg.check());
        if let Some(eval) = &self.eval_agent_loop_manager_cfg {
            nested("eval_agent_loop_manager_cfg", eval.check());
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    fn check_multiples(&self, faults: &mut Vec<String>) {
        let sync = self.sync_weights_interval;
        if sync <= 1 {
            return;
        }
        let mut multiple = |key: &str, steps: Option<u64>| {
            let Some(steps) = steps.filter(|steps| *steps > 0 && !steps.is_multiple_of(sync)) else { return };
            let (below, above) = (steps / sync * sync, (steps / sync + 1) * sync);
            let write = if below == 0 { above.to_string() } else { format!("{below} or {above}") };
            faults.push(format!(
                "{key} is {steps}, not a multiple of sync_weights_interval ({sync}): write {write}"
            ));
        };
        multiple("checkpoint_interval", Interval::steps(self.checkpoint_interval));
        multiple("hf_interval", Interval::steps(self.hf_interval));
        if self.enable_evaluate {
            multiple("evaluate_step", Some(self.evaluate_step));
        }
    }
}
