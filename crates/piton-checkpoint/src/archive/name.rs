//! The names of pairs, and of what a save leaves beside them for a moment.

use std::ffi::OsStr;

use crate::error::Error;

/// Which pair of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PairId {
    /// `<name>_ckpt_<9 digits>`; the number is the caller's, such as time steps. A larger one takes more digits.
    Number(u64),
    /// `<name>` itself: the model at the end of a run.
    Final,
}

/// The name shared by the pairs of one writer.
#[derive(Clone, Debug)]
pub(crate) struct Base(String);

/// A numbered pair by its spelling: another program may have written fewer digits. Orders by number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Numbered {
    pub(crate) number: u64,
    pub(crate) stem: String,
}

const INFIX: &str = "_ckpt_";
/// Leaves room in 255 bytes for the digits and the marks of temporary files.
const MAX_BYTES: usize = 180;

impl Base {
    pub(crate) fn new(name: &str) -> Result<Self, Error> {
        let refuse = |reason| Err(Error::ArchiveName { name: name.to_owned(), reason });
        if name.is_empty() || name.starts_with('.') {
            return refuse("it is empty or starts with a dot");
        }
        if name.len() > MAX_BYTES {
            return refuse("it is longer than 180 bytes");
        }
        if name.contains(|c: char| c == '/' || c.is_control()) {
            return refuse("it has a slash or a control character");
        }
        if name.rsplit_once(INFIX).is_some_and(|(_, end)| number(end).is_some()) {
            return refuse("it ends like a numbered archive");
        }
        Ok(Self(name.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn stem(&self, id: PairId) -> String {
        match id {
            PairId::Number(number) => format!("{}{INFIX}{number:09}", self.0),
            PairId::Final => self.0.clone(),
        }
    }

    /// The numbered pair that a file belongs to, when its name ends in `suffix` (`.zip`, `.json`).
    pub(crate) fn parse(&self, file: &OsStr, suffix: &str) -> Option<Numbered> {
        let stem = file.to_str()?.strip_suffix(suffix)?;
        let number = number(stem.strip_prefix(&self.0)?.strip_prefix(INFIX)?)?;
        Some(Numbered { number, stem: stem.to_owned() })
    }

    pub(crate) fn lock(&self) -> String {
        format!(".{}.lock", self.0)
    }

    pub(crate) fn temporary(&self, pid: u32, serial: u64) -> String {
        format!(".{}.tmp-{pid}-{serial}", self.0)
    }

    pub(crate) fn is_temporary(&self, file: &OsStr) -> bool {
        let parse = || {
            let rest = file.to_str()?.strip_prefix('.')?.strip_prefix(&self.0)?.strip_prefix(".tmp-")?;
            let (pid, serial) = rest.split_once('-')?;
            Some(number(pid).is_some() && number(serial).is_some())
        };
        parse() == Some(true)
    }

    /// The stem of the pair whose former JSON is kept in `file`.
    pub(crate) fn parse_former(&self, file: &OsStr) -> Option<String> {
        let stem = file.to_str()?.strip_prefix('.')?.strip_suffix(FORMER)?;
        let ours = stem == self.0 || self.parse(format!("{stem}.zip").as_ref(), ".zip").is_some();
        ours.then(|| stem.to_owned())
    }
}

const FORMER: &str = ".prev.json";

pub(crate) fn zip(stem: &str) -> String {
    format!("{stem}.zip")
}

pub(crate) fn json(stem: &str) -> String {
    format!("{stem}.json")
}

/// Where the JSON of a pair stays while the pair is replaced.
pub(crate) fn former(stem: &str) -> String {
    format!(".{stem}{FORMER}")
}

/// Digits only: `parse` alone would take a sign.
fn number(digits: &str) -> Option<u64> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}
