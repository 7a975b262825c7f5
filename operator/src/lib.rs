//! The operator: its options, its startup and the roles that it needs.
//!
//! Imports between the crates of the operator point one way: `trellis-gang` (pure) <-
//! `trellis-cache` (stores of what the watches deliver) <- `trellis-dispatch` (the engine's task
//! and all writes) <- `trellis-controller` (reconciles one TrainingJob at a time) <-
//! `trellis-server` (webhook, visibility API, metrics) <- this crate. The command line is the crate
//! `trellis`. It imports `trellis-cache` and the crates to the left of it.

mod operator;
mod options;
pub mod rbac;
mod replica;
mod snapshots;
mod unhealthy_options;

use std::io::Write as _;
use std::process::ExitCode;

use trellis_server::telemetry::{self, LogFormat};

pub use options::OperatorOptions;
pub use replica::Replica;

/// Runs the operator until a signal arrives or the lease is lost.
/// The log reports a final error in the same format as all other lines.
#[must_use]
pub fn run(options: OperatorOptions) -> ExitCode {
    let format = options.log;
    let _traces = telemetry::start_logging(format);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let result = runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(operator::run(options)));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            match format {
                LogFormat::Json => tracing::error!("{error:#}"),
                LogFormat::Human => {
                    let _ = writeln!(std::io::stderr(), "error: {error:#}");
                }
            }
            ExitCode::FAILURE
        }
    }
}
