//! How a batch is shared out among tasks.

/// Splits `batch` groups among tasks by weight, with the largest-remainder method; ties go to the earlier task.
///
/// `step` rotates the tie-break and the remainder is carried over the steps, so that a small weight is not starved by a small
/// batch: over steps `1..=n` a task gets its share of `batch * n`, to within one group.
///
/// ```
/// use piton_agent::allocate;
/// assert_eq!(allocate(7, &[2.0, 1.0, 0.0], 1), [5, 2, 0]);
/// // One group a step, equal weights: the tasks take turns.
/// assert_eq!(allocate(1, &[1.0, 1.0], 1), [1, 0]);
/// assert_eq!(allocate(1, &[1.0, 1.0], 2), [0, 1]);
/// ```
pub fn allocate(batch: usize, weights: &[f64], step: u64) -> Vec<usize> {
    let upto = cumulative(batch as u64 * step, weights);
    let before = cumulative(batch as u64 * step.saturating_sub(1), weights);
    let mut sizes: Vec<usize> = upto
        .iter()
        .zip(&before)
        .map(|(now, then)| usize::try_from(now.saturating_sub(*then)).unwrap_or(0))
        .collect();
    settle(batch, weights, &mut sizes);
    sizes
}

/// Largest-remainder split of `total` units.
fn cumulative(total: u64, weights: &[f64]) -> Vec<u64> {
    let sum: f64 = weights.iter().sum();
    if sum <= 0.0 {
        return vec![0; weights.len()];
    }
    #[expect(clippy::cast_precision_loss, reason = "totals stay far below 2^53")]
    let raw: Vec<f64> = weights.iter().map(|weight| total as f64 * weight / sum).collect();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "floors of non-negative numbers"
    )]
    let mut sizes: Vec<u64> = raw.iter().map(|share| share.floor() as u64).collect();
    let mut order: Vec<usize> = (0..weights.len()).filter(|&task| weights[task] > 0.0).collect();
    order.sort_by(|&a, &b| raw[b].fract().total_cmp(&raw[a].fract()).then(a.cmp(&b)));
    let missing = total - sizes.iter().sum::<u64>().min(total);
    for &task in order.iter().cycle().take(usize::try_from(missing).unwrap_or(0)) {
        sizes[task] += 1;
    }
    sizes
}

/// Largest-remainder totals may step back by one between two steps; this makes one step's sizes sum to `batch` again.
fn settle(batch: usize, weights: &[f64], sizes: &mut [usize]) {
    let mut sum: usize = sizes.iter().sum();
    while sum > batch {
        let Some(task) = (0..sizes.len()).max_by_key(|&task| sizes[task]) else { return };
        sizes[task] -= 1;
        sum -= 1;
    }
    while sum < batch {
        let Some(task) = (0..sizes.len()).find(|&task| weights[task] > 0.0) else { return };
        sizes[task] += 1;
        sum += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::allocate;

    #[test]
    fn every_step_is_full_and_no_task_starves() {
        for (batch, weights) in [(1, vec![3.0, 1.0]), (7, vec![2.0, 1.0, 0.0]), (5, vec![0.1, 0.2, 0.7])] {
            let total: f64 = weights.iter().sum();
            let mut sums = vec![0_usize; weights.len()];
            for step in 1..=60 {
                let sizes = allocate(batch, &weights, step);
                assert_eq!(sizes.iter().sum::<usize>(), batch);
                sums.iter_mut().zip(&sizes).for_each(|(sum, size)| *sum += size);
            }
            for (sum, weight) in sums.iter().zip(&weights) {
                let share = batch as f64 * 60.0 * weight / total;
                assert!((*sum as f64 - share).abs() <= 2.0, "{sum} of {share}");
            }
        }
    }
}
