//! Requests of an earlier leader that arrive after another replica has taken the Lease.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{PodGroup, TrainingJob};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::{ControlPlane, ProcessSignal};
use trellis_e2e::operator;
use trellis_e2e::proxy::{ProxyFault, Request};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, pod_uids};
use trellis_e2e::site::pod_history::PodHistory;
use trellis_e2e::wait::eventually;
use trellis_verify::Rule;

use super::{LeaseCandidate, start_candidate, wait_until_leading};
use crate::paused_commit;

/// Longest time in which a leader would carry out a journal that asks a gang to leave.
const REACTION_TIME: Duration = Duration::from_secs(10);

fn is_journal_write(request: &Request, job: &str) -> bool {
    request.is_write()
        && request.resource.starts_with("podgroups.trellis.dev")
        && request.object_name().as_deref() == Some(job)
}

async fn journal_phase(site: &TestSite, name: &str) -> Option<PodGroupPhase> {
    let groups: Api<PodGroup> = site.api();
    let group = groups.get_opt(name).await.unwrap();
    group?.status?.phase
}

/// Submits a job that preempts gangs of its queue.
async fn submit_preemptor(control_plane: &ControlPlane, site: &TestSite, queue: &str, name: &str) {
    let class = format!("{}-high", site.name());
    let priority = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": class}, "value": 1000,
    });
    control_plane
        .apply_yaml(&priority.to_string())
        .await
        .unwrap();
    let mut job = site.job(name, 1, 8);
    job["spec"]["queueName"] = json!(queue);
    job["spec"]["priorityClassName"] = json!(class);
    site.create(job).await.unwrap();
}

async fn create_preempting_queue(control_plane: &ControlPlane, site: &TestSite) -> String {
    let name = format!("{}-q", site.name());
    let queue = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
        "metadata": {"name": name},
        "spec": {
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": "LowerPriority"},
        },
    });
    control_plane.apply_yaml(&queue.to_string()).await.unwrap();
    name
}

/// A running gang, and the request by which the old leader asks it to leave for another job. The
/// request is held until after another replica leads and the other job is gone.
struct HeldPreemption {
    control_plane: ControlPlane,
    old: LeaseCandidate,
    next: LeaseCandidate,
    site: TestSite,
    /// Uids of the gang's pods.
    pods: BTreeSet<String>,
}

impl HeldPreemption {
    async fn new() -> Self {
        let control_plane = operator::start_control_plane().await.unwrap();
        let mut old = start_candidate(&control_plane, "old").await;
        wait_until_leading(&control_plane, &old.operator).await;
        let next = start_candidate(&control_plane, "next").await;
        let site = TestSite::new(&control_plane, "held", NodeTemplate::new(1).gpus(8)).await;
        let queue = create_preempting_queue(&control_plane, &site).await;
        let mut runs = site.job("runs", 1, 8);
        runs["spec"]["queueName"] = json!(queue);
        site.create(runs).await.unwrap();
        site.wait_for_phase("runs", JobPhase::Running).await;
        let pods = pod_uids(&site.wait_for_whole_gang("runs", 1).await);

        // The request that asks the gang to leave waits in a slow network.
        let (held, mut was_held) = tokio::sync::watch::channel(false);
        old.proxy.on_request(move |request| {
            if is_journal_write(request, "runs") {
                held.send_replace(true);
                ProxyFault::Hold
            } else {
                ProxyFault::Pass
            }
        });
        submit_preemptor(&control_plane, &site, &queue, "urgent").await;
        tokio::time::timeout(SOON, was_held.wait_for(|held| *held))
            .await
            .expect("the old leader asks the gang to leave")
            .unwrap();
        old.operator.signal(ProcessSignal::Stop).unwrap();
        site.delete::<TrainingJob>("urgent").await;
        wait_until_leading(&control_plane, &next.operator).await;
        // The next leader manages jobs.
        site.submit("small", 1, 1).await;
        site.wait_until_queued_for("small", trellis_api::Reason::InsufficientCapacity)
            .await;
        assert_eq!(
            journal_phase(&site, "runs").await,
            Some(PodGroupPhase::Placed)
        );
        operator::wait_until_refused(&control_plane, "old", site.name())
            .await
            .unwrap();
        Self {
            control_plane,
            old,
            next,
            site,
            pods,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_preemption_by_an_old_leader_stops_no_gang() {
    let mut late = HeldPreemption::new().await;
    late.old.proxy.remove_faults();
    tokio::time::sleep(REACTION_TIME).await;
    assert_eq!(
        journal_phase(&late.site, "runs").await,
        Some(PodGroupPhase::Placed)
    );
    let pods = late.site.wait_for_whole_gang("runs", 1).await;
    assert_eq!(pod_uids(&pods), late.pods);
    late.next.operator.assert_runs();
}

/// The journal cannot refuse the write, because no leader has written it since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_preemption_by_an_old_leader_stops_a_gang_without_the_admission_policy() {
    let mut late = HeldPreemption::new().await;
    // The write that the policy would refuse.
    late.site.expect_broken(Rule::StaleJournal);
    remove_leader_policy(&late.control_plane, late.site.name()).await;
    late.old.proxy.remove_faults();
    eventually(SOON, || async {
        let pods = pod_uids(&late.site.list_pods("runs").await);
        ensure!(pods.is_disjoint(&late.pods), "the gang was not evicted");
        Ok(())
    })
    .await
    .unwrap();
    // The gang is queued again, and another job has its place.
    late.site.wait_for_phase("small", JobPhase::Running).await;
    late.site.wait_for_phase("runs", JobPhase::Queued).await;
    late.next.operator.assert_runs();
}

/// Waits until a pod existed whose name starts with `prefix`.
async fn wait_for_pod_record(history: &PodHistory, prefix: &str) {
    eventually(SOON, || async {
        let uids = history.uids_by_name();
        let exists = uids.keys().any(|pod| pod.starts_with(prefix));
        ensure!(exists, "no pod {prefix} is among {uids:?}");
        Ok(())
    })
    .await
    .unwrap();
}

/// A gang of 8 pods whose second half the old leader creates late, after another replica has taken
/// the Lease and rolled the plan back.
struct LateHalf {
    control_plane: ControlPlane,
    old: LeaseCandidate,
    next: LeaseCandidate,
    site: TestSite,
    history: PodHistory,
}

impl LateHalf {
    async fn new() -> Self {
        let control_plane = operator::start_control_plane().await.unwrap();
        let mut old = start_candidate(&control_plane, "old").await;
        wait_until_leading(&control_plane, &old.operator).await;
        let next = start_candidate(&control_plane, "next").await;
        let site = TestSite::new(&control_plane, "late", NodeTemplate::new(1).gpus(8)).await;
        // The creates of the second half are delayed in a slow network.
        paused_commit::pause_commit(&old.proxy, &site, "j", (4, 8), ProxyFault::Hold).await;
        old.operator.signal(ProcessSignal::Stop).unwrap();
        wait_until_leading(&control_plane, &next.operator).await;
        // The user suspends the job, so the plan is rolled back meanwhile.
        site.patch("j", json!({"spec": {"suspend": true}}))
            .await
            .unwrap();
        site.wait_for_phase("j", JobPhase::Suspended).await;
        site.wait_for_pod_count("j", 0).await;

        let pods = site.api::<Pod>();
        let history = PodHistory::record(pods.clone());
        // A watch that starts late does not show a pod that was created and deleted before.
        let probe = json!({
            "metadata": {"name": "probe"},
            "spec": {"containers": [{"name": "main", "image": "registry.example/probe"}]},
        });
        let probe = serde_json::from_value(probe).unwrap();
        pods.create(&PostParams::default(), &probe).await.unwrap();
        wait_for_pod_record(&history, "probe").await;
        operator::wait_until_refused(&control_plane, "old", site.name())
            .await
            .unwrap();
        Self {
            control_plane,
            old,
            next,
            site,
            history,
        }
    }

    /// Asserts that the GPUs of the late pods are free under the next leader.
    async fn check_free_gpus(mut self) {
        self.site.submit("whole", 1, 8).await;
        self.site.wait_for_phase("whole", JobPhase::Running).await;
        assert_eq!(self.site.list_pods("j").await.len(), 0);
        self.next.operator.assert_runs();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_pod_of_an_old_leader_is_refused() {
    let late = LateHalf::new().await;
    late.old.proxy.remove_faults();
    tokio::time::sleep(REACTION_TIME).await;
    let pods = late.history.uids_by_name();
    assert!(
        !pods.keys().any(|pod| pod.starts_with("j-worker-")),
        "{pods:?}"
    );
    late.check_free_gpus().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_pod_of_an_old_leader_is_deleted_without_the_admission_policy() {
    let late = LateHalf::new().await;
    remove_leader_policy(&late.control_plane, late.site.name()).await;
    late.old.proxy.remove_faults();
    wait_for_pod_record(&late.history, "j-worker-").await;
    late.site.wait_for_pod_count("j", 0).await;
    late.check_free_gpus().await;
}

/// Deletes the admission policy that refuses late writes, and waits until the API server admits
/// them.
async fn remove_leader_policy(control_plane: &ControlPlane, namespace: &str) {
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(control_plane.client());
    bindings
        .delete("trellis-leader", &DeleteParams::default())
        .await
        .unwrap();
    let standby = operator::client(control_plane, "standby").await.unwrap();
    let pods: Api<Pod> = Api::namespaced(standby, namespace);
    let (dry_run, pod) = operator::trial_pod().unwrap();
    eventually(SOON, || async {
        pods.create(&dry_run, &pod).await?;
        Ok(())
    })
    .await
    .unwrap();
}
