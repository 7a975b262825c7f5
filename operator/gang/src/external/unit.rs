//! Names of external gangs. They contain upper case letters, which no name of a job does, so that
//! the names never collide.

use trellis_api::visibility::GangName;
use trellis_api::{PodGroup, owner};

use crate::key::Key;

const GROUP: &str = "PodGroup/";
const POD: &str = "Pod/";

/// The pods that form an external gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// All pods of that PodGroup.
    Group(Key),
    /// One pod alone.
    Pod(Key),
}

/// True if the PodGroup was not created for a TrainingJob.
#[must_use]
pub fn is_users(group: &PodGroup) -> bool {
    owner::training_job(&group.metadata).is_none()
}

/// The gang of a PodGroup that a user created, as a key for maps that also hold jobs. The engine
/// uses the same name.
#[must_use]
pub fn of_group(group: &Key) -> Key {
    Key::new(&group.namespace, &format!("{GROUP}{}", group.name))
}

/// The gang of one pod.
#[must_use]
pub fn of_pod(pod: &Key) -> Key {
    Key::new(&pod.namespace, &format!("{POD}{}", pod.name))
}

/// The external gang that the key names. None for a job.
#[must_use]
pub fn unit(key: &Key) -> Option<Unit> {
    let of = |name: &str| Key::new(&key.namespace, name);
    let group = key
        .name
        .strip_prefix(GROUP)
        .map(|name| Unit::Group(of(name)));
    group.or_else(|| key.name.strip_prefix(POD).map(|name| Unit::Pod(of(name))))
}

/// The PodGroup that would hold the gang's journal. None exists for a pod alone.
#[must_use]
pub fn pod_group(key: &Key) -> Key {
    match unit(key) {
        Some(Unit::Group(group)) => group,
        _ => key.clone(),
    }
}

/// The gang's name in the visibility API and in messages.
#[must_use]
pub fn gang_name(key: &Key) -> GangName {
    match unit(key) {
        None => GangName::Job(key.name.to_string()),
        Some(Unit::Group(group)) => GangName::PodGroup(group.name.to_string()),
        Some(Unit::Pod(pod)) => GangName::Pod(pod.name.to_string()),
    }
}

/// The gang that such a name refers to.
#[must_use]
pub fn of_name(namespace: &str, name: &GangName) -> Key {
    match name {
        GangName::Job(name) => Key::new(namespace, name),
        GangName::PodGroup(name) => of_group(&Key::new(namespace, name)),
        GangName::Pod(name) => of_pod(&Key::new(namespace, name)),
    }
}

/// True if the gang consists of external pods.
#[must_use]
pub fn is_external(key: &Key) -> bool {
    unit(key).is_some()
}
