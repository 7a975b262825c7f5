//! One change of one object.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use trellis_api::{LeaderTerm, PodGroup, TrainingJob, TrainingQueue};

/// Namespace and name of an object. The namespace of a cluster-wide object is empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectName {
    /// Reads namespace and name from the metadata of an object.
    #[must_use]
    pub fn from_metadata(metadata: &ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }

    /// Names an object without a namespace.
    #[must_use]
    pub fn cluster_wide(name: &str) -> Self {
        Self {
            namespace: String::new(),
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            formatter.write_str(&self.name)
        } else {
            write!(formatter, "{}/{}", self.namespace, self.name)
        }
    }
}

/// The object after a change.
#[derive(Clone, Debug)]
pub enum Version<K> {
    /// The object was created or changed.
    Stored(Arc<K>),
    /// The object was deleted. This is its last version.
    Deleted(Arc<K>),
}

impl<K> Version<K> {
    /// Returns the object, in its last version if it was deleted.
    #[must_use]
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Stored(object) | Self::Deleted(object) => object,
        }
    }

    /// Returns the object, if it was not deleted.
    #[must_use]
    pub fn stored(&self) -> Option<&Arc<K>> {
        match self {
            Self::Stored(object) => Some(object),
            Self::Deleted(_) => None,
        }
    }
}

/// An object of a kind that the rules read.
#[derive(Clone, Debug)]
pub enum ObjectVersion {
    /// A TrainingJob.
    Job(Version<TrainingJob>),
    /// A PodGroup.
    Group(Version<PodGroup>),
    /// A TrainingQueue.
    Queue(Version<TrainingQueue>),
    /// A pod of any owner.
    Pod(Version<Pod>),
    /// A node.
    Node(Version<Node>),
    /// A namespace.
    Namespace(Version<Namespace>),
    /// The Lease of the operator. No other Lease may be passed.
    Lease(Version<Lease>),
    /// The LeaderTerm of the operator. No other LeaderTerm may be passed.
    LeaderTerm(Version<LeaderTerm>),
    /// An object that does not decode. The rules judge the rest of the cluster.
    Unread(Version<UnreadObject>),
}

/// An object that does not decode, such as one that a later version of Trellis wrote.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnreadObject {
    /// The kind, in the plural, as in a request.
    pub kind: &'static str,
    /// Namespace and name.
    pub name: ObjectName,
    /// The uid.
    pub uid: String,
}

impl fmt::Display for UnreadObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.kind, self.name)
    }
}

/// One write that the API server accepted.
#[derive(Clone, Debug)]
pub struct Change {
    /// When the source saw it.
    pub time: Timestamp,
    /// The revision of the store after the write: the `resourceVersion` of the object, also of a
    /// deleted one.
    pub revision: u64,
    /// The object after the write.
    pub object: ObjectVersion,
    /// True if a list after a gap shows the change. Earlier changes of the object are then unknown,
    /// and so is the order among the changes of other objects.
    pub is_listed: bool,
}
