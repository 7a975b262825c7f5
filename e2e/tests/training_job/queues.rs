//! Queues: admission and status.

pub(super) mod default_queue;
pub(super) mod preemption;
pub(super) mod resource_quotas;

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_api::queue::QueueStatus;
use trellis_api::{ResourceFlavor, TrainingQueue};
use trellis_e2e::site::jobs::{SOON, message, reason};
use trellis_e2e::site::queues::resource_groups;
use trellis_e2e::wait::wait_for;

use super::{create_site, shared_control_plane};

async fn wait_for_queue_status(
    queues: &Api<TrainingQueue>,
    name: &str,
    condition: impl Fn(&QueueStatus) -> bool,
) {
    wait_for(queues, name, SOON, |queue: &TrainingQueue| {
        queue.status.as_ref().is_some_and(&condition)
    })
    .await
    .unwrap();
}

fn pending_and_admitted(status: &QueueStatus) -> (Option<i64>, Option<i64>) {
    (status.pending, status.admitted)
}

fn active_condition(status: &QueueStatus) -> Option<(&str, &str)> {
    let active = status.conditions.iter().find(|c| c.type_ == "Active")?;
    Some((&active.status, &active.reason))
}

#[tokio::test]
async fn queue_enforces_its_quota_and_starts_no_job_when_stopped() {
    let site = create_site("quota", 2).await;
    let name = format!("{}-q", site.name());
    let control_plane = shared_control_plane().await;
    let spec = json!({
        "namespaceSelector": {}, "resourceGroups": resource_groups(&[("default", 8)]),
    });
    apply_object("TrainingQueue", &name, spec).await;
    let queues: Api<TrainingQueue> = Api::all(control_plane.client());
    wait_for_queue_status(&queues, &name, |s| {
        pending_and_admitted(s) == (Some(0), Some(0))
    })
    .await;
    for (job, replicas) in [("first", 8), ("second", 1)] {
        let mut spec = site.job(job, replicas, 1);
        spec["spec"]["queueName"] = json!(name);
        site.create(spec).await.unwrap();
        site.wait_for_status(job, |s| s.phase.is_some_and(|p| p != JobPhase::Waiting))
            .await;
    }
    site.wait_for_phase("first", JobPhase::Running).await;
    let waiting = site
        .wait_for_status("second", |s| {
            s.reason.is_some_and(|r| r.as_str() == "QuotaExceeded")
        })
        .await;
    assert!(
        message(&waiting).contains(&name) && message(&waiting).contains('1'),
        "{}",
        message(&waiting)
    );
    wait_for_queue_status(&queues, &name, |s| {
        pending_and_admitted(s) == (Some(1), Some(1))
            && active_condition(s) == Some(("True", "Accepted"))
    })
    .await;
    let stop = |policy: &'static str| {
        let (queues, name) = (queues.clone(), name.clone());
        async move {
            let patch = json!({"spec": {"stopPolicy": policy}});
            queues
                .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
                .await
                .unwrap();
        }
    };
    stop("Hold").await;
    wait_for_queue_status(&queues, &name, |s| {
        active_condition(s) == Some(("False", "QueueStopped"))
    })
    .await;
    site.delete::<trellis_api::TrainingJob>("first").await;
    wait_for_queue_status(&queues, &name, |s| {
        pending_and_admitted(s) == (Some(1), Some(0))
    })
    .await;
    let held_job = site
        .wait_for_status("second", |s| {
            s.reason.is_some_and(|r| r.as_str() == "QueueStopped")
        })
        .await;
    assert_eq!(reason(&held_job), "QueueStopped");
    assert!(site.list_pods("second").await.is_empty());
    stop("None").await;
    site.wait_for_phase("second", JobPhase::Running).await;
    wait_for_queue_status(&queues, &name, |s| {
        pending_and_admitted(s) == (Some(0), Some(1))
            && active_condition(s) == Some(("True", "Accepted"))
    })
    .await;
}

async fn apply_object(kind: &str, name: &str, spec: serde_json::Value) {
    let object = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": kind,
        "metadata": {"name": name}, "spec": spec,
    });
    shared_control_plane()
        .await
        .apply_yaml(&object.to_string())
        .await
        .unwrap();
}

/// Returns the used and the borrowed GPUs of a flavor in a queue.
fn used_and_borrowed_gpus(status: &QueueStatus, flavor: &str) -> Option<(String, String)> {
    let line = status
        .usage
        .iter()
        .find(|u| u.flavor == flavor && u.resource == "nvidia.com/gpu")?;
    Some((
        line.used.as_str().to_owned(),
        line.borrowed.as_str().to_owned(),
    ))
}

#[tokio::test]
async fn queue_borrows_idle_quota_of_its_cohort() {
    let site = create_site("borrow", 2).await;
    let queue = |name: &str| format!("{}-{name}", site.name());
    apply_object(
        "TrainingQueue",
        &queue("all"),
        json!({"resourceGroups": resource_groups(&[("default", 0)])}),
    )
    .await;
    for team in ["a", "b"] {
        let spec = json!({
            "parentName": queue("all"), "namespaceSelector": {},
            "resourceGroups": resource_groups(&[("default", 8)]),
        });
        apply_object("TrainingQueue", &queue(team), spec).await;
    }
    let submit = |team: &'static str, name: &'static str, pods: u32| {
        let mut job = site.job(name, pods, 1);
        job["spec"]["queueName"] = json!(queue(team));
        site.create(job)
    };
    submit("a", "borrows", 12).await.unwrap();
    site.wait_for_phase("borrows", JobPhase::Running).await;
    submit("b", "waits", 8).await.unwrap();
    let waiting = site
        .wait_for_status("waits", |s| {
            s.reason.is_some_and(|r| r.as_str() == "QuotaExceeded")
        })
        .await;
    let status_message = message(&waiting);
    assert!(
        status_message.contains("4 are missing")
            && status_message.contains(&format!("borrowed by queue {:?} 4", queue("a"))),
        "{status_message}"
    );
    let queues: Api<TrainingQueue> = Api::all(shared_control_plane().await.client());
    wait_for_queue_status(&queues, &queue("a"), |s| {
        used_and_borrowed_gpus(s, "default") == Some(("12".to_owned(), "4".to_owned()))
    })
    .await;
    site.delete::<trellis_api::TrainingJob>("borrows").await;
    site.wait_for_phase("waits", JobPhase::Running).await;

    // A queue with child queues accepts no jobs, and reports it.
    submit("all", "inner", 1).await.unwrap();
    let waiting_job = site.wait_for_phase("inner", JobPhase::Waiting).await;
    assert_eq!(
        reason(&waiting_job),
        "QueueMisconfigured",
        "{}",
        message(&waiting_job)
    );
    let status_message = message(&waiting_job);
    assert!(
        status_message.contains("has queues below it"),
        "{status_message}"
    );
    apply_object(
        "TrainingQueue",
        &queue("lost"),
        json!({"parentName": queue("nobody"), "namespaceSelector": {}}),
    )
    .await;
    submit("lost", "lost", 1).await.unwrap();
    let waiting_job = site
        .wait_for_status("lost", |s| {
            s.reason.is_some_and(|r| r.as_str() == "QueueMisconfigured")
        })
        .await;
    assert!(
        message(&waiting_job).contains("does not exist"),
        "{}",
        message(&waiting_job)
    );
    wait_for_queue_status(&queues, &queue("lost"), |s| {
        active_condition(s) == Some(("False", "QueueMisconfigured"))
    })
    .await;

    // A queue with a missing flavor accepts no jobs either.
    let quotas = json!([{"name": "cpu", "nominalQuota": 1}]);
    let offers = json!([{"coveredResources": ["cpu"], "flavors": [{"name": "nobodys", "resources": quotas}]}]);
    apply_object(
        "TrainingQueue",
        &queue("bare"),
        json!({"resourceGroups": offers}),
    )
    .await;
    wait_for_queue_status(&queues, &queue("bare"), |s| {
        active_condition(s) == Some(("False", "FlavorNotFound"))
    })
    .await;
    let table = shared_control_plane().await;
    let table = table.kubectl_ok(&["get", "tq", &queue("lost")]).await;
    let table = table.unwrap();
    for word in [
        "PARENT",
        "ACTIVE",
        &queue("nobody"),
        "False",
        "QueueMisconfigured",
    ] {
        assert!(table.contains(word), "{word}: {table}");
    }
}

/// This operator may not read ProvisioningRequests.
#[tokio::test]
async fn flavor_with_requests_stops_no_job_where_no_nodes_are_ordered() {
    let site = create_site("fixed", 1).await;
    let class = "best-effort-atomic-scale-up.autoscaling.x-k8s.io";
    let spec = json!({"nodeLabels": {"pool": site.name()}, "provisioning": {
        "by": "ProvisioningRequest", "maxNodes": 1,
        "provisioningRequest": {"provisioningClassName": class},
        "node": {"allocatable": {"nvidia.com/gpu": 8}},
    }});
    apply_object("ResourceFlavor", site.name(), spec).await;
    site.create(site.job("train", 1, 8)).await.unwrap();
    site.wait_for_phase("train", JobPhase::Running).await;
    let flavors: Api<ResourceFlavor> = Api::all(shared_control_plane().await.client());
    wait_for(&flavors, site.name(), SOON, |flavor: &ResourceFlavor| {
        let mut conditions = flavor.status.iter().flat_map(|s| &s.conditions);
        conditions.any(|c| c.status == "Unknown" && c.message.contains("orders no nodes"))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn flavors_are_tried_in_order() {
    let control_plane = shared_control_plane().await;
    let site = create_site("flavors", 0).await;
    let flavor = |name: &str| format!("{}-{name}", site.name());
    let mut nodes = Vec::new();
    for name in ["h100", "a100"] {
        let set = trellis_e2e::cluster::NodeTemplate::new(1)
            .gpus(8)
            .name(&format!("{}-{name}-{{i}}", site.name()))
            .scope(site.name())
            .label("gpu", name)
            .create(control_plane)
            .await
            .unwrap();
        nodes.push(set);
        apply_object(
            "ResourceFlavor",
            &flavor(name),
            json!({"nodeLabels": {"gpu": name}}),
        )
        .await;
    }
    let queue = format!("{}-q", site.name());
    let spec = json!({
        "namespaceSelector": {},
        "resourceGroups": resource_groups(&[(&flavor("h100"), 8), (&flavor("a100"), 8)]),
    });
    apply_object("TrainingQueue", &queue, spec).await;
    let submit = |name: &'static str, flavors: Vec<String>| {
        let mut job = site.job(name, 8, 1);
        job["spec"]["queueName"] = json!(queue);
        job["spec"]["taskGroups"][0]["flavors"] = json!(flavors);
        site.create(job)
    };
    let node_of = async |name: &str| {
        let pods = site.wait_for_whole_gang(name, 8).await;
        pods[0].spec.as_ref().unwrap().node_name.clone().unwrap()
    };
    submit("first", vec![]).await.unwrap();
    site.wait_for_phase("first", JobPhase::Running).await;
    assert!(node_of("first").await.contains("h100"));
    // The quota of the best flavor is used, so the next flavor is selected.
    submit("second", vec![]).await.unwrap();
    site.wait_for_phase("second", JobPhase::Running).await;
    assert!(node_of("second").await.contains("a100"));
    let queues: Api<TrainingQueue> = Api::all(control_plane.client());
    wait_for_queue_status(&queues, &queue, |s| {
        let all = Some(("8".to_owned(), "0".to_owned()));
        used_and_borrowed_gpus(s, &flavor("h100")) == all
            && used_and_borrowed_gpus(s, &flavor("a100")) == all
    })
    .await;
    submit("third", vec![flavor("h100")]).await.unwrap();
    let waiting = site
        .wait_for_status("third", |s| {
            s.reason.is_some_and(|r| r.as_str() == "QuotaExceeded")
        })
        .await;
    assert!(
        message(&waiting).contains(&flavor("h100")),
        "{}",
        message(&waiting)
    );
    site.delete::<trellis_api::TrainingJob>("first").await;
    site.wait_for_phase("third", JobPhase::Running).await;
    assert!(node_of("third").await.contains("h100"));
}

/// Returns the keys of the tolerations of a job's pods. Checks that all pods have the same.
async fn toleration_keys(
    site: &trellis_e2e::site::TestSite,
    name: &str,
    pods: usize,
) -> Vec<String> {
    let mut all = site
        .wait_for_whole_gang(name, pods)
        .await
        .into_iter()
        .map(|pod| {
            let tolerations = pod.spec.unwrap().tolerations.unwrap_or_default();
            let keys = tolerations.into_iter().filter_map(|t| t.key);
            // Kubernetes adds these tolerations to every pod.
            let keys = keys.filter(|key| !key.starts_with("node.kubernetes.io/"));
            keys.collect::<Vec<_>>()
        });
    let first = all.next().unwrap();
    assert!(all.all(|other| other == first));
    first
}

#[tokio::test]
async fn flavor_adds_the_toleration_for_its_nodes() {
    let control_plane = shared_control_plane().await;
    let site = create_site("spot", 0).await;
    let scoped = |name: &str| format!("{}-{name}", site.name());
    let pool = |name: &str| {
        trellis_e2e::cluster::NodeTemplate::new(1)
            .gpus(8)
            .name(&format!("{}-{name}-{{i}}", site.name()))
            .scope(site.name())
            .label("pool", name)
    };
    let _own = pool("own").create(control_plane).await.unwrap();
    // The control plane evicts a pod that does not tolerate this taint.
    let spot = pool("spot").taint("spot", "true", "NoExecute");
    let _spot = spot.create(control_plane).await.unwrap();
    apply_object(
        "ResourceFlavor",
        &scoped("own"),
        json!({"nodeLabels": {"pool": "own"}}),
    )
    .await;
    let mut flavor = json!({
        "nodeLabels": {"pool": "spot"},
        "nodeTaints": [{"key": "spot", "value": "true", "effect": "NoExecute"}],
    });
    apply_object("ResourceFlavor", &scoped("spot"), flavor.clone()).await;
    let flavors = [(scoped("own"), 8), (scoped("spot"), 8)];
    let flavors = flavors
        .each_ref()
        .map(|(name, gpus)| (name.as_str(), *gpus));
    apply_object(
        "TrainingQueue",
        &scoped("q"),
        json!({"namespaceSelector": {}, "resourceGroups": resource_groups(&flavors)}),
    )
    .await;
    let submit = async |name: &'static str| {
        let mut job = site.job(name, 8, 1);
        job["spec"]["queueName"] = json!(scoped("q"));
        site.create(job).await.unwrap();
    };
    submit("first").await;
    site.wait_for_phase("first", JobPhase::Running).await;
    // Every pod tolerates the taint of Trellis's own nodes and the taint of its device.
    let always = ["trellis.dev/dedicated", "nvidia.com/gpu"];
    assert_eq!(toleration_keys(&site, "first", 8).await, always);
    // A job that does not tolerate spot cannot use the spot pool.
    submit("second").await;
    site.wait_for_status("second", |s| {
        s.reason.is_some_and(|r| r.as_str() == "QuotaExceeded")
    })
    .await;
    flavor["tolerations"] = json!([{"key": "spot", "operator": "Exists"}]);
    apply_object("ResourceFlavor", &scoped("spot"), flavor).await;
    site.wait_for_phase("second", JobPhase::Running).await;
    assert_eq!(
        toleration_keys(&site, "second", 8).await,
        ["trellis.dev/dedicated", "nvidia.com/gpu", "spot"]
    );
    let group = site.api::<trellis_api::PodGroup>().get("second").await;
    let plan = group.unwrap().status.unwrap().plan.unwrap();
    let assigned = plan.groups[0].flavors.get("nvidia.com/gpu");
    assert_eq!(assigned, Some(&scoped("spot")));
}
