//! Whether every prompt and its longest response fit the engines: known before the first step, not when one is drawn.

use piton_agent::ColocateManager;

use crate::config::ColocateTrainerConfig;

/// Checks the longest prompt of every task against `context_length` and, where it is trained on, `pack_max_length`.
pub(crate) fn check(
    config: &ColocateTrainerConfig,
    train: &ColocateManager,
    eval: Option<&ColocateManager>,
) -> Result<(), Vec<String>> {
    let mut faults = Vec::new();
    let context = config.rollout_config.context_length;
    for (task, prompt, _) in train.lengths().chain(eval.into_iter().flat_map(ColocateManager::lengths)) {
        if let Some(context) = context.filter(|context| prompt >= *context) {
            faults.push(format!(
                "rollout_config.context_length is {context}, and the longest prompt of task {task:?} has {prompt} tokens: write \
                 at least {}, or leave long prompts out with tokenize_fn.max_length",
                prompt + 1
            ));
        }
    }
    let pack = config.train_worker_cfg.pack_max_length;
    for (task, prompt, response) in train.lengths() {
        // The engine ends a response where the context ends.
        let sample = prompt.saturating_add(response).min(context.unwrap_or(usize::MAX));
        if sample > pack {
            faults.push(format!(
                "train_worker_cfg.pack_max_length is {pack}, and a sample of task {task:?} may have {sample} tokens (a prompt of \
                 {prompt}, a response of {response}): write at least {sample}, or lower sample_params.max_tokens or \
                 tokenize_fn.max_length"
            ));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}
