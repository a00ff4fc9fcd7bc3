//! Keys of the reference that have no meaning here: taken at the value that changes nothing, refused at any other.

use anyhow::{Result, bail};
use toml::{Table, Value};

/// What a meaningless key may be.
enum Neutral {
    /// Exactly one of these, written as TOML.
    OneOf(&'static [&'static str]),
    /// Anything: it only sized something that does not exist here.
    Anything,
}

use Neutral::{Anything, OneOf};

/// Where the keys stand (`*` is any element of a list), their names, and what they may be.
const NEUTRAL: &[(&str, &str, Neutral)] = &[
    ("", "debug_rollout", OneOf(&["false"])),
    ("", "debug_train", OneOf(&["false"])),
    ("", "skip_checkpoint_validation", OneOf(&["false"])),
    ("resources", "num_workers", OneOf(&["1"])),
    ("resources", "accelerator", OneOf(&["\"CPU\"", "\"GPU\""])),
    ("resources", "num_cpus_per_worker", Anything),
    ("resources", "cpu_memory_per_worker", Anything),
    ("resources", "num_accelerators_per_worker", OneOf(&["1"])),
    ("train_worker_cfg", "sp_size", OneOf(&["1"])),
    ("train_worker_cfg", "profile_memory", OneOf(&["false"])),
    ("train_worker_cfg", "profile_time", Anything),
    ("train_worker_cfg", "update_weight_bucket_size_in_gb", Anything),
    ("train_worker_cfg.fsdp_cfg", "torch_compile", OneOf(&["false"])),
    ("train_worker_cfg.fsdp_cfg", "cpu_offload", OneOf(&["false"])),
    ("train_worker_cfg.fsdp_cfg", "tp_size", OneOf(&["1"])),
    ("train_worker_cfg.fsdp_cfg", "ep_size", OneOf(&["1"])),
    ("train_worker_cfg.optim_cfg", "foreach", Anything),
    ("train_worker_cfg.optim_cfg", "swap_optimizer", OneOf(&["false"])),
    ("train_worker_cfg.loss_cfg", "mode", OneOf(&["\"eager\"", "\"chunk\""])),
    ("train_worker_cfg.loss_cfg", "ignore_idx", OneOf(&["-100"])),
    ("train_worker_cfg.loss_cfg", "chunk_size", Anything),
    ("rollout_config", "tensor_parallel_size", OneOf(&["1"])),
    ("rollout_config", "data_parallel_size", OneOf(&["1"])),
    ("rollout_config", "expert_parallel_size", OneOf(&["1"])),
    ("rollout_config", "dtype", OneOf(&["\"float32\""])),
    ("rollout_config", "enable_float8", OneOf(&["false"])),
    ("rollout_config", "gpu_memory_utilization", Anything),
    ("rollout_config", "enable_chunked_prefill", OneOf(&["false"])),
    ("rollout_config", "enable_return_routed_experts", OneOf(&["false"])),
    ("agent_loop_manager_cfg.tasks.*.agent_loop_config", "enable_batch_judge", OneOf(&["false"])),
    (
        "agent_loop_manager_cfg.tasks.*.sampler_config.dataloader_cfg",
        "collator",
        OneOf(&["\"fake_collator\""]),
    ),
    ("agent_loop_manager_cfg.tasks.*.sampler_config.dataloader_cfg", "pack_level", OneOf(&["\"none\""])),
    ("agent_loop_manager_cfg.tasks.*.sampler_config.dataloader_cfg", "pack_to_max_length", OneOf(&["false"])),
    ("agent_loop_manager_cfg.tasks.*.sampler_config.dataloader_cfg", "pack_max_length", Anything),
    ("agent_loop_manager_cfg.tasks.*.sampler_config.dataloader_cfg", "num_workers", Anything),
    ("agent_loop_manager_cfg.tasks.*.sampler_config.dataloader_cfg", "round_up", Anything),
];

/// Takes the meaningless keys out; both managers have the same ones.
pub(super) fn remove(table: &mut Table) -> Result<()> {
    let mut root = Value::Table(std::mem::take(table));
    let result = NEUTRAL.iter().try_for_each(|(section, name, neutral)| {
        let eval = section
            .strip_prefix("agent_loop_manager_cfg")
            .map(|rest| format!("eval_agent_loop_manager_cfg{rest}"));
        take(&mut root, section, name, neutral, section)?;
        eval.map_or(Ok(()), |eval| take(&mut root, &eval, name, neutral, &eval))
    });
    if let Value::Table(filled) = root {
        *table = filled;
    }
    for section in ["resources"] {
        if table.get(section).and_then(Value::as_table).is_some_and(Table::is_empty) {
            table.remove(section);
        }
    }
    let worker = table.get_mut("train_worker_cfg").and_then(Value::as_table_mut);
    if let Some(worker) = worker
        && worker.get("fsdp_cfg").and_then(Value::as_table).is_some_and(Table::is_empty)
    {
        worker.remove("fsdp_cfg");
    }
    result
}

fn take(place: &mut Value, section: &str, name: &str, neutral: &Neutral, shown: &str) -> Result<()> {
    if section.is_empty() {
        let Some(value) = place.as_table_mut().and_then(|table| table.remove(name)) else { return Ok(()) };
        let key = if shown.is_empty() { name.to_owned() } else { format!("{shown}.{name}") };
        return match neutral {
            Anything => Ok(()),
            OneOf(allowed) if allowed.contains(&value.to_string().as_str()) => Ok(()),
            OneOf(allowed) => bail!(
                "{key}: {value} has no meaning in this trainer; write {} or leave the key out",
                allowed.join(" or ")
            ),
        };
    }
    let (first, rest) = section.split_once('.').unwrap_or((section, ""));
    match place {
        Value::Table(table) if first != "*" => match table.get_mut(first) {
            Some(inner) => take(inner, rest, name, neutral, shown),
            None => Ok(()),
        },
        Value::Array(list) if first == "*" => {
            list.iter_mut().try_for_each(|inner| take(inner, rest, name, neutral, shown))
        }
        // A single task, written without the list.
        Value::Table(_) => take(place, rest, name, neutral, shown),
        _ => Ok(()),
    }
}
