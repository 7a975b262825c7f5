//! A binding that reaches the API server after its plan was rolled back.

use std::path::Path;

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use trellis_api::pod_group::{PodGroupPhase, PodGroupStatus};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::proxy::{Proxy, ProxyFault, Request, Verb};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::{eventually, wait_until_deleted};

use super::fixtures::{create_pod, create_pod_group, node_name, read_journal, wait_until_bound};

const OPERATOR_PROGRAM: &str = env!("CARGO_BIN_EXE_trellis-under-test");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_bound_after_its_plan_rolled_back_is_deleted() {
    // A condition would change the version of the pod, which the binding names.
    let late = LateBinding::start(|request| match request.resource == "pods/status" {
        true => ProxyFault::unavailable(),
        false => ProxyFault::Pass,
    })
    .await;
    let pods = late.pods();
    late.proxy.release_held_requests();
    wait_until_deleted(&pods, "b", SOON).await.unwrap();

    late.proxy.remove_faults();
    for name in ["a", "b"] {
        late.create_member(name).await;
    }
    for name in ["a", "b"] {
        wait_until_bound(&late.site, name).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_changed_after_a_rollback_is_not_bound_by_the_plan() {
    let late = LateBinding::start(|_| ProxyFault::Pass).await;
    let pods = late.pods();
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"example.com/changed": "yes"}}}));
    let changed = pods.patch("b", &PatchParams::default(), &patch).await;
    let uid = changed.unwrap().metadata.uid;
    late.proxy.remove_faults();
    late.create_member("a").await;
    for name in ["a", "b"] {
        wait_until_bound(&late.site, name).await;
    }
    let pod = pods.get("b").await.unwrap();
    assert_eq!(pod.metadata.uid, uid);
    let journal = read_journal(&late.site, "g").await;
    let plan = journal.plan.unwrap();
    assert!(!late.undone.undone_plans.contains(&plan.hash), "{plan:?}");
}

/// A gang of the pods "a" and "b", whose plan was rolled back before the API server got the
/// bindings of "b". The proxy still holds them.
struct LateBinding {
    site: TestSite,
    proxy: Proxy,
    /// The journal after the rollback.
    undone: PodGroupStatus,
    _operator: Operator,
    _control_plane: ControlPlane,
}

impl LateBinding {
    async fn start(other_fault: impl Fn(&Request) -> ProxyFault + Send + Sync + 'static) -> Self {
        let control_plane = operator::start_control_plane().await.unwrap();
        let launch = LaunchOptions::with_name("operator").lease_seconds(60);
        let (operator, proxy) =
            Operator::start_behind_new_proxy(&control_plane, Path::new(OPERATOR_PROGRAM), &launch)
                .await
                .unwrap();
        let site = TestSite::new(&control_plane, "late", NodeTemplate::new(1).gpus(8)).await;
        proxy.on_request(move |request| {
            let binds = request.verb == Verb::Create && request.resource == "pods/binding";
            match binds && request.object_name().as_deref() == Some("b") {
                true => ProxyFault::DelayUntilHealed,
                false => other_fault(request),
            }
        });
        create_pod_group(&site, "g", json!({"minMember": 2})).await;
        for name in ["a", "b"] {
            create_member(&site, name).await;
        }
        wait_until_bound(&site, "a").await;
        // The plan cannot be completed any more.
        let pods = site.api::<Pod>();
        pods.delete("a", &DeleteParams::default()).await.unwrap();
        let undone = eventually(2 * SOON, || async {
            let journal = read_journal(&site, "g").await;
            let is_undone = journal.plan.is_none() && !journal.undone_plans.is_empty();
            ensure!(is_undone, "{journal:?}");
            ensure!(journal.phase == Some(PodGroupPhase::Pending), "{journal:?}");
            Ok(journal)
        })
        .await
        .unwrap();
        assert_eq!(node_name(&pods.get("b").await.unwrap()), None);
        Self {
            site,
            proxy,
            undone,
            _operator: operator,
            _control_plane: control_plane,
        }
    }

    fn pods(&self) -> Api<Pod> {
        self.site.api::<Pod>()
    }

    async fn create_member(&self, name: &str) {
        create_member(&self.site, name).await;
    }
}

async fn create_member(site: &TestSite, name: &str) {
    create_pod(site, name, 4, |pod| {
        pod["metadata"]["labels"] = json!({"trellis.dev/pod-group": "g"});
    })
    .await;
}
