//! What is wrong with one line of a file.

use std::fmt;

/// How many faults an error keeps; the rest is counted.
pub const FAULTS_KEPT: usize = 10;

/// One fault of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Counted from 1.
    pub line: usize,
    /// Where in the line.
    pub place: Place,
    /// What is there.
    pub found: String,
    /// What should be there.
    pub expected: String,
    /// What to do about it.
    pub fix: String,
}

/// Where in a line a fault lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The whole line.
    Line,
    /// A byte of the line, counted from 1.
    Column(usize),
    /// A field, for example `prompt[0].role`.
    Field(String),
}

/// The faults of one file: the first [`FAULTS_KEPT`] and the number of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The first faults, in the order of the lines.
    pub first: Vec<Fault>,
    /// How many there are in all.
    pub total: usize,
}

impl Faults {
    pub(crate) fn push(&mut self, fault: Fault) {
        self.total += 1;
        if self.first.len() < FAULTS_KEPT {
            self.first.push(fault);
        }
    }
}

impl Fault {
    pub(crate) fn on_line(self, line: usize) -> Self {
        Self { line, ..self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        match &self.place {
            Place::Line => {}
            Place::Column(column) => write!(f, ", column {column}")?,
            Place::Field(field) => write!(f, ", {field}")?,
        }
        write!(f, ": found {}, expected {}; {}", self.found, self.expected, self.fix)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} fault{}", self.total, if self.total == 1 { "" } else { "s" })?;
        for fault in &self.first {
            write!(f, "\n  {fault}")?;
        }
        match self.total - self.first.len() {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}
