//! The decision what a resumed run keeps of the past, as data: no disk here.

use crate::tracker::step_of;

/// How much of what a run wrote before still counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Everything that is whole.
    All,
    /// What belongs to this step and those before it: a resume from the checkpoint of that step.
    UpTo(u64),
    /// Nothing: an experiment that never had a checkpoint starts over in its folder.
    Nothing,
}

impl Keep {
    /// True when what belongs to `step` still counts.
    pub fn keeps(self, step: u64) -> bool {
        match self {
            Self::All => true,
            Self::UpTo(last) => step <= last,
            Self::Nothing => false,
        }
    }
}

/// A tracker's bytes, sorted into what stays and what goes. Both parts are whole lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) kept: Vec<u8>,
    pub(crate) kept_steps: Vec<u64>,
    pub(crate) removed: Vec<u8>,
    pub(crate) removed_steps: Vec<u64>,
    pub(crate) damaged_lines: usize,
}

/// Keeps each line of a wanted step, once and in order; everything else is removed.
///
/// A last line without its line feed counts if it is a whole JSON object: no proper prefix of one is.
pub(crate) fn cut(old: &[u8], keep: Keep) -> Cut {
    let mut cut = Cut::default();
    for line in old.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let step = step_of(line);
        let is_next = |step: &u64| cut.kept_steps.last().is_none_or(|last| step > last);
        let part = match step.filter(|step| keep.keeps(*step) && is_next(step)) {
            Some(step) => {
                cut.kept_steps.push(step);
                &mut cut.kept
            }
            None => {
                cut.removed_steps.extend(step);
                cut.damaged_lines += usize::from(step.is_none());
                &mut cut.removed
            }
        };
        part.extend_from_slice(line);
        part.push(b'\n');
    }
    cut
}
