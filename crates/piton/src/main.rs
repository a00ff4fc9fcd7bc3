//! The command line of Piton.
fn main() {}
