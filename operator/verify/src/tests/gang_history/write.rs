//! One write of a history, and what the verifier sees of it.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use trellis_api::{LeaderTerm, PodGroup, TrainingJob, TrainingQueue};

use crate::{Change, ObjectName, ObjectVersion, UnreadObject, Version};

/// One write of the history.
#[derive(Clone, Debug)]
pub(in crate::tests) struct Write {
    pub(in crate::tests) second: i64,
    pub(in crate::tests) kind: Kind,
    pub(in crate::tests) is_deletion: bool,
    /// True if a list after a gap shows the write.
    pub(in crate::tests) is_listed: bool,
    /// The object after the write, or its last version.
    pub(in crate::tests) object: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tests) enum Kind {
    Job,
    Group,
    Queue,
    Pod,
    Node,
    Namespace,
    Lease,
    LeaderTerm,
    /// A TrainingJob that does not decode.
    UnreadJob,
}

impl Write {
    fn unread_job(&self) -> Version<UnreadObject> {
        let metadata = &self.object["metadata"];
        let unread = Arc::new(UnreadObject {
            kind: "trainingjobs",
            name: ObjectName {
                namespace: metadata["namespace"].as_str().unwrap().to_owned(),
                name: metadata["name"].as_str().unwrap().to_owned(),
            },
            uid: metadata["uid"].as_str().unwrap().to_owned(),
        });
        match self.is_deletion {
            true => Version::Deleted(unread),
            false => Version::Stored(unread),
        }
    }

    pub(in crate::tests) fn change(&self, revision: u64) -> Change {
        fn version<K: serde::de::DeserializeOwned>(write: &Write) -> Version<K> {
            let object = Arc::new(serde_json::from_value(write.object.clone()).unwrap());
            match write.is_deletion {
                true => Version::Deleted(object),
                false => Version::Stored(object),
            }
        }
        Change {
            time: Timestamp::from_second(self.second).unwrap(),
            revision,
            object: match self.kind {
                Kind::Job => ObjectVersion::Job(version::<TrainingJob>(self)),
                Kind::Group => ObjectVersion::Group(version::<PodGroup>(self)),
                Kind::Queue => ObjectVersion::Queue(version::<TrainingQueue>(self)),
                Kind::Pod => ObjectVersion::Pod(version::<Pod>(self)),
                Kind::Node => ObjectVersion::Node(version::<Node>(self)),
                Kind::Namespace => ObjectVersion::Namespace(version::<Namespace>(self)),
                Kind::Lease => ObjectVersion::Lease(version::<Lease>(self)),
                Kind::LeaderTerm => ObjectVersion::LeaderTerm(version::<LeaderTerm>(self)),
                Kind::UnreadJob => ObjectVersion::Unread(self.unread_job()),
            },
            is_listed: self.is_listed,
        }
    }
}
