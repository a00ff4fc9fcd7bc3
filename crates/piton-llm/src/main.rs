//! The binary that links libtorch.
fn main() {}
