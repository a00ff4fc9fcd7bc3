//! Prefixes and continuations as packed rows, cut into chunks that never need each other.
//!
//! ```text
//! chunk    group 0: p p p p | a a | b | ..    group 1: p p | c c c | ..
//! rows     prefix rows, then of each continuation all tokens but the last, which is predicted and never read
//! needed   ^ of the last layer: the last row of each prefix and all rows of continuations
//! ```

use std::ops::Range;

use super::Continuation;
use crate::{Error, ModelConfig, Result};

/// Rows of a chunk when there are plenty. A group is never cut, so that attention stays within a chunk.
const CHUNK_ROWS: usize = 64;

/// Groups whose rows are computed together by one thread.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    /// Token of each row.
    pub(super) tokens: Vec<u32>,
    /// Position of each row in its sequence.
    pub(super) positions: Vec<usize>,
    pub(super) groups: Vec<Group>,
    /// Rows whose output is read, ascending.
    pub(super) needed: Vec<usize>,
    /// What the needed rows predict, by ascending row.
    pub(super) targets: Vec<Target>,
}

/// A prefix and its continuations, as rows of a chunk.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) prefix: Range<usize>,
    /// The rows of each continuation that has any.
    pub(super) continuations: Vec<Range<usize>>,
}

/// A token whose log-probability is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    /// Index among the chunk's needed rows.
    pub(super) row: usize,
    pub(super) token: u32,
    /// Index among all targets of the call.
    pub(super) index: usize,
}

/// Cuts the batch into chunks; also gives the number of targets.
pub(super) fn layout(
    config: &ModelConfig,
    prefixes: &[&[u32]],
    continuations: &[Continuation<'_>],
) -> Result<(Vec<Chunk>, usize)> {
    check(config, prefixes, continuations)?;
    let mut first_target = Vec::with_capacity(continuations.len());
    let mut targets = 0;
    let mut members = vec![Vec::new(); prefixes.len()];
    for (index, continuation) in continuations.iter().enumerate() {
        first_target.push(targets);
        targets += continuation.wanted();
        if continuation.wanted() > 0 {
            members[continuation.prefix].push(index);
        }
    }
    let mut chunks = vec![Chunk::default()];
    for (prefix, members) in prefixes.iter().zip(members).filter(|(_, members)| !members.is_empty()) {
        if chunks.last().is_some_and(|chunk| chunk.tokens.len() >= CHUNK_ROWS) {
            chunks.push(Chunk::default());
        }
        let Some(chunk) = chunks.last_mut() else { continue };
        let members = members.into_iter().map(|index| (&continuations[index], first_target[index]));
        chunk.push(prefix, members);
    }
    Ok((chunks, targets))
}

impl Chunk {
    fn push<'a>(&mut self, prefix: &[u32], members: impl Iterator<Item = (&'a Continuation<'a>, usize)>) {
        let prefix_rows = self.rows(prefix, 0);
        let last = self.needed.len();
        self.needed.push(prefix_rows.end - 1);
        let mut firsts = Vec::new();
        let mut later = Vec::new();
        let mut continuations = Vec::new();
        for (continuation, mut index) in members {
            // rows after the last wanted token serve nobody
            let count = continuation.wanted.iter().rposition(|wanted| *wanted).unwrap_or(0);
            let rows = self.rows(&continuation.tokens[..count], prefix.len());
            let start = self.needed.len();
            self.needed.extend(rows.clone());
            for (at, (&token, _)) in continuation
                .tokens
                .iter()
                .zip(continuation.wanted)
                .enumerate()
                .filter(|(_, (_, wanted))| **wanted)
            {
                match at.checked_sub(1) {
                    None => firsts.push(Target { row: last, token, index }),
                    Some(before) => later.push(Target { row: start + before, token, index }),
                }
                index += 1;
            }
            if !rows.is_empty() {
                continuations.push(rows);
            }
        }
        self.targets.extend(firsts);
        self.targets.extend(later);
        self.groups.push(Group { prefix: prefix_rows, continuations });
    }

    fn rows(&mut self, tokens: &[u32], position: usize) -> Range<usize> {
        let start = self.tokens.len();
        self.tokens.extend(tokens);
        self.positions.extend(position..position + tokens.len());
        start..self.tokens.len()
    }
}

fn check(config: &ModelConfig, prefixes: &[&[u32]], continuations: &[Continuation<'_>]) -> Result<()> {
    let fault = |text: String| Err(Error::Input(text));
    if let Some(index) = prefixes.iter().position(|prefix| prefix.is_empty()) {
        return fault(format!("prefix {index} is empty: the first token needs something to follow"));
    }
    for (index, Continuation { prefix, tokens, wanted }) in continuations.iter().enumerate() {
        let Some(prefix_tokens) = prefixes.get(*prefix) else {
            return fault(format!(
                "continuation {index} names prefix {prefix}, but there are {}",
                prefixes.len()
            ));
        };
        if wanted.len() != tokens.len() {
            return fault(format!(
                "continuation {index} has {} tokens and says of {} whether they are wanted",
                tokens.len(),
                wanted.len()
            ));
        }
        let length = prefix_tokens.len() + tokens.len();
        if length > config.max_position_embeddings {
            return fault(format!(
                "a sequence has {length} tokens with its prefix, the model's max_position_embeddings is {}",
                config.max_position_embeddings
            ));
        }
    }
    let all = prefixes.iter().copied().chain(continuations.iter().map(|continuation| continuation.tokens));
    match all.flatten().max() {
        Some(&id) if id as usize >= config.vocab_size => {
            fault(format!("token id {id} has no row: the model's vocab_size is {}", config.vocab_size))
        }
        _ => Ok(()),
    }
}
