//! The one binary, `trellis`.
fn main() {}
