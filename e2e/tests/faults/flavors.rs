//! A plan is completed as it was written, even if its flavors have changed.

use anyhow::ensure;
use kube::Api;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_api::{PodGroup, ResourceFlavor, TrainingQueue};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::proxy::ProxyFault;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{self, SOON, pod_uids};
use trellis_e2e::wait::{eventually, wait_for};

use super::operator_program;
use super::paused_commit::is_pod_create;

const GANG_SIZE: u32 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resumed_plan_creates_pods_of_its_original_flavor() {
    let control_plane = operator::start_control_plane().await.unwrap();
    // The control plane evicts a pod that does not tolerate this taint.
    let nodes = NodeTemplate::new(1)
        .gpus(8)
        .taint("spot", "true", "NoExecute");
    let site = TestSite::new(&control_plane, "flavors", nodes).await;
    let quotas = json!([
        {"name": "cpu", "nominalQuota": 100},
        {"name": "memory", "nominalQuota": "100Gi"},
        {"name": "nvidia.com/gpu", "nominalQuota": 8},
    ]);
    for object in [
        json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "ResourceFlavor", "metadata": {"name": "spot"},
            "spec": {"tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3600}]},
        }),
        json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue", "metadata": {"name": "cheap"},
            "spec": {"namespaceSelector": {}, "resourceGroups": [{
                "coveredResources": ["cpu", "memory", "nvidia.com/gpu"],
                "flavors": [{"name": "spot", "resources": quotas}],
            }]},
        }),
    ] {
        control_plane.apply_yaml(&object.to_string()).await.unwrap();
    }
    let launch = LaunchOptions::with_name("operator");
    let (mut first, proxy) =
        Operator::start_behind_new_proxy(&control_plane, operator_program(), &launch)
            .await
            .unwrap();
    proxy.on_request(|request| {
        if is_pod_create(request, "j", 1) {
            ProxyFault::Hold
        } else {
            ProxyFault::Pass
        }
    });
    let mut job = site.job("j", GANG_SIZE, 1);
    job["spec"]["queueName"] = json!("cheap");
    site.create(job).await.unwrap();
    site.wait_for_pod_count("j", 1).await;
    let before = pod_uids(&site.list_pods("j").await);
    first.kill().unwrap();
    operator::release_lease(&control_plane).await.unwrap();

    // The flavor that led to the plan no longer has its tolerations.
    let flavors: Api<ResourceFlavor> = Api::all(control_plane.client());
    let patch = json!({"spec": {"tolerations": null}});
    flavors
        .patch("spot", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    let _second = Operator::start(&control_plane, operator_program())
        .await
        .unwrap();
    let running = eventually(SOON * 2, || site.check_whole_gang("j", GANG_SIZE as usize));
    let pods = running.await.unwrap();
    assert!(
        pod_uids(&pods).is_superset(&before),
        "the first pod was replaced"
    );
    for pod in &pods {
        let tolerations = pod.spec.as_ref().unwrap().tolerations.clone();
        let spot = tolerations
            .unwrap_or_default()
            .into_iter()
            .find(|t| t.key.as_deref() == Some("spot"));
        let spot = spot.unwrap_or_else(|| panic!("{} does not tolerate spot", pod.name_any()));
        assert_eq!(spot.toleration_seconds, Some(3600));
    }
    let running_job = site.wait_for_phase("j", JobPhase::Running).await;
    let status = running_job.status.unwrap();
    assert_eq!((status.attempt, status.restarts), (Some(1), Some(0)));
    let group = site.api::<PodGroup>().get("j").await.unwrap();
    let plan = group.status.unwrap().plan.unwrap();
    assert_eq!(plan.groups[0].flavors["nvidia.com/gpu"], "spot");

    // The pods count against their assigned flavor.
    let queues: Api<TrainingQueue> = Api::all(control_plane.client());
    let charged = wait_for(&queues, "cheap", SOON, |queue: &TrainingQueue| {
        let usage = queue.status.iter().flat_map(|s| &s.usage);
        let gpus = usage.filter(|u| u.flavor == "spot" && u.resource == "nvidia.com/gpu");
        gpus.into_iter().any(|u| u.used.as_str() == "4")
    });
    charged.await.unwrap();
    // A later job cannot use the flavor any more.
    let mut later = site.job("later", 1, 1);
    later["spec"]["queueName"] = json!("cheap");
    site.create(later).await.unwrap();
    eventually(SOON, || async {
        let pods = site.list_pods("later").await.len();
        ensure!(pods == 0, "{pods} pods");
        let job = site.api::<trellis_api::TrainingJob>().get("later").await?;
        let reason = jobs::reason(&job);
        ensure!(reason == "NoMatchingNodes", "{reason}");
        Ok(())
    })
    .await
    .unwrap();
}
