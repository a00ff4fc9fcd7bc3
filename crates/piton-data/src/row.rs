//! One row of a prompt file, as the trainer uses it.

use serde::{Deserialize, Serialize};

use crate::Object;

/// One prompt with what is needed to judge an answer to it.
///
/// Other keys of the row (`ability`, `id`, ...) are not kept; put what a judger needs under `extra_info`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Where the row comes from, for example `chain_sum`; judgers and metrics are keyed by it.
    pub data_source: String,
    /// The conversation so far, at least one message.
    pub prompt: Vec<Message>,
    /// How an answer is judged.
    pub reward_model: RewardModel,
    /// Whatever else belongs to the row, usually its `index`; empty when absent.
    #[serde(default)]
    pub extra_info: serde_json::Map<String, serde_json::Value>,
}

/// One chat message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool`, or what else the chat template knows.
    pub role: String,
    /// The text; `None` only in a message that calls tools instead of talking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Every other key, in the order of the file: `tool_calls`, `name`, `reasoning_content`, ...
    #[serde(flatten)]
    pub extra: Object,
}

/// How an answer is judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RewardModel {
    /// The kind of judging, usually `rule`.
    pub style: String,
    /// What the judger compares with: mostly a string, and any JSON but `null`.
    pub ground_truth: serde_json::Value,
}

impl Message {
    /// Makes a message of a role and a text.
    #[must_use]
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: Some(content.into()), extra: Object::default() }
    }
}
