//! Without changes, the operator writes nothing.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::{Api, ResourceExt as _};
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_api::{PodGroup, TrainingJob, TrainingQueue};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::site::TestSite;

/// Time between two checks that all objects are written, and greatest number of checks.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
const MAX_LOOKS: usize = 12;

/// This test has its own control plane, because the share of a queue changes with the nodes of
/// other tests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_reconcile_pass_writes_nothing() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_trellis-under-test"));
    let launch = LaunchOptions::with_name("operator").lease_seconds(60);
    let (_operator, _proxy) = Operator::start_behind_new_proxy(&control_plane, program, &launch)
        .await
        .unwrap();
    // The status of the job contains how its ranks follow the topology.
    let topology = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "Topology", "metadata": {"name": "hall"},
        "spec": {"levels": [{"nodeLabel": "trellis.dev/rack"}]},
    });
    control_plane
        .apply_yaml(&topology.to_string())
        .await
        .unwrap();
    let nodes = NodeTemplate::new(2).gpus(8).racks(1);
    let site = TestSite::new(&control_plane, "quiet", nodes).await;
    site.submit("j", 2, 1).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let queues: Api<TrainingQueue> = Api::all(control_plane.client());
    let children = async || -> [Option<String>; 4] {
        let service = site.api::<Service>().get("j").await.unwrap();
        let policy = site.api::<NetworkPolicy>().get("j").await.unwrap();
        let group = site.api::<PodGroup>().get("j").await.unwrap();
        let queue = queues.get("default").await.unwrap();
        [
            service.resource_version(),
            policy.resource_version(),
            group.resource_version(),
            queue.resource_version(),
        ]
    };
    // The operator writes counts of pods and queues from time to time. The cluster is idle when two
    // checks agree.
    let all = async || {
        let job = site.api::<TrainingJob>().get("j").await.unwrap();
        (job.resource_version(), children().await)
    };
    let mut before = all().await;
    for _ in 0..MAX_LOOKS {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let last = std::mem::replace(&mut before, all().await);
        if before == last {
            break;
        }
    }
    for look in 0..3 {
        // The user's annotation makes the operator reconcile the job without any change.
        let patch = json!({"metadata": {"annotations": {"example.com/look": look.to_string()}}});
        let annotated = site.patch("j", patch).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = site.api::<TrainingJob>().get("j").await.unwrap();
        assert_eq!(now.resource_version(), annotated.resource_version());
    }
    assert_eq!(children().await, before.1);
}
