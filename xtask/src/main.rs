//! Set-up, training, tests and CI of the workspace.
fn main() {}
