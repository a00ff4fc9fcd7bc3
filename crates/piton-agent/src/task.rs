//! One task at run time: its prompts, its position in them, its loop.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use piton_data::{Dataset, Order, Prompts, Row, Sampler, SamplerState, Tokenizer};
use piton_rng::Seed;

use crate::agent_loop::{AgentLoop, SingleTurnAgentLoop};
use crate::config::{AgentLoopConfig, DatasetEntry, TaskSpecConfig};
use crate::error::Error;
use crate::judge;
use crate::sample::Prompt;

/// Tokenizers by directory, so that tasks which share one load it once.
#[derive(Debug, Default)]
pub struct Tokenizers {
    loaded: BTreeMap<PathBuf, Arc<Tokenizer>>,
}

impl Tokenizers {
    /// The tokenizer of a Hugging Face directory.
    ///
    /// # Errors
    /// When the directory cannot be used.
    pub fn get(&mut self, dir: &Path) -> Result<Arc<Tokenizer>, Error> {
        if let Some(tokenizer) = self.loaded.get(dir) {
            return Ok(Arc::clone(tokenizer));
        }
        let tokenizer = Tokenizer::from_dir(dir)
            .map_err(|source| Error::Tokenizer { path: dir.to_owned(), source: Box::new(source) })?;
        let tokenizer = Arc::new(tokenizer);
        self.loaded.insert(dir.to_owned(), Arc::clone(&tokenizer));
        Ok(tokenizer)
    }
}

/// A task ready to produce.
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) weight: f64,
    pub(crate) prompt_repeat_k: usize,
    pub(crate) agent_loop: Arc<dyn AgentLoop>,
    max_tokens: usize,
    /// `[rows]` token ids and row of every prompt.
    prompts: Vec<(Arc<[u32]>, Arc<Row>)>,
    sampler: Sampler,
}

impl Task {
    pub(crate) fn build(
        config: &TaskSpecConfig,
        default_tokenizer: &Path,
        seed: u64,
        tokenizers: &mut Tokenizers,
    ) -> Result<Self, Error> {
        let AgentLoopConfig::SingleTurn(single) = &config.agent_loop_config;
        let tokenizer = tokenizers.get(single.hf_checkpoint.as_deref().unwrap_or(default_tokenizer))?;
        let mut prompts = Vec::new();
        let mut digests = String::new();
        let mut order = Order::File;
        for entry in &config.sampler_config.dataloader_cfg.dataset_config_list {
            let read = read(entry, &tokenizer).map_err(|source| data_error(&config.task_name, source))?;
            check_filter(&config.task_name, entry, &read)?;
            if !entry.dataset.enable_sequential_sampler {
                order = Order::Shuffled;
            }
            digests.push_str(read.digest());
            prompts.extend(
                read.as_slice()
                    .iter()
                    .map(|prompt| (Arc::from(&*prompt.token_ids), Arc::new(prompt.row.clone()))),
            );
        }
        let Some(rows) = NonZeroUsize::new(prompts.len()) else {
            return Err(Error::Config(vec![format!("task {:?} has no dataset", config.task_name)]));
        };
        let sampler =
            Sampler::new(&config.task_name, rows, Seed(seed)).with_order(order).with_digest(digests);
        let judger = config.judger_config.as_ref().map(judge::build);
        Ok(Self {
            name: config.task_name.clone(),
            weight: config.weight,
            prompt_repeat_k: config.sampler_config.prompt_repeat_k,
            agent_loop: Arc::new(SingleTurnAgentLoop::new(single.sample_params.clone(), judger)),
            max_tokens: single.sample_params.max_tokens,
            prompts,
            sampler,
        })
    }

    /// Tokens of the longest prompt, and the largest number of tokens a response may have.
    pub(crate) fn lengths(&self) -> (usize, usize) {
        let longest = self.prompts.iter().map(|(ids, _)| ids.len()).max().unwrap_or(0);
        (longest, self.max_tokens)
    }

    /// Number of usable prompts.
    pub(crate) fn len(&self) -> usize {
        self.prompts.len()
    }

    /// The next prompt in the task's endless stream.
    pub(crate) fn draw(&mut self) -> Prompt {
        let draw = self.sampler.draw();
        self.prompt(draw.group_id, draw.row_index)
    }

    /// The prompt of one row, for evaluation: its id is the row's index.
    pub(crate) fn prompt(&self, group_id: u64, row_index: usize) -> Prompt {
        let (prompt_ids, row) = &self.prompts[row_index];
        Prompt { task: self.name.clone(), group_id, prompt_ids: Arc::clone(prompt_ids), row: Arc::clone(row) }
    }

    pub(crate) fn sampler_state(&self) -> SamplerState {
        self.sampler.state()
    }

    pub(crate) fn restore(&mut self, state: &SamplerState) -> Result<(), Error> {
        self.sampler
            .restore(state)
            .map_err(|source| Error::State { task: self.name.clone(), message: source.to_string() })
    }
}

/// Over-long prompts are left out, unless the configuration says that there must be none.
fn check_filter(task: &str, entry: &DatasetEntry, prompts: &Prompts) -> Result<(), Error> {
    let counts = prompts.counts();
    if !entry.dataset.disable_filter || counts.skipped == 0 {
        return Ok(());
    }
    let message = format!(
        "{} of {} prompts in {} are longer than tokenize_fn.max_length, and disable_filter is true: raise max_length, or \
         leave disable_filter out to skip them",
        counts.skipped,
        counts.read,
        entry.dataset.anno_path.display()
    );
    Err(Error::TooLong { task: task.to_owned(), message })
}

fn read(entry: &DatasetEntry, tokenizer: &Tokenizer) -> Result<Prompts, piton_data::Error> {
    let dataset = Dataset::read_jsonl(&entry.dataset.anno_path)?;
    Prompts::tokenize(&dataset, tokenizer, entry.tokenize_fn.max_length)
}

fn data_error(task: &str, source: piton_data::Error) -> Error {
    Error::Data { task: task.to_owned(), source: Box::new(source) }
}
