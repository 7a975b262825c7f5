//! Threads for work that takes long.

use tokio::task::JoinHandle;

use crate::SimulatedMachine;

/// Runs work on a thread of its own, so that no task of the runtime waits for it. On a simulated
/// machine, the work is a task of the runtime.
#[expect(clippy::disallowed_methods, reason = "the one place that starts them")]
pub fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    match SimulatedMachine::with_entered(|_| ()) {
        Some(()) => tokio::spawn(async move { work() }),
        None => tokio::task::spawn_blocking(work),
    }
}
