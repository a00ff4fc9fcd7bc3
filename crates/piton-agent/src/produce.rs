//! Running many loops at once until a wanted number of groups has finished.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::agent_loop::{AgentLoop, LoopContext, LoopOutcome};
use crate::error::{Error, LoopError, error_chain};
use crate::sample::{Group, Prompt};

/// How often a stop is looked for while loops run.
const STOP_POLL: Duration = Duration::from_millis(5);
/// How long a paused engine may take to hand back what it was generating.
const DRAIN: Duration = Duration::from_secs(30);
/// Groups that may fail one after the other before production gives up, at least.
const FAILURES_IN_A_ROW: usize = 16;

/// Says whether the run is to stop; asked every few milliseconds.
pub type StopFlag<'a> = &'a dyn Fn() -> bool;

/// What one task's production yields.
#[derive(Debug, Default)]
pub(crate) struct Production {
    /// Finished groups, in the order of their ids.
    pub(crate) groups: Vec<Group>,
    /// Wall seconds each took, same order.
    pub(crate) group_s: Vec<f64>,
    /// Groups that failed and were replaced.
    pub(crate) failed_groups: usize,
    /// What the last failure was.
    pub(crate) last_failure: Option<String>,
}

/// Whether all of it was produced.
#[derive(Debug)]
pub(crate) enum Ended {
    Complete(Production),
    Stopped,
}

/// Runs loops until `wanted` groups have finished, drawing a replacement for each that fails.
///
/// `draw` gives the next prompt, or `None` when there are no more (evaluation): then fewer are returned.
pub(crate) async fn produce(
    task: &str,
    agent_loop: &dyn AgentLoop,
    context: &LoopContext,
    wanted: usize,
    group_timeout: Duration,
    draw: &mut dyn FnMut() -> Option<Prompt>,
    stop: StopFlag<'_>,
) -> Result<Ended, Error> {
    let mut running = FuturesUnordered::new();
    let mut finished: Vec<(Group, f64)> = Vec::with_capacity(wanted);
    let mut production = Production::default();
    let mut failed_in_a_row = 0;
    let mut ticks = tokio::time::interval(STOP_POLL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        while finished.len() + running.len() < wanted {
            let Some(prompt) = draw() else { break };
            running.push(timed(agent_loop, context, prompt, group_timeout));
        }
        if running.is_empty() {
            break;
        }
        tokio::select! {
            biased;
            Some((outcome, seconds)) = running.next() => match outcome {
                Ok(LoopOutcome::Finished(group)) => {
                    failed_in_a_row = 0;
                    finished.push((group, seconds));
                }
                // Only a pause aborts, and only a stop pauses during production.
                Ok(LoopOutcome::Aborted) => {}
                Err(error) => {
                    failed_in_a_row += 1;
                    production.failed_groups += 1;
                    let last = error_chain(&error);
                    if failed_in_a_row >= FAILURES_IN_A_ROW.max(wanted) {
                        return Err(Error::TooManyFailures { task: task.to_owned(), failed: failed_in_a_row, last });
                    }
                    production.last_failure = Some(last);
                }
            },
            _ = ticks.tick() => {}
        }
        if stop() {
            context
                .rollout
                .pause_generation()
                .map_err(|source| Error::Controller { call: "pause_generation", source })?;
            // Loops that do not answer in time are dropped: the run ends here in any case.
            let _drained =
                tokio::time::timeout(DRAIN, async { while running.next().await.is_some() {} }).await;
            return Ok(Ended::Stopped);
        }
    }
    finished.sort_by_key(|(group, _)| group.prompt.group_id);
    (production.groups, production.group_s) = finished.into_iter().unzip();
    Ok(Ended::Complete(production))
}

async fn timed(
    agent_loop: &dyn AgentLoop,
    context: &LoopContext,
    prompt: Prompt,
    limit: Duration,
) -> (Result<LoopOutcome, LoopError>, f64) {
    let started = Instant::now();
    let group_id = prompt.group_id;
    let outcome = match tokio::time::timeout(limit, agent_loop.run(prompt, context)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(LoopError::GroupTimeout { group_id, seconds: limit.as_secs_f64() }),
    };
    (outcome, started.elapsed().as_secs_f64())
}

/// The runtime the loops run on: one thread, the caller's.
pub(crate) fn runtime() -> Result<Arc<tokio::runtime::Runtime>, Error> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(Error::Runtime)?;
    Ok(Arc::new(runtime))
}
