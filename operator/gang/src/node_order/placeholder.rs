//! Placeholders: pods that no scheduler places. Autoscalers add nodes for them as for any pending
//! pod.
//!
//! The pods of one task group come from one `batch/v1` Job in a namespace of their own. So they
//! cost one write, Cluster Autoscaler counts them as pods of one controller, and
//! `activeDeadlineSeconds` ends the order even if no operator is left.

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};
use kube::api::ObjectMeta;
use trellis_api::names;
use trellis_compiler::CompiledGroup;

use super::{OrderObjectBuilder, has_placeholders};

/// Time after which an ended placeholder Job is deleted.
const TTL_SECONDS: i32 = 60;

impl OrderObjectBuilder<'_> {
    /// Returns the placeholder Jobs of the task groups that no ProvisioningRequest contains.
    /// kube-controller-manager ends them after `deadline` seconds.
    #[must_use]
    pub fn placeholder_jobs(&self, namespace: &str, deadline: i64) -> Vec<Job> {
        if !has_placeholders(self.nodes, self.flavors) {
            return Vec::new();
        }
        self.groups()
            .filter(|(_, group)| self.request_flavor(group).is_none())
            .map(|(number, group)| {
                self.placeholder_job(self.metadata(namespace, number), group, deadline)
            })
            .collect()
    }

    fn placeholder_job(&self, metadata: ObjectMeta, group: &CompiledGroup, deadline: i64) -> Job {
        let count = i32::try_from(group.gang_size()).unwrap_or(i32::MAX);
        let template = PodTemplateSpec {
            metadata: Some(ObjectMeta {
                labels: metadata.labels.clone(),
                annotations: metadata.annotations.clone(),
                ..ObjectMeta::default()
            }),
            spec: Some(PodSpec {
                scheduler_name: Some(names::PLACEHOLDER_SCHEDULER.to_owned()),
                priority_class_name: Some(names::PLACEHOLDER_PRIORITY.to_owned()),
                ..self.pod_spec(group)
            }),
        };
        Job {
            metadata,
            spec: Some(JobSpec {
                parallelism: Some(count),
                completions: Some(count),
                backoff_limit: Some(0),
                active_deadline_seconds: Some(deadline),
                ttl_seconds_after_finished: Some(TTL_SECONDS),
                template,
                ..JobSpec::default()
            }),
            status: None,
        }
    }
}
