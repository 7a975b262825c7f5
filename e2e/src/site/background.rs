//! Cleanup that runs when a value of a test is dropped.

use std::thread;

use kube::{Client, Config};

/// Runs `task` with its own client on its own thread, because the runtime of the test may end soon.
/// Errors are ignored, because the end of the control plane removes all objects.
pub(crate) fn run_with_client(config: Config, task: impl AsyncFnOnce(Client) + Send + 'static) {
    thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
        else {
            return;
        };
        runtime.block_on(async {
            if let Ok(client) = Client::try_from(config) {
                task(client).await;
            }
        });
    });
}
