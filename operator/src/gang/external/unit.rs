//! How an external gang is called. No name of a job has an upper case letter, so that none is
//! called the same.

use trellis_api::visibility::GangName;
use trellis_api::{PodGroup, owner};

use crate::gang::key::Key;

const GROUP: &str = "PodGroup/";
const POD: &str = "Pod/";

/// What an external gang is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The pods of that PodGroup.
    Group(Key),
    /// That pod.
    Pod(Key),
}

/// True of a PodGroup that no TrainingJob has made.
#[must_use]
pub fn is_users(group: &PodGroup) -> bool {
    owner::training_job(&group.metadata).is_none()
}

/// The gang of a PodGroup that a user has written, for whoever keeps it beside the jobs; in the
/// engine it is called the same.
#[must_use]
pub fn of_group(group: &Key) -> Key {
    Key::new(&group.namespace, &format!("{GROUP}{}", group.name))
}

/// The gang of one pod.
#[must_use]
pub fn of_pod(pod: &Key) -> Key {
    Key::new(&pod.namespace, &format!("{POD}{}", pod.name))
}

/// Which external gang it is. None: a job.
#[must_use]
pub fn unit(key: &Key) -> Option<Unit> {
    let of = |name: &str| Key::new(&key.namespace, name);
    let group = key
        .name
        .strip_prefix(GROUP)
        .map(|name| Unit::Group(of(name)));
    group.or_else(|| key.name.strip_prefix(POD).map(|name| Unit::Pod(of(name))))
}

/// The PodGroup that would have its journal: of a pod alone none is.
#[must_use]
pub fn pod_group(key: &Key) -> Key {
    match unit(key) {
        Some(Unit::Group(group)) => group,
        _ => key.clone(),
    }
}

/// How the visibility API and people call a gang.
#[must_use]
pub fn gang_name(key: &Key) -> GangName {
    match unit(key) {
        None => GangName::Job(key.name.to_string()),
        Some(Unit::Group(group)) => GangName::PodGroup(group.name.to_string()),
        Some(Unit::Pod(pod)) => GangName::Pod(pod.name.to_string()),
    }
}

/// Which gang they mean.
#[must_use]
pub fn of_name(namespace: &str, name: &GangName) -> Key {
    match name {
        GangName::Job(name) => Key::new(namespace, name),
        GangName::PodGroup(name) => of_group(&Key::new(namespace, name)),
        GangName::Pod(name) => of_pod(&Key::new(namespace, name)),
    }
}

/// True of an external gang.
#[must_use]
pub fn is_external(key: &Key) -> bool {
    unit(key).is_some()
}
