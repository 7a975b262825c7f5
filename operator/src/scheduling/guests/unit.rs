//! How a guest gang is called. No name of a job has an upper case letter, so that none is called
//! the same.

use crate::key::Key;

const GROUP: &str = "PodGroup/";
const POD: &str = "Pod/";

/// What a guest gang is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The pods of that PodGroup.
    Group(Key),
    /// That pod.
    Pod(Key),
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

/// Which guest gang it is. None: a job.
#[must_use]
pub fn unit(key: &Key) -> Option<Unit> {
    let of = |name: &str| Key::new(&key.namespace, name);
    let group = key
        .name
        .strip_prefix(GROUP)
        .map(|name| Unit::Group(of(name)));
    group.or_else(|| key.name.strip_prefix(POD).map(|name| Unit::Pod(of(name))))
}

/// True of a guest gang.
#[must_use]
pub fn is_guest(key: &Key) -> bool {
    unit(key).is_some()
}
