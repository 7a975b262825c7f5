//! Simulated device plugins. A new node has a startup taint until its device plugin runs.

use std::collections::BTreeSet;
use std::time::Duration;

use trellis_e2e::karpenter::TestNodePool;

/// The startup taint of the NodePool.
pub(super) const TAINT: &str = "demo.example.com/no-device-plugin";

/// Time between the starts of two device plugins.
const INTERVAL: Duration = Duration::from_millis(1500);

/// Starts the device plugins of new nodes one after the other, and removes the startup taints. Runs
/// until the future is dropped.
pub(super) async fn start_on_new_nodes(pool: &TestNodePool) {
    // Karpenter never uses the name of a node twice.
    let mut started = BTreeSet::new();
    loop {
        tokio::time::sleep(INTERVAL).await;
        let Ok(nodes) = pool.registered_nodes().await else {
            continue;
        };
        let new = nodes.names().iter().find(|name| !started.contains(*name));
        if let Some(name) = new
            && nodes.untaint(name, TAINT).await.is_ok()
        {
            started.insert(name.clone());
        }
    }
}
