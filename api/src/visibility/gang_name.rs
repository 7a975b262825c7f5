//! Names of gangs.

use std::fmt;

/// Name of a gang that waits in a queue or is placed: a TrainingJob, or external pods.
///
/// Users and messages write it as kubectl does, `PodGroup/sweep`. Kubernetes object names cannot
/// contain a slash, so objects of this API are named `podgroup.sweep`. A TrainingJob's name
/// contains no dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GangName {
    /// The TrainingJob of this name.
    Job(String),
    /// The pods of the PodGroup of this name, which a user has written.
    PodGroup(String),
    /// The pod of this name. It is in no gang, or joined one later.
    Pod(String),
}

const POD_GROUP_PREFIX: &str = "podgroup";
const POD_PREFIX: &str = "pod";

impl GangName {
    /// Returns `metadata.name` of the objects that describe this gang.
    #[must_use]
    pub fn object_name(&self) -> String {
        match self {
            Self::Job(name) => name.clone(),
            Self::PodGroup(name) => format!("{POD_GROUP_PREFIX}.{name}"),
            Self::Pod(name) => format!("{POD_PREFIX}.{name}"),
        }
    }

    /// Returns the gang that an object of this name describes.
    #[must_use]
    pub fn from_object_name(name: &str) -> Self {
        match name.split_once('.') {
            Some((POD_GROUP_PREFIX, name)) => Self::PodGroup(name.to_owned()),
            Some((POD_PREFIX, name)) => Self::Pod(name.to_owned()),
            _ => Self::Job(name.to_owned()),
        }
    }
}

impl fmt::Display for GangName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(name) => out.write_str(name),
            Self::PodGroup(name) => write!(out, "PodGroup/{name}"),
            Self::Pod(name) => write!(out, "Pod/{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gang_name_round_trips_through_its_object_name() {
        let all = [
            (GangName::Job("llm".to_owned()), "llm", "llm"),
            (
                GangName::PodGroup("a.b".to_owned()),
                "podgroup.a.b",
                "PodGroup/a.b",
            ),
            (GangName::Pod("w-0".to_owned()), "pod.w-0", "Pod/w-0"),
        ];
        for (name, served, text) in all {
            assert_eq!(name.object_name(), served);
            assert_eq!(GangName::from_object_name(served), name);
            assert_eq!(name.to_string(), text);
        }
        for odd in ["other.x", "", "pod"] {
            assert_eq!(
                GangName::from_object_name(odd),
                GangName::Job(odd.to_owned())
            );
        }
    }
}
