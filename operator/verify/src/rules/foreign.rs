//! Trellis changes only its own objects, and the status of other objects.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};

use super::Judge;
use crate::cluster::{Previous, owner_uid};
use crate::field_managers::{is_of_status, operator_entries, owns_spec};
use crate::finding::{ObjectRef, Rule};
use crate::history::{ObjectVersion, Version};
use crate::pods::PodFacts as _;
use crate::verifier::{Findings, Step};

/// Writes of the operator to fields that are not its own.
pub(crate) struct Foreign;

/// The fields of an object that the operator may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Permission {
    /// Every field: the object is its own.
    All,
    /// The status, and annotations: the object is a pod of another controller that it places.
    AllButSpec,
    Status,
    Nothing,
}

impl Permission {
    fn allows(self, entry: &ManagedFieldsEntry) -> bool {
        match self {
            Self::All => true,
            Self::AllButSpec => !owns_spec(entry),
            Self::Status => is_of_status(entry),
            Self::Nothing => false,
        }
    }
}

impl Judge for Foreign {
    fn observe(&mut self, step: &Step<'_>, findings: &mut Findings) {
        let Some((kind, now, permission)) = judge_object(step) else {
            return;
        };
        let known: Vec<&ManagedFieldsEntry> = previous_metadata(step.previous)
            .into_iter()
            .flat_map(operator_entries)
            .collect();
        // A history without the objects at its start does not show whose write an entry is.
        if step.cluster.is_partial && step.change.is_listed {
            return;
        }
        // An entry that an earlier write has made is not of this change.
        let mut new = operator_entries(now).filter(|entry| !known.contains(entry));
        if let Some(entry) = new.find(|entry| !permission.allows(entry)) {
            let manager = entry.manager.as_deref().unwrap_or_default();
            let message = format!(
                "field manager {manager} has written {}",
                permission.beyond()
            );
            let object = ObjectRef::new(kind, now);
            findings.add(step.finding(Rule::Foreign, object, message));
        }
        if let Some(message) = find_other_namespace(step) {
            let object = ObjectRef::new(kind, now);
            findings.add(step.finding(Rule::Foreign, object, message));
        }
    }
}

impl Permission {
    /// Describes the fields that the operator may not write.
    fn beyond(self) -> &'static str {
        match self {
            Self::All | Self::AllButSpec => "a field of its spec",
            Self::Status => "a field outside of its status",
            Self::Nothing => "a field, and the object is not Trellis's",
        }
    }
}

/// Returns the kind and metadata of the stored object, and what the operator may write in it.
fn judge_object<'a>(step: &Step<'a>) -> Option<(&'static str, &'a ObjectMeta, Permission)> {
    match &step.change.object {
        ObjectVersion::Job(Version::Stored(job)) => {
            Some(("TrainingJob", &job.metadata, Permission::Status))
        }
        ObjectVersion::Queue(Version::Stored(queue)) => {
            Some(("TrainingQueue", &queue.metadata, Permission::Status))
        }
        ObjectVersion::Group(Version::Stored(group)) => {
            let permission = match owner_uid(group) {
                Some(_) => Permission::All,
                None => Permission::Status,
            };
            Some(("PodGroup", &group.metadata, permission))
        }
        ObjectVersion::Pod(Version::Stored(pod)) => {
            Some(("Pod", &pod.metadata, pod_permission(pod)))
        }
        ObjectVersion::Node(Version::Stored(node)) => {
            Some(("Node", &node.metadata, Permission::Nothing))
        }
        ObjectVersion::Namespace(Version::Stored(namespace)) => {
            Some(("Namespace", &namespace.metadata, Permission::Nothing))
        }
        _ => None,
    }
}

fn pod_permission(pod: &Pod) -> Permission {
    if pod.job_uid().is_some() {
        Permission::All
    } else if pod.placed_in().is_some() || pod.wants_trellis() {
        Permission::AllButSpec
    } else if pod.is_placeholder() {
        Permission::Status
    } else {
        Permission::Nothing
    }
}

fn previous_metadata(previous: &Previous) -> Option<&ObjectMeta> {
    match previous {
        Previous::Job(before) => before.as_deref().map(|job| &job.metadata),
        Previous::Group(before) => before.as_deref().map(|group| &group.metadata),
        Previous::Queue(before) => before.as_deref().map(|queue| &queue.metadata),
        Previous::Pod(before) => before.as_deref().map(|pod| &pod.metadata),
        Previous::Node(before) => before.as_deref().map(|node| &node.metadata),
        Previous::Namespace(before) => before.as_deref().map(|namespace| &namespace.metadata),
        Previous::Term | Previous::Unread => None,
    }
}

/// Describes a new pod or PodGroup of a job in another namespace.
fn find_other_namespace(step: &Step<'_>) -> Option<String> {
    let (metadata, uid) = match (&step.change.object, step.previous) {
        (ObjectVersion::Pod(Version::Stored(pod)), Previous::Pod(None)) => {
            (&pod.metadata, pod.job_uid()?)
        }
        (ObjectVersion::Group(Version::Stored(group)), Previous::Group(None)) => {
            (&group.metadata, owner_uid(group)?)
        }
        _ => return None,
    };
    // A user may copy the labels of another pod.
    operator_entries(metadata).next()?;
    let job = step.cluster.job_name(&uid)?;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    (job.namespace != namespace).then(|| format!("its job {job} is in another namespace"))
}
