//! What a disk can hold after the power failed.

use std::num::NonZeroU64;

use piton_rng::{Rng, Seed};

use super::image::{Event, SECTOR, Write};

/// A moment of a log, and what the disk kept of the writes that no flush had covered by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cut {
    /// So many events had happened.
    pub at: usize,
    pub kept: Kept,
}

/// What is kept of the writes since the last flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kept {
    /// All of them.
    All,
    /// None.
    Nothing,
    /// Each one or not, by chance.
    Some,
    /// All, but of the last only its first sectors.
    TornTail,
}

/// `count` cuts in the order of the log: right after acknowledgements with nothing kept, the moments before and after
/// flushes, each of the two evenly and for a third of the count at most, and the rest by chance.
pub(super) fn choose(log: &[Event], count: usize, seed: Seed) -> Vec<Cut> {
    let (mut acknowledged, mut flushes) = (Vec::new(), Vec::new());
    for (at, event) in log.iter().enumerate() {
        match event {
            Event::Mark(_) => acknowledged.push(Cut { at: at + 1, kept: Kept::Nothing }),
            Event::Flush => flushes.extend([at, at + 1].map(|at| Cut { at, kept: Kept::All })),
            Event::Write(_) => {}
        }
    }
    let mut cuts: Vec<_> = evenly(&acknowledged, count / 3).collect();
    cuts.extend(evenly(&flushes, (count - cuts.len()) / 2));
    let mut rng = seed.stream("cut", [0, 0, 0]);
    while cuts.len() < count && !log.is_empty() {
        let kept = [Kept::All, Kept::Nothing, Kept::Some, Kept::TornTail][below(&mut rng, 4)];
        cuts.push(Cut { at: 1 + below(&mut rng, log.len()), kept });
    }
    cuts.sort_unstable();
    cuts
}

/// `most` of the items, or all of them if they are fewer.
fn evenly<T: Copy>(items: &[T], most: usize) -> impl Iterator<Item = T> {
    let wanted = items.len().min(most);
    (0..wanted).map(move |index| items[index * items.len() / wanted])
}

/// Where the last flush before `at` ends: everything before it is durable.
pub(super) fn durable(log: &[Event], at: usize) -> usize {
    log[..at].iter().rposition(|event| matches!(event, Event::Flush)).map_or(0, |flush| flush + 1)
}

/// The last step that was acknowledged before `at`, or 0.
pub(super) fn acknowledged(log: &[Event], at: usize) -> u64 {
    let told = log[..at].iter().filter_map(|event| match event {
        Event::Mark(text) => {
            text.lines().filter_map(|line| line.strip_prefix("ack ")?.parse().ok()).next_back()
        }
        _ => None,
    });
    told.max().unwrap_or(0)
}

/// The writes of some events.
pub(super) fn writes(events: &[Event]) -> impl Iterator<Item = &Write> {
    events.iter().filter_map(|event| match event {
        Event::Write(write) => Some(write),
        _ => None,
    })
}

/// What the disk kept of the events since the last flush; `index` numbers the cut.
pub(super) fn keep(pending: &[Event], kept: Kept, seed: Seed, index: u64) -> Vec<(u64, &[u8])> {
    let mut rng = seed.stream("kept", [index, 0, 0]);
    let mut all: Vec<_> = writes(pending).map(|write| (write.offset, &*write.data)).collect();
    match kept {
        Kept::All => {}
        Kept::Nothing => all.clear(),
        Kept::Some => all.retain(|_| below(&mut rng, 2) == 0),
        Kept::TornTail => {
            if let Some((_, data)) = all.last_mut() {
                *data = &data[..below(&mut rng, data.len().div_ceil(SECTOR)) * SECTOR];
            }
        }
    }
    all
}

fn below(rng: &mut Rng, n: usize) -> usize {
    let n = NonZeroU64::new(n as u64).unwrap_or(NonZeroU64::MIN);
    usize::try_from(rng.below(n)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(offset: u64, len: usize) -> Event {
        Event::Write(Write { offset, data: vec![1; len].into() })
    }

    #[test]
    fn every_acknowledgement_is_followed_by_a_cut_that_keeps_nothing() {
        let mark = || Event::Mark("ack 1\n".to_owned());
        let log = [write(0, 512), mark(), Event::Flush, write(0, 512), mark()];
        let cuts = choose(&log, 8, Seed(1));
        assert_eq!(cuts.len(), 8);
        for at in [2, 5] {
            assert!(cuts.contains(&Cut { at, kept: Kept::Nothing }));
        }
    }

    #[test]
    fn only_what_was_written_after_the_last_flush_can_be_lost() {
        let log =
            [write(0, 512), Event::Flush, write(512, 1024), Event::Mark("ack 3\n".to_owned()), write(0, 512)];
        assert_eq!(durable(&log, 1), 0);
        assert_eq!(durable(&log, 5), 2);
        assert_eq!((acknowledged(&log, 3), acknowledged(&log, 4)), (0, 3));
        for index in 0..20 {
            let torn = keep(&log[2..3], Kept::TornTail, Seed(1), index);
            assert!(matches!(torn[0].1.len(), 0 | 512));
        }
    }
}
