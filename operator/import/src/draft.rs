//! Builds a TrainingJob. Some fields that other systems have in pods belong to the job in Trellis.

mod slices;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use trellis_api::PodTemplate;
use trellis_api::job::{
    Checkpoint, Cleanup, Deadlines, Framework, PodMetadata, Restart, RestartScope, SecurityContext,
    Success, SuccessPolicy, TrainingJob, TrainingJobSpec,
};
use trellis_api::topology::Closeness;

use crate::field_log::FieldLog;
use crate::imported_object::ImportedObject;
use crate::job_value::{first_value, job_value};
use crate::kai;
use crate::pod::{GroupDraft, ValueWithPath};

/// Default grace period in seconds, in Kubernetes and in Trellis (docs/checkpoints.md).
const DEFAULT_GRACE: i64 = 30;

/// A job, and its groups as they were read.
pub(crate) struct JobDraft {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: TrainingJobSpec,
    pub(crate) pods: Vec<GroupDraft>,
    /// The scheduling shard of KAI, whose nodes have a label with its name.
    pub(crate) node_pool: Option<String>,
    /// The maximum runtime and its path in the document.
    active_deadline: Option<ValueWithPath<i64>>,
}

impl JobDraft {
    pub(crate) fn new(metadata: ObjectMeta, framework: Framework) -> Self {
        Self {
            metadata,
            spec: TrainingJobSpec {
                framework: Some(framework).filter(|f| *f != Framework::None),
                queue_name: None,
                priority_class_name: None,
                preemptibility: None,
                min_runtime_seconds: None,
                suspend: None,
                managed_by: None,
                profile: None,
                task_groups: Vec::new(),
                placement: None,
                topology: None,
                restart: None,
                deadlines: None,
                checkpoint: None,
                success: None,
                cleanup: None,
                ttl_seconds_after_finished: None,
                secrets: Vec::new(),
                service_account_name: None,
                security_context: None,
                network: None,
                pod_metadata: None,
            },
            pods: Vec::new(),
            node_pool: None,
            active_deadline: None,
        }
    }

    /// Returns the restart settings, and creates them if the object has none.
    pub(crate) fn restart_mut(&mut self) -> &mut Restart {
        self.spec.restart.get_or_insert_default()
    }

    pub(crate) fn deadlines_mut(&mut self) -> &mut Deadlines {
        self.spec.deadlines.get_or_insert_default()
    }

    /// Sets the maximum runtime. If two fields set it, the shorter time counts and the other is
    /// noted.
    pub(crate) fn set_active_deadline(&mut self, deadline: ValueWithPath<i64>, log: &FieldLog) {
        let (shorter, longer) = match self.active_deadline.take() {
            Some(other) if other.value <= deadline.value => (other, Some(deadline)),
            other => (deadline, other),
        };
        if let Some(longer) = longer.filter(|longer| longer.value != shorter.value) {
            let ValueWithPath { value, path } = &shorter;
            let reason =
                format!("is longer than {path} allows, and a TrainingJob has one deadline");
            let instead = format!("{value} seconds are used, the shorter time");
            log.note(&longer.path, Some(&json!(longer.value)), reason, instead);
        }
        self.deadlines_mut().active_seconds = Some(shorter.value);
        self.active_deadline = Some(shorter);
    }

    pub(crate) fn cleanup_mut(&mut self) -> &mut Cleanup {
        self.spec.cleanup.get_or_insert_default()
    }

    /// Sets the time after the end at which the job is deleted, in seconds.
    pub(crate) fn set_ttl(&mut self, seconds: Option<i64>) {
        self.spec.ttl_seconds_after_finished = seconds;
    }

    pub(crate) fn set_success(&mut self, policy: SuccessPolicy) {
        let policy = Some(policy);
        self.spec.success = Some(Success { policy });
    }

    /// Builds the job, with a note on each field on which its groups disagree.
    pub(crate) fn finish(mut self, log: &FieldLog) -> Vec<ImportedObject> {
        if log.has_problems() {
            return Vec::new();
        }
        self.merge_account_and_class(log);
        kai::protect_class_of_pods(&mut self, log);
        self.merge_queue(log);
        self.select_node_pool();
        self.merge_ids();
        self.merge_grace(log);
        self.merge_pod_metadata();
        self.share_flavors(log);
        self.drop_redundant_slices(log);
        self.raise_to_whole_slices(log);
        self.keep_one_world();
        for (at, pods) in self.pods.iter().enumerate() {
            for (field, path) in &pods.origins {
                log.set_origin(format!("spec.taskGroups[{at}].{field}"), path);
            }
        }
        self.spec.task_groups = self.pods.into_iter().map(|pods| pods.group).collect();
        let mut job = TrainingJob::new("", self.spec);
        job.metadata = self.metadata;
        vec![ImportedObject::TrainingJob(job)]
    }

    /// Keeps the pods of an elastic PyTorch group with slices in one torchrun world, as in the imported
    /// job: by default, each slice would be a world of its own.
    fn keep_one_world(&mut self) {
        let is_split = |pods: &GroupDraft| pods.group.is_elastic() && pods.group.has_slices();
        if self.spec.framework == Some(Framework::PyTorch) && self.pods.iter().any(is_split) {
            let restart = self.spec.restart.get_or_insert_default();
            restart.scope.get_or_insert(RestartScope::Gang);
        }
    }

    /// Sets `sameFlavorAs` of task groups with the same `podset-group-name`. Kueue also places such pod
    /// sets in one domain. So if all task groups of the job have the same name there, the job gets
    /// their topology request. Notes say what is lost otherwise.
    fn share_flavors(&mut self, log: &FieldLog) {
        let mut first: BTreeMap<String, (String, usize)> = BTreeMap::new();
        for pods in &mut self.pods {
            let Some(group) = pods
                .pod_set_group
                .as_ref()
                .filter(|_| pods.group.is_in_gang())
            else {
                continue;
            };
            let entry = first.entry(group.value.clone());
            let (name, count) = entry.or_insert_with(|| (pods.group.name.clone(), 0));
            *count = count.saturating_add(1);
            pods.group.same_flavor_as = Some(name.clone()).filter(|name| *name != pods.group.name);
        }
        let whole_job = first.len() == 1 && self.pods.iter().all(|p| p.pod_set_group.is_some());
        for pods in &self.pods {
            let Some(group) = &pods.pod_set_group else {
                continue;
            };
            let note = |reason: &str, instead: &str| {
                log.note(&group.path, Some(&json!(group.value)), reason, instead);
            };
            if first.get(&group.value).is_none_or(|(_, count)| *count < 2) {
                note(
                    "is on no other pod set of the gang, so this task group shares its flavor with none",
                    "set sameFlavorAs to another task group, if both need the same flavor",
                );
            } else if pods.group.topology.is_some() && !whole_job {
                note(
                    "also means one domain for these pod sets, and some pod sets of the job lack it",
                    "each task group gets a domain; set spec.topology if all of them may share one",
                );
            }
        }
        let topology = self
            .pods
            .first()
            .and_then(|pods| pods.group.topology.as_ref());
        if let Some(topology) = topology.filter(|_| whole_job && self.pods.len() > 1) {
            let levels = Closeness {
                required: topology.required.clone(),
                preferred: topology.preferred.clone(),
                ..Closeness::default()
            };
            self.spec.topology = Some(levels).filter(|levels| *levels != Closeness::default());
        }
    }

    fn merge_account_and_class(&mut self, log: &FieldLog) {
        let accounts = self.pods.iter().map(|pods| pods.service_account.clone());
        let accounts: Vec<_> = accounts.collect();
        self.spec.service_account_name = first_value(
            accounts,
            log,
            "is set for one task group, and a TrainingJob has one ServiceAccount",
            "give it the rights of the other groups too, or write a separate job",
        );
        let classes = self.pods.iter().map(|pods| pods.priority_class.clone());
        self.spec.priority_class_name = job_value(
            self.spec.priority_class_name.take(),
            classes,
            log,
            [
                "differs from the job's priority class, and a gang has one priority",
                "is set for one task group, and a gang has one priority",
            ],
            "set spec.priorityClassName to the class that you want",
        );
    }

    fn merge_queue(&mut self, log: &FieldLog) {
        if self.spec.queue_name.is_none() {
            let mut with_queue = self.pods.iter().filter(|pods| pods.queue.is_some());
            let missing = with_queue.next().filter(|pods| pods.has_missing_queue);
            if let Some(queue) = missing.and_then(|pods| pods.queue.as_ref()) {
                kai::note_missing_queue(queue, log);
            }
        }
        let queues = self.pods.iter().map(|pods| pods.queue.clone());
        self.spec.queue_name = job_value(
            self.spec.queue_name.take(),
            queues,
            log,
            [
                "differs from the job's queue, and a gang is in one queue",
                "is set for one task group, and a gang is in one queue",
            ],
            "set spec.queueName to the queue that you want",
        );
    }

    /// Keeps the pods on the nodes of their shard.
    fn select_node_pool(&mut self) {
        for pods in &mut self.pods {
            if let Some(pool) = pods.node_pool.take().or_else(|| self.node_pool.clone()) {
                let selector = &mut pods.group.node_selector;
                selector.entry(kai::NODE_POOL.to_owned()).or_insert(pool);
            }
        }
    }

    /// Sets user and group ids for the job if all groups agree, else for each group.
    fn merge_ids(&mut self) {
        let agreed = |field: fn(&GroupDraft) -> Option<i64>| -> Option<i64> {
            let mut values = self.pods.iter().map(field);
            let first = values.next().flatten()?;
            values.all(|value| value == Some(first)).then_some(first)
        };
        let run_as_user = agreed(|pods| {
            pods.run_as_user
                .as_ref()
                .map(|user_or_group| user_or_group.value)
        });
        let fs_group = agreed(|pods| {
            pods.fs_group
                .as_ref()
                .map(|user_or_group| user_or_group.value)
        });
        if run_as_user.is_some() || fs_group.is_some() {
            self.spec.security_context = Some(SecurityContext {
                run_as_user,
                fs_group,
            });
        }
        for pods in &mut self.pods {
            let user = pods.run_as_user.take().filter(|_| run_as_user.is_none());
            let group = pods.fs_group.take().filter(|_| fs_group.is_none());
            for (key, user_or_group) in [("runAsUser", user), ("fsGroup", group)] {
                if let Some(user_or_group) = user_or_group {
                    put_in_template(
                        pods,
                        &["spec", "securityContext", key],
                        json!(user_or_group.value),
                    );
                }
            }
        }
    }

    /// Sets the longest grace period of the groups for the job. A group without one has the
    /// default.
    fn merge_grace(&mut self, log: &FieldLog) {
        let grace_of = |pods: &GroupDraft| {
            pods.grace
                .as_ref()
                .map_or(DEFAULT_GRACE, |grace| grace.value)
        };
        let Some(longest) = self.pods.iter().map(grace_of).max() else {
            return;
        };
        let graces = self.pods.iter().filter_map(|group| group.grace.as_ref());
        for grace in graces.filter(|grace| grace.value != longest) {
            let reason = "is less than another group's, and a gang stops together";
            let replacement = format!("all groups get {longest} seconds");
            log.note(&grace.path, Some(&json!(grace.value)), reason, replacement);
        }
        if longest == DEFAULT_GRACE {
            return;
        }
        let checkpoint = self.spec.checkpoint.get_or_insert_with(Checkpoint::default);
        checkpoint.grace_period_seconds = Some(longest);
    }

    /// Sets labels and annotations for the job if all groups agree, else for each group.
    fn merge_pod_metadata(&mut self) {
        let mut all = self
            .pods
            .iter()
            .map(|pods| (&pods.labels, &pods.annotations));
        let Some(first) = all.next() else { return };
        if all.all(|other| other == first) {
            let (labels, annotations) = (first.0.clone(), first.1.clone());
            if !labels.is_empty() || !annotations.is_empty() {
                self.spec.pod_metadata = Some(PodMetadata {
                    labels,
                    annotations,
                });
            }
            return;
        }
        for pods in &mut self.pods {
            let labels = std::mem::take(&mut pods.labels);
            let annotations = std::mem::take(&mut pods.annotations);
            for (key, map) in [("labels", labels), ("annotations", annotations)] {
                if !map.is_empty() {
                    put_in_template(pods, &["metadata", key], json!(map));
                }
            }
        }
    }
}

/// Sets a value in the pod template of a group.
fn put_in_template(pods: &mut GroupDraft, path: &[&str], value: Value) {
    let template = pods.group.pod_template.as_ref();
    let mut template = template.map(|t| json!(t)).unwrap_or_else(|| json!({}));
    let mut place = &mut template;
    for key in path {
        let Some(map) = place.as_object_mut() else {
            return;
        };
        place = map.entry(*key).or_insert_with(|| json!({}));
    }
    *place = value;
    pods.group.pod_template = serde_json::from_value::<PodTemplate>(template).ok();
}
