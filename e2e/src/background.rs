//! Cleanup that runs when a value of a test is dropped.

use std::thread;

use kube::{Client, Config};

/// Does something with a client of its own, on a thread of its own: the runtime of the test may be
/// about to end, so it is no place for this. Best effort: what is left over goes with the control
/// plane at the latest.
pub(crate) fn with_client(config: Config, task: impl AsyncFnOnce(Client) + Send + 'static) {
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
