//! Placeholders: pods that no scheduler places. Autoscalers add nodes for them as for any pending
//! pod.
//!
//! The pods of one task group come from one `batch/v1` Job in a namespace of their own. So they
//! cost one write, Cluster Autoscaler counts them as pods of one controller, and
//! `activeDeadlineSeconds` ends the order even if no operator is left.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, PodSecurityContext, PodSpec, PodTemplateSpec, ResourceRequirements,
    SeccompProfile, SecurityContext,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;
use trellis_api::names;
use trellis_api::pod_group::GangProvisioning;
use trellis_compiler::{CompiledGroup, PodPlacement};
use trellis_scheduler::Resources;

use crate::AuthorizedAttempt;
use crate::admitted_pod::AdmittedPod;
use crate::engine::to_quantity;
use crate::requirements::flavors::group_tolerations;

/// Image of the placeholders. No kubelet ever pulls it.
const IMAGE: &str = "trellis.dev/placeholder";
/// Characters of the job's name in the name of a placeholder Job.
const NAME_PREFIX_LENGTH: usize = 36;
/// Characters of the order's hash in the name of a placeholder Job.
const HASH_LENGTH: usize = 10;
/// Time after which an ended placeholder Job is deleted.
const TTL_SECONDS: i32 = 60;

/// The order that placeholders are part of.
#[derive(Clone, Copy, Debug)]
pub struct PlaceholderOrder<'a> {
    /// The run that waits for the nodes.
    pub run: &'a AuthorizedAttempt,
    /// The order, as the journal names it.
    pub nodes: &'a GangProvisioning,
    /// The pods as admission leaves them, by group.
    pub admitted: &'a BTreeMap<String, AdmittedPod>,
    /// Labels of each flavor's nodes.
    pub flavor_labels: &'a BTreeMap<String, BTreeMap<String, String>>,
    /// Namespace of the placeholders.
    pub namespace: &'a str,
    /// Seconds after which kube-controller-manager ends the placeholders.
    pub deadline_seconds: i64,
}

impl PlaceholderOrder<'_> {
    /// Returns the placeholder Jobs of all task groups: the whole gang, because autoscalers first
    /// count the free room on existing nodes.
    #[must_use]
    pub fn jobs(&self) -> Vec<Job> {
        let groups = self.run.job.compiled().groups().iter().enumerate();
        groups
            .filter(|(_, group)| group.gang_size() > 0)
            .map(|(number, group)| self.job(number, group))
            .collect()
    }

    fn job(&self, number: usize, group: &CompiledGroup) -> Job {
        let job = self.run.job.compiled().job();
        let prefix: String = job.name().chars().take(NAME_PREFIX_LENGTH).collect();
        let hash: String = self.nodes.hash.chars().take(HASH_LENGTH).collect();
        let labels = BTreeMap::from([
            (names::MANAGED_BY.to_owned(), names::MANAGER.to_owned()),
            (names::PLACEHOLDER_ORDER.to_owned(), self.nodes.hash.clone()),
            (names::PLACEHOLDER_JOB_UID.to_owned(), self.run.uid.clone()),
        ]);
        let waits = format!("{}/{}", job.namespace(), job.name());
        let annotations = BTreeMap::from([(names::PLACEHOLDER_JOB.to_owned(), waits)]);
        let count = i32::try_from(group.gang_size()).unwrap_or(i32::MAX);
        Job {
            metadata: ObjectMeta {
                name: Some(format!("{prefix}-{hash}-{number}")),
                namespace: Some(self.namespace.to_owned()),
                labels: Some(labels.clone()),
                annotations: Some(annotations.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(JobSpec {
                parallelism: Some(count),
                completions: Some(count),
                backoff_limit: Some(0),
                active_deadline_seconds: Some(self.deadline_seconds),
                ttl_seconds_after_finished: Some(TTL_SECONDS),
                template: PodTemplateSpec {
                    metadata: Some(ObjectMeta {
                        labels: Some(labels),
                        annotations: Some(annotations),
                        ..ObjectMeta::default()
                    }),
                    spec: Some(self.pod_spec(group)),
                },
                ..JobSpec::default()
            }),
            status: None,
        }
    }

    /// Returns the spec of a placeholder: the requests and node constraints of the group's pods, in
    /// one container that never runs.
    fn pod_spec(&self, group: &CompiledGroup) -> PodSpec {
        let placement = PodPlacement {
            tolerations: group_tolerations(&self.nodes.groups, group.name()),
            ..PodPlacement::UNPLACED
        };
        let pod = group.pod(0, &placement).spec.unwrap_or_default();
        let planned = self.nodes.groups.iter().find(|g| g.name == group.name());
        let flavors = planned.into_iter().flat_map(|g| g.flavors.values());
        let mut selector = pod.node_selector.unwrap_or_default();
        for labels in flavors.filter_map(|flavor| self.flavor_labels.get(flavor)) {
            selector.extend(labels.clone());
        }
        let admitted = self.admitted.get(group.name()).cloned();
        let admitted = admitted.unwrap_or_else(|| AdmittedPod::from_group(group));
        PodSpec {
            scheduler_name: Some(names::PLACEHOLDER_SCHEDULER.to_owned()),
            priority_class_name: Some(names::PLACEHOLDER_PRIORITY.to_owned()),
            restart_policy: Some("Never".to_owned()),
            termination_grace_period_seconds: Some(0),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            node_selector: (!selector.is_empty()).then_some(selector),
            affinity: pod.affinity,
            tolerations: pod.tolerations,
            security_context: Some(PodSecurityContext {
                run_as_non_root: Some(true),
                seccomp_profile: Some(SeccompProfile {
                    type_: "RuntimeDefault".to_owned(),
                    ..SeccompProfile::default()
                }),
                ..PodSecurityContext::default()
            }),
            containers: vec![container(&admitted.request)],
            ..PodSpec::default()
        }
    }
}

fn container(request: &Resources) -> Container {
    let amounts: BTreeMap<String, Quantity> = request
        .iter()
        .filter(|(resource, _)| resource.as_str() != "pods")
        .map(|(resource, amount)| {
            let quantity = to_quantity(resource.as_str(), i128::from(amount));
            (resource.as_str().to_owned(), Quantity(quantity.to_string()))
        })
        .collect();
    Container {
        name: "placeholder".to_owned(),
        image: Some(IMAGE.to_owned()),
        // A device must have a limit that equals its request.
        resources: Some(ResourceRequirements {
            limits: Some(amounts.clone()),
            requests: Some(amounts),
            ..ResourceRequirements::default()
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                ..Capabilities::default()
            }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trellis_api::pod_group::PlannedGroup;

    use super::*;
    use crate::fixtures::desired_run;
    use crate::journal;

    fn order_jobs(planned: Vec<PlannedGroup>) -> Vec<Job> {
        let desired = desired_run(1);
        let run = desired.attempt().unwrap();
        let since = k8s_openapi::jiff::Timestamp::UNIX_EPOCH;
        let nodes = journal::build_provisioning(run, planned, Vec::new(), (since, since));
        let h100 = BTreeMap::from([("pool".to_owned(), "h100".to_owned())]);
        let order = PlaceholderOrder {
            run,
            nodes: &nodes,
            admitted: &BTreeMap::new(),
            flavor_labels: &BTreeMap::from([("h100".to_owned(), h100)]),
            namespace: "trellis-capacity",
            deadline_seconds: 1_800,
        };
        order.jobs()
    }

    #[test]
    fn placeholder_asks_for_what_the_pods_of_its_group_ask_for() {
        let toleration = json!({"key": "gpu", "operator": "Exists"});
        let planned = PlannedGroup {
            name: "worker".to_owned(),
            flavors: BTreeMap::from([("nvidia.com/gpu".to_owned(), "h100".to_owned())]),
            tolerations: vec![serde_json::from_value(toleration).unwrap()],
        };
        let jobs = order_jobs(vec![planned]);
        let [job] = jobs.as_slice() else {
            panic!("{jobs:?}");
        };
        let spec = job.spec.as_ref().unwrap();
        assert_eq!(spec.parallelism, spec.completions);
        assert_eq!(spec.active_deadline_seconds, Some(1_800));
        let pod = spec.template.spec.as_ref().unwrap();
        assert_eq!(pod.node_selector.as_ref().unwrap()["pool"], "h100");
        let tolerations = pod.tolerations.as_ref().unwrap();
        assert!(tolerations.iter().any(|t| t.key.as_deref() == Some("gpu")));
        let resources = pod.containers[0].resources.as_ref().unwrap();
        assert_eq!(resources.limits, resources.requests);
        assert!(resources.requests.as_ref().unwrap().contains_key("cpu"));
        assert!(!resources.requests.as_ref().unwrap().contains_key("pods"));
        assert_eq!(pod.node_name, None);
    }

    #[test]
    fn name_of_a_placeholder_job_is_a_valid_label_value() {
        let jobs = order_jobs(Vec::new());
        for job in jobs {
            let name = job.metadata.name.unwrap();
            assert!(name.len() <= 63, "{name}");
        }
    }
}
