//! Names of external gangs. They contain upper case letters, unlike the names of jobs, so the names
//! never collide.

use trellis_api::visibility::{GangName, JobRef};
use trellis_api::{PodGroup, owner};

use crate::key::Key;

const POD_GROUP_PREFIX: &str = "PodGroup/";
const POD_PREFIX: &str = "Pod/";

/// The pods that form an external gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternalGangRef {
    /// All pods of that PodGroup.
    Group(Key),
    /// One pod alone.
    Pod(Key),
}

/// Returns true if the PodGroup was not created for a TrainingJob.
#[must_use]
pub fn is_user_created(group: &PodGroup) -> bool {
    owner::controlling_job(&group.metadata).is_none()
}

/// Returns the gang of a PodGroup that a user created, as a key for maps that also hold jobs. The
/// engine uses the same name.
#[must_use]
pub fn pod_group_gang_key(group: &Key) -> Key {
    Key::new(
        &group.namespace,
        &format!("{POD_GROUP_PREFIX}{}", group.name),
    )
}

/// Returns the gang of one pod.
#[must_use]
pub fn pod_gang_key(pod: &Key) -> Key {
    Key::new(&pod.namespace, &format!("{POD_PREFIX}{}", pod.name))
}

/// Returns the external gang that the key names. None for a job.
#[must_use]
pub fn parse_gang_key(key: &Key) -> Option<ExternalGangRef> {
    let to_key = |name: &str| Key::new(&key.namespace, name);
    let group = key
        .name
        .strip_prefix(POD_GROUP_PREFIX)
        .map(|name| ExternalGangRef::Group(to_key(name)));
    group.or_else(|| {
        key.name
            .strip_prefix(POD_PREFIX)
            .map(|name| ExternalGangRef::Pod(to_key(name)))
    })
}

/// Returns the PodGroup that would hold the gang's journal. None exists for a pod alone.
#[must_use]
pub fn journal_pod_group(key: &Key) -> Key {
    match parse_gang_key(key) {
        Some(ExternalGangRef::Group(group)) => group,
        _ => key.clone(),
    }
}

/// Returns the gang's name in the visibility API and in messages.
#[must_use]
pub fn gang_name(key: &Key) -> GangName {
    match parse_gang_key(key) {
        None => GangName::Job(key.name.to_string()),
        Some(ExternalGangRef::Group(group)) => GangName::PodGroup(group.name.to_string()),
        Some(ExternalGangRef::Pod(pod)) => GangName::Pod(pod.name.to_string()),
    }
}

/// Returns the reference to the gang in the visibility API.
#[must_use]
pub fn job_ref(key: &Key) -> JobRef {
    JobRef {
        namespace: key.namespace.to_string(),
        name: gang_name(key).object_name(),
    }
}

/// Returns the gang with this name.
#[must_use]
pub fn gang_key_from_name(namespace: &str, name: &GangName) -> Key {
    match name {
        GangName::Job(name) => Key::new(namespace, name),
        GangName::PodGroup(name) => pod_group_gang_key(&Key::new(namespace, name)),
        GangName::Pod(name) => pod_gang_key(&Key::new(namespace, name)),
    }
}

/// Returns true if the gang consists of external pods.
#[must_use]
pub fn is_external(key: &Key) -> bool {
    parse_gang_key(key).is_some()
}

#[cfg(test)]
mod tests {
    use trellis_scheduler::GangId;

    use super::*;
    use crate::engine;

    #[test]
    fn external_gang_key_never_equals_a_job_key() {
        let group = Key::new("ns", "g");
        let gang = pod_group_gang_key(&group);
        assert_eq!(engine::gang_id(&gang), GangId::new("ns/PodGroup/g"));
        assert_eq!(
            engine::parse_gang_id(&engine::gang_id(&gang)),
            (gang.clone(), None)
        );
        assert_eq!(
            parse_gang_key(&gang),
            Some(ExternalGangRef::Group(group.clone()))
        );
        assert_eq!(
            parse_gang_key(&pod_gang_key(&group)),
            Some(ExternalGangRef::Pod(group))
        );
        // This is a surplus pod of the job "pod".
        assert!(!is_external(&Key::new("ns", "pod/worker-1")));
    }
}
