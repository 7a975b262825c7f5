//! The programs `trellis` and `trellis-operator` in one binary. Cargo builds it before it runs the
//! tests of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    trellis_e2e::programs::run()
}
