//! How what waits in a queue is called.

use std::fmt;

/// What waits in a queue or holds a place: a TrainingJob, or a gang of pods that others have made.
///
/// People read and write it as kubectl does, `PodGroup/sweep`, and so do messages. No object of
/// Kubernetes can be called that, so that the objects of this API are called `podgroup.sweep`;
/// a TrainingJob's name has no dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GangName {
    /// The TrainingJob of that name.
    Job(String),
    /// The pods of the PodGroup of that name, which a user has written.
    PodGroup(String),
    /// The pod of that name, which is in no gang or joined one later.
    Pod(String),
}

const POD_GROUP_PREFIX: &str = "podgroup";
const POD_PREFIX: &str = "pod";

impl GangName {
    /// `metadata.name` of the objects that are about it.
    #[must_use]
    pub fn object_name(&self) -> String {
        match self {
            Self::Job(name) => name.clone(),
            Self::PodGroup(name) => format!("{POD_GROUP_PREFIX}.{name}"),
            Self::Pod(name) => format!("{POD_PREFIX}.{name}"),
        }
    }

    /// What an object of that name is about.
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
        for (name, served, shown) in all {
            assert_eq!(name.object_name(), served);
            assert_eq!(GangName::from_object_name(served), name);
            assert_eq!(name.to_string(), shown);
        }
        for odd in ["other.x", "", "pod"] {
            assert_eq!(
                GangName::from_object_name(odd),
                GangName::Job(odd.to_owned())
            );
        }
    }
}
