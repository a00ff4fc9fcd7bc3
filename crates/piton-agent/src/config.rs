//! Configuration of tasks, with the names and nesting of the reference.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::rollout::SampleParams;

/// What the manager produces from: one task or several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentLoopManagerConfig {
    /// The tasks; a single one may be written without the list.
    #[serde(deserialize_with = "one_or_many")]
    pub tasks: Vec<TaskSpecConfig>,
}

/// One source of prompts with the loop that answers them and the judger that scores them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskSpecConfig {
    /// Name, unique in the run; it names the task's directory in a checkpoint and its random streams.
    pub task_name: String,
    /// Share of a batch, relative to the other tasks. Default 1.
    #[serde(default = "one")]
    pub weight: f64,
    /// The loop.
    pub agent_loop_config: AgentLoopConfig,
    /// The judger; without one the rollout controller must give rewards itself.
    #[serde(default)]
    pub judger_config: Option<JudgerConfig>,
    /// How groups are produced. Default: sync.
    #[serde(default)]
    pub produce_strategy_config: ProduceStrategyConfig,
    /// Where prompts come from.
    pub sampler_config: SamplerConfig,
}

/// Which agent loop turns a prompt into samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentLoopConfig {
    /// One prompt, one response.
    SingleTurn(SingleTurnAgentLoopConfig),
}

/// Settings of the single-turn loop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SingleTurnAgentLoopConfig {
    /// Hugging Face directory whose tokenizer and chat template are used. Default: the trainer's `tokenizer_path`.
    #[serde(default)]
    pub hf_checkpoint: Option<PathBuf>,
    /// How responses are sampled.
    #[serde(default)]
    pub sample_params: SampleParams,
}

/// How responses are judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum JudgerConfig {
    /// Compares the response with the row's `reward_model.ground_truth`.
    Rule(RuleJudgerConfig),
}

/// Settings of the rule judger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleJudgerConfig {
    /// Name, for messages.
    #[serde(default = "rule_name")]
    pub judger_name: String,
    /// Score of a right response. Default 1.
    #[serde(default = "one")]
    pub score: f64,
    /// Score of a wrong response. Default 0.
    #[serde(default)]
    pub wrong_score: f64,
    /// Seconds after which judging one response counts as failed. Default 30.
    #[serde(default = "thirty")]
    pub request_timeout: f64,
}

impl Default for RuleJudgerConfig {
    fn default() -> Self {
        Self { judger_name: rule_name(), score: 1.0, wrong_score: 0.0, request_timeout: 30.0 }
    }
}

/// How many groups are launched and when.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ProduceStrategyConfig {
    /// Launch what the batch still needs, wait for all of it, replace what failed.
    #[default]
    Sync,
}

/// Where a task's prompts come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplerConfig {
    /// The data.
    pub dataloader_cfg: DataloaderConfig,
    /// Samples generated for each prompt: the group size. Default 1.
    #[serde(default = "one_usize")]
    pub prompt_repeat_k: usize,
}

/// The data files of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataloaderConfig {
    /// The files, in this order.
    pub dataset_config_list: Vec<DatasetEntry>,
}

/// One data file with its tokenisation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetEntry {
    /// The file.
    pub dataset: DatasetConfig,
    /// How its prompts become tokens.
    #[serde(default)]
    pub tokenize_fn: TokenizeConfig,
}

/// One JSONL file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetConfig {
    /// Path of the JSONL file.
    pub anno_path: PathBuf,
    /// Name, for messages. Default "default".
    #[serde(default = "default_name")]
    pub name: String,
    /// Draw prompts in file order instead of a fresh permutation every epoch. Default false.
    #[serde(default)]
    pub enable_sequential_sampler: bool,
    /// Treat a prompt over `max_length` as an error instead of leaving it out. Default false.
    #[serde(default)]
    pub disable_filter: bool,
}

/// How prompts become tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenizeConfig {
    /// Longest prompt in tokens, chat template included. Default: no limit.
    #[serde(default)]
    pub max_length: Option<usize>,
}

impl AgentLoopManagerConfig {
    /// Checks what can be checked without reading data, and reports every fault at once.
    ///
    /// # Errors
    /// One line a fault, each with its key and what to write instead.
    pub fn check(&self) -> Result<(), Vec<String>> {
        let mut faults = Vec::new();
        if self.tasks.is_empty() {
            faults.push("tasks is empty: write at least one task".to_owned());
        }
        for (index, task) in self.tasks.iter().enumerate() {
            let at = |key: &str| format!("tasks[{index}].{key}");
            if task.task_name.is_empty()
                || !task.task_name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
                || task.task_name.starts_with('.')
            {
                faults.push(format!(
                    "{} is {:?}: write letters, digits, '-', '_' or '.', since it names a directory",
                    at("task_name"),
                    task.task_name
                ));
            }
            if self.tasks[..index].iter().any(|other| other.task_name == task.task_name) {
                faults.push(format!(
                    "{} is {:?} twice: give every task its own name",
                    at("task_name"),
                    task.task_name
                ));
            }
            if !(task.weight.is_finite() && task.weight >= 0.0) {
                faults.push(format!("{} is {}: write 0 or a positive number", at("weight"), task.weight));
            }
            if task.sampler_config.prompt_repeat_k == 0 {
                faults.push(format!(
                    "{} is 0: write the group size, at least 1",
                    at("sampler_config.prompt_repeat_k")
                ));
            }
            if task.sampler_config.dataloader_cfg.dataset_config_list.is_empty() {
                faults.push(format!(
                    "{} is empty: name at least one file",
                    at("sampler_config.dataloader_cfg.dataset_config_list")
                ));
            }
            if let Some(JudgerConfig::Rule(rule)) = &task.judger_config {
                let fault = |key: &str, value: f64, write: &str| {
                    format!("{} is {value}: write {write}", at(&format!("judger_config.{key}")))
                };
                if !is_timeout(rule.request_timeout) {
                    faults.push(fault(
                        "request_timeout",
                        rule.request_timeout,
                        "a number of seconds above 0, such as 30",
                    ));
                }
                for (key, score) in [("score", rule.score), ("wrong_score", rule.wrong_score)] {
                    if !score.is_finite() {
                        faults.push(fault(key, score, "a finite number"));
                    }
                }
            }
            let AgentLoopConfig::SingleTurn(single) = &task.agent_loop_config;
            if let Err(fault) = single.sample_params.check() {
                faults.push(at(&format!("agent_loop_config.{fault}")));
            }
        }
        if !self.tasks.is_empty() && self.tasks.iter().map(|task| task.weight).sum::<f64>() <= 0.0 {
            faults.push(
                "the weights of all tasks sum to 0: give at least one task a positive weight".to_owned(),
            );
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }
}

/// Whether `seconds` is a time that can be waited for.
fn is_timeout(seconds: f64) -> bool {
    seconds > 0.0 && std::time::Duration::try_from_secs_f64(seconds).is_ok()
}

fn one() -> f64 {
    1.0
}

fn one_usize() -> usize {
    1
}

fn thirty() -> f64 {
    30.0
}

fn rule_name() -> String {
    "rule".to_owned()
}

fn default_name() -> String {
    "default".to_owned()
}

fn one_or_many<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<TaskSpecConfig>, D::Error> {
    struct Tasks;
    impl<'de> serde::de::Visitor<'de> for Tasks {
        type Value = Vec<TaskSpecConfig>;
        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("a task or a list of tasks")
        }
        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut tasks = Vec::new();
            while let Some(task) = seq.next_element()? {
                tasks.push(task);
            }
            Ok(tasks)
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            TaskSpecConfig::deserialize(serde::de::value::MapAccessDeserializer::new(map))
                .map(|task| vec![task])
        }
    }
    deserializer.deserialize_any(Tasks)
}
