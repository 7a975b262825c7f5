//! The elastic policy of a PyTorchJob.

use serde_json::json;

use super::restart_policy;
use crate::draft::JobDraft;
use crate::fields::Fields;

/// Reads the elastic policy. Its limits apply to the workers.
pub(super) fn read_elastic_policy(spec: &Fields<'_>, draft: &mut JobDraft) {
    let Some(policy) = spec.object("elasticPolicy") else {
        return;
    };
    let (minimum, maximum) = (policy.integer("minReplicas"), policy.integer("maxReplicas"));
    let mut pods = draft.pods.iter_mut();
    let worker = pods.find(|pods| pods.group.name == "worker");
    if worker.is_none() {
        for key in ["minReplicas", "maxReplicas"] {
            policy.note_at(
                key,
                "is about workers, and the job has none",
                "leave it out",
            );
        }
    }
    if let Some(worker) = worker {
        let now = i64::from(worker.group.replicas());
        let all = maximum.unwrap_or(now).max(now);
        if all != now {
            let value = json!(maximum);
            let reason = format!(
                "is the size that the job grows to from minReplicas while capacity is free; in Kubeflow it starts with {now} pods"
            );
            policy.log().note(
                &policy.field_path("maxReplicas"),
                Some(&value),
                reason,
                "lower replicas if the job must not grow by itself",
            );
        }
        let is_less = |maximum: &i64| *maximum < now;
        if maximum.as_ref().is_some_and(is_less) {
            policy.note_at(
                "maxReplicas",
                "is less than replicas, the number of pods at the start",
                "lower replicas",
            );
        }
        if minimum.is_some_and(|minimum| minimum > all) {
            policy.note_at(
                "minReplicas",
                "is more than the number of workers, so all of them are in the gang",
                "lower it, or raise replicas",
            );
        }
        worker.group.replicas = Some(all).filter(|all| *all != 1);
        worker.group.min_replicas = minimum.filter(|minimum| *minimum < all);
        let path = policy.field_path("minReplicas");
        worker.origins.push(("minReplicas", path));
    }
    policy.ignore_if("rdzvBackend", &json!("c10d"));
    policy.ignore_if("standalone", &json!(false));
    if let Some(limit) = policy.integer("maxRestarts") {
        restart_policy::set_restart_limit(draft, &policy, "maxRestarts", limit);
    }
    for key in [
        "rdzvBackend",
        "rdzvPort",
        "rdzvHost",
        "rdzvId",
        "rdzvConf",
        "standalone",
    ] {
        policy.note_at(
            key,
            "is about the rendezvous, which in Trellis is rank 0, backend c10d, port 29500",
            "leave it out, or set torchrun's options on its command line",
        );
    }
    policy.note_at(
        "metrics",
        "lets an autoscaler choose the number of pods, and in Trellis a job grows while capacity is free",
        "leave it out",
    );
}
