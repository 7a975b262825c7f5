//! Both programs, `trellis` and `trellis-operator`, as one binary that Cargo builds before the
//! tests of this crate run.

use std::process::ExitCode;

fn main() -> ExitCode {
    trellis_e2e::programs::run()
}
