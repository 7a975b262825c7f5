//! The operator is killed after the k-th write that follows the creation of a preemptor. The victim
//! or the preemptor is a gang of external pods, of a ReplicaSet.

use anyhow::ensure;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{PodGroup, TrainingJob, names};
use trellis_e2e::cluster::{NodeTemplate, SCOPE_LABEL};
use trellis_e2e::operator::{
    LATE_WRITE_TIME, RECOVERY_TIMEOUT, Succession, kill_after_every_write,
};
use trellis_e2e::proxy::TrapTiming;
use trellis_e2e::site::TestSite;
use trellis_e2e::wait::{eventually, wait_for};

use super::preemption::start_operators;
use super::{KillMoments, counted_write_filter, is_running};

/// Number of pods of each gang. Each pod has half of the node's GPUs.
const GANG_SIZE: u32 = 2;

/// The role of the external gang: victim or preemptor.
#[derive(Clone, Copy, PartialEq)]
enum ExternalRole {
    Victim,
    Preemptor,
}

async fn create_external_gang(site: &TestSite, class: Option<&str>) {
    let mut spec = json!({"minMember": GANG_SIZE, "queueName": "by-priority"});
    if let Some(class) = class {
        spec["priorityClassName"] = json!(class);
    }
    let group: PodGroup = serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "external"}, "spec": spec,
    }))
    .unwrap();
    let groups = site.api::<PodGroup>();
    groups.create(&PostParams::default(), &group).await.unwrap();
    let labels = json!({names::POD_GROUP: "external"});
    let set: ReplicaSet = serde_json::from_value(json!({
        "metadata": {"name": "external"},
        "spec": {
            "replicas": GANG_SIZE, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "schedulerName": names::SCHEDULER, "nodeSelector": {SCOPE_LABEL: site.name()},
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": "registry.example/train:1.0",
                    "resources": {"limits": {"nvidia.com/gpu": "4"}}}],
            }},
        },
    }))
    .unwrap();
    let sets = site.api::<ReplicaSet>();
    sets.create(&PostParams::default(), &set).await.unwrap();
}

fn gang_job(site: &TestSite, class: Option<&str>) -> Value {
    let mut job = site.job("job", GANG_SIZE, 4);
    job["spec"]["queueName"] = json!("by-priority");
    if let Some(class) = class {
        job["spec"]["priorityClassName"] = json!(class);
    }
    job
}

/// Checks that `expected` external pods are bound, and that all of them exist.
async fn check_bound_pods(site: &TestSite, expected: usize) -> anyhow::Result<()> {
    let pods = site.api::<Pod>().list(&Default::default()).await?.items;
    let is_gang_pod = |pod: &&Pod| pod.labels().contains_key(names::POD_GROUP);
    let pods: Vec<_> = pods.iter().filter(is_gang_pod).collect();
    let node = |pod: &&&Pod| {
        pod.spec
            .as_ref()
            .is_some_and(|spec| spec.node_name.is_some())
    };
    let bound = pods.iter().filter(node).count();
    ensure!(
        (pods.len(), bound) == (2, expected),
        "{bound} of {} are bound",
        pods.len()
    );
    let group = site.api::<PodGroup>().get("external").await?;
    let journal = group.status.unwrap_or_default();
    let is_placed = journal.phase == Some(PodGroupPhase::Placed);
    ensure!(is_placed == (expected == 2), "{journal:?}");
    Ok(())
}

async fn check_settled(site: &TestSite, external: ExternalRole) -> anyhow::Result<()> {
    let job = site.api::<TrainingJob>().get("job").await?;
    let status = job.status.clone().unwrap_or_default();
    let counts = (status.attempt, status.restarts, status.disruptions);
    match external {
        ExternalRole::Victim => {
            site.check_whole_gang("job", GANG_SIZE as usize).await?;
            ensure!(is_running(&job), "{status:#?}");
            ensure!(counts == (Some(1), Some(0), Some(0)), "{status:#?}");
            check_bound_pods(site, 0).await
        }
        ExternalRole::Preemptor => {
            ensure!(counts == (Some(2), Some(0), Some(1)), "{status:#?}");
            ensure!(site.list_pods("job").await.is_empty(), "pods of the job");
            check_bound_pods(site, 2).await
        }
    }
}

async fn survives_kill(
    operators: &mut Succession,
    k: u64,
    moment: TrapTiming,
    external: ExternalRole,
) -> bool {
    let site = TestSite::new(
        &operators.control_plane,
        "externalevict",
        NodeTemplate::new(1).gpus(8),
    )
    .await;
    match external {
        ExternalRole::Victim => {
            create_external_gang(&site, None).await;
            eventually(RECOVERY_TIMEOUT, || check_bound_pods(&site, 2))
                .await
                .unwrap();
        }
        ExternalRole::Preemptor => {
            site.create(gang_job(&site, None)).await.unwrap();
            let api = site.api::<TrainingJob>();
            wait_for(&api, "job", RECOVERY_TIMEOUT, is_running)
                .await
                .unwrap();
        }
    }
    let mut fired = operators.kill_after_write(k, moment, counted_write_filter(site.name()));
    match external {
        ExternalRole::Victim => {
            site.create(gang_job(&site, Some("high"))).await.unwrap();
        }
        ExternalRole::Preemptor => create_external_gang(&site, Some("high")).await,
    }
    let say = |error: anyhow::Error| panic!("after write {k} ({moment:?}): {error:#}");
    let reached = tokio::select! {
        reached = fired.wait_until_fired(RECOVERY_TIMEOUT) => reached.is_ok(),
        settled = eventually(RECOVERY_TIMEOUT, || check_settled(&site, external)) => {
            settled.unwrap_or_else(say);
            fired.wait_until_fired(LATE_WRITE_TIME).await.is_ok()
        }
    };
    operators.start_next_leader_at_once().await;
    let settled = eventually(RECOVERY_TIMEOUT, || check_settled(&site, external)).await;
    settled.unwrap_or_else(say);
    let sets = site.api::<ReplicaSet>();
    sets.delete("external", &DeleteParams::background())
        .await
        .unwrap();
    site.delete::<TrainingJob>("job").await;
    eventually(RECOVERY_TIMEOUT, || async {
        let pods = site
            .api::<Pod>()
            .list(&Default::default())
            .await?
            .items
            .len();
        ensure!(pods == 0, "{pods} pods");
        Ok(())
    })
    .await
    .unwrap();
    reached
}

async fn external_gang_is_preempted_after_a_crash_at_each_write(moments: KillMoments) {
    let mut operators = start_operators().await;
    // The writes are 3 children, the job's journal three times, the external pods' journal twice,
    // evictions, pods and a status.
    let minimum = 3 + 3 + 2 + 2 * u64::from(GANG_SIZE) + 1;
    kill_after_every_write(minimum, async |k| {
        survives_kill(&mut operators, k, moments.at_write(k), ExternalRole::Victim).await
    })
    .await;
}

async fn external_gang_preempts_after_a_crash_at_each_write(moments: KillMoments) {
    let mut operators = start_operators().await;
    // The writes are the external pods' journal three times, the job's journal twice, evictions,
    // bindings and a status.
    let minimum = 3 + 2 + 2 * u64::from(GANG_SIZE) + 1;
    kill_after_every_write(minimum, async |k| {
        survives_kill(
            &mut operators,
            k,
            moments.at_write(k),
            ExternalRole::Preemptor,
        )
        .await
    })
    .await;
}

at_both_moments!(external_gang_is_preempted_after_a_crash_at_each_write);
at_both_moments!(external_gang_preempts_after_a_crash_at_each_write);
