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
use trellis_e2e::cluster::{Nodes, SCOPE};
use trellis_e2e::proxy::Moment;
use trellis_e2e::site::Site;
use trellis_e2e::wait::{eventually, wait_for};

use super::preemption::begin;
use super::succession::Succession;
use super::{LATE, RECOVERY, counts, every_k, running};

/// Pods of each gang: each has half of the node's GPUs.
const GANG: u32 = 2;

/// The role of the external gang: victim or preemptor.
#[derive(Clone, Copy, PartialEq)]
enum External {
    Leaves,
    Comes,
}

async fn external_pods(site: &Site, class: Option<&str>) {
    let mut spec = json!({"minMember": GANG, "queueName": "by-priority"});
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
            "replicas": GANG, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "schedulerName": names::SCHEDULER, "nodeSelector": {SCOPE: site.name()},
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

fn job(site: &Site, class: Option<&str>) -> Value {
    let mut job = site.job("job", GANG, 4);
    job["spec"]["queueName"] = json!("by-priority");
    if let Some(class) = class {
        job["spec"]["priorityClassName"] = json!(class);
    }
    job
}

/// Checks that `wanted` external pods are bound, and that all of them exist.
async fn bound(site: &Site, wanted: usize) -> anyhow::Result<()> {
    let pods = site.api::<Pod>().list(&Default::default()).await?.items;
    let ours = |pod: &&Pod| pod.labels().contains_key(names::POD_GROUP);
    let pods: Vec<_> = pods.iter().filter(ours).collect();
    let node = |pod: &&&Pod| {
        pod.spec
            .as_ref()
            .is_some_and(|spec| spec.node_name.is_some())
    };
    let bound = pods.iter().filter(node).count();
    ensure!(
        (pods.len(), bound) == (2, wanted),
        "{bound} of {} are bound",
        pods.len()
    );
    let group = site.api::<PodGroup>().get("external").await?;
    let journal = group.status.unwrap_or_default();
    let holds = journal.phase == Some(PodGroupPhase::Placed);
    ensure!(holds == (wanted == 2), "{journal:?}");
    Ok(())
}

async fn settled(site: &Site, external: External) -> anyhow::Result<()> {
    let job = site.api::<TrainingJob>().get("job").await?;
    let status = job.status.clone().unwrap_or_default();
    let counts = (status.attempt, status.restarts, status.disruptions);
    match external {
        External::Leaves => {
            site.try_whole("job", GANG as usize).await?;
            ensure!(running(&job), "{status:#?}");
            ensure!(counts == (Some(1), Some(0), Some(0)), "{status:#?}");
            bound(site, 0).await
        }
        External::Comes => {
            ensure!(counts == (Some(2), Some(0), Some(1)), "{status:#?}");
            ensure!(site.pods("job").await.is_empty(), "pods of the job");
            bound(site, 2).await
        }
    }
}

async fn survives(operators: &mut Succession, k: u64, moment: Moment, external: External) -> bool {
    let site = Site::new(
        &operators.control_plane,
        "externalevict",
        Nodes::new(1).gpus(8),
    )
    .await;
    match external {
        External::Leaves => {
            external_pods(&site, None).await;
            eventually(RECOVERY, || bound(&site, 2)).await.unwrap();
        }
        External::Comes => {
            site.create(job(&site, None)).await.unwrap();
            let api = site.api::<TrainingJob>();
            wait_for(&api, "job", RECOVERY, running).await.unwrap();
        }
    }
    let mut fired = operators.kill_after(k, moment, counts(site.name()));
    match external {
        External::Leaves => {
            site.create(job(&site, Some("high"))).await.unwrap();
        }
        External::Comes => external_pods(&site, Some("high")).await,
    }
    let say = |error: anyhow::Error| panic!("after write {k} ({moment:?}): {error:#}");
    let reached = tokio::select! {
        reached = fired.wait(RECOVERY) => reached.is_ok(),
        done = eventually(RECOVERY, || settled(&site, external)) => {
            done.unwrap_or_else(say);
            fired.wait(LATE).await.is_ok()
        }
    };
    operators.next_at_once().await;
    let done = eventually(RECOVERY, || settled(&site, external)).await;
    done.unwrap_or_else(say);
    let sets = site.api::<ReplicaSet>();
    sets.delete("external", &DeleteParams::background())
        .await
        .unwrap();
    site.delete::<TrainingJob>("job").await;
    eventually(RECOVERY, || async {
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

async fn external_pods_make_room_though_each_write_is_the_last(moment: Moment) {
    let mut operators = begin().await;
    // 3 children, the job's journal thrice, that of the external pods twice, evictions, pods, a status.
    let least = 3 + 3 + 2 + 2 * u64::from(GANG) + 1;
    every_k(least, async |k| {
        survives(&mut operators, k, moment, External::Leaves).await
    })
    .await;
}

async fn external_pods_take_a_place_though_each_write_is_the_last(moment: Moment) {
    let mut operators = begin().await;
    // The external pods' journal thrice, that of the job twice, evictions, bindings, a status.
    let least = 3 + 2 + 2 * u64::from(GANG) + 1;
    every_k(least, async |k| {
        survives(&mut operators, k, moment, External::Comes).await
    })
    .await;
}

at_both_moments!(external_pods_make_room_though_each_write_is_the_last);
at_both_moments!(external_pods_take_a_place_though_each_write_is_the_last);
