//! The kinds that the rules read.

use std::fmt::Debug;
use std::sync::Arc;

use futures::stream::BoxStream;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::core::DeserializeGuard;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use trellis_api::{LEADER_TERM_NAME, LeaderTerm, PodGroup, TrainingJob, TrainingQueue};

use crate::cluster_watch::kind_watch::{self, WatchEvent};
use crate::history::{ObjectVersion, Version};
use crate::known_objects::{KnownObjects, KnownObjectsOfAnyKind};
use crate::slim::Slim;

/// Name of the operator's Lease.
pub(crate) const LEASE_NAME: &str = "trellis-operator";

/// A kind that the rules read.
pub(crate) trait JudgedKind:
    Resource<DynamicType = ()> + Slim + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
    /// The kind in the plural, as in a request.
    const PLURAL: &'static str;
    /// Name of the only object that the rules read. None: they read all.
    const ONLY: Option<&'static str> = None;

    /// Returns the version as one of any kind.
    fn wrap(version: Version<Self>) -> ObjectVersion;

    /// Returns the API of the objects that the rules read.
    fn api(client: &Client, _operator_namespace: &str) -> Api<DeserializeGuard<Self>> {
        Api::all(client.clone())
    }
}

impl JudgedKind for TrainingJob {
    const PLURAL: &'static str = "trainingjobs";

    fn wrap(version: Version<Self>) -> ObjectVersion {
        ObjectVersion::Job(version)
    }
}

impl JudgedKind for PodGroup {
    const PLURAL: &'static str = "podgroups";

    fn wrap(version: Version<Self>) -> ObjectVersion {
        ObjectVersion::Group(version)
    }
}

impl JudgedKind for TrainingQueue {
    const PLURAL: &'static str = "trainingqueues";

    fn wrap(version: Version<Self>) -> ObjectVersion {
        ObjectVersion::Queue(version)
    }
}

impl JudgedKind for Pod {
    const PLURAL: &'static str = "pods";

    fn wrap(version: Version<Self>) -> ObjectVersion {
        ObjectVersion::Pod(version)
    }
}

impl JudgedKind for Node {
    const PLURAL: &'static str = "nodes";

    fn wrap(version: Version<Self>) -> ObjectVersion {
        ObjectVersion::Node(version)
    }
}

impl JudgedKind for Namespace {
    const PLURAL: &'static str = "namespaces";

    fn wrap(version: Version<Self>) -> ObjectVersion {
        ObjectVersion::Namespace(version)
    }
}

impl JudgedKind for Lease {
    const PLURAL: &'static str = "leases";
    const ONLY: Option<&'static str> = Some(LEASE_NAME);

    fn wrap(version: Version<Self>) -> ObjectVersion {
        ObjectVersion::Lease(version)
    }

    fn api(client: &Client, operator_namespace: &str) -> Api<DeserializeGuard<Self>> {
        Api::namespaced(client.clone(), operator_namespace)
    }
}

impl JudgedKind for LeaderTerm {
    const PLURAL: &'static str = "leaderterms";
    const ONLY: Option<&'static str> = Some(LEADER_TERM_NAME);

    fn wrap(version: Version<Self>) -> ObjectVersion {
        ObjectVersion::LeaderTerm(version)
    }

    fn api(client: &Client, operator_namespace: &str) -> Api<DeserializeGuard<Self>> {
        Api::namespaced(client.clone(), operator_namespace)
    }
}

/// All kinds that the rules read.
pub(crate) const JUDGED_KINDS: [KindRow; 8] = [
    row::<TrainingJob>(),
    row::<PodGroup>(),
    row::<TrainingQueue>(),
    row::<Pod>(),
    row::<Node>(),
    row::<Namespace>(),
    row::<Lease>(),
    row::<LeaderTerm>(),
];

/// The kinds that [`ClusterWatch`](crate::ClusterWatch) gets, lists and watches, in the plural.
#[expect(
    clippy::indexing_slicing,
    reason = "the compiler evaluates the constant"
)]
pub const WATCHED_KINDS: [&str; JUDGED_KINDS.len()] = {
    let mut names = [""; JUDGED_KINDS.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = JUDGED_KINDS[index].plural;
        index += 1;
    }
    names
};

/// The operations on one kind that the sources of a history need.
pub(crate) struct KindRow {
    pub(crate) plural: &'static str,
    pub(crate) only: Option<&'static str>,
    /// Returns the API group.
    pub(crate) group: fn() -> String,
    /// Starts a watch.
    pub(crate) watch: fn(&Client, &str) -> BoxStream<'static, WatchEvent>,
    pub(crate) known_objects: fn() -> Box<dyn KnownObjectsOfAnyKind>,
    decode: fn(&Value, bool) -> serde_json::Result<ObjectVersion>,
}

const fn row<K: JudgedKind>() -> KindRow {
    KindRow {
        plural: K::PLURAL,
        only: K::ONLY,
        group: || K::group(&()).into_owned(),
        watch: kind_watch::watch::<K>,
        known_objects: || Box::new(KnownObjects::<K>::new()),
        decode: decode::<K>,
    }
}

fn decode<K: JudgedKind>(object: &Value, is_deleted: bool) -> serde_json::Result<ObjectVersion> {
    let object = Arc::new(K::deserialize(object)?);
    Ok(K::wrap(match is_deleted {
        true => Version::Deleted(object),
        false => Version::Stored(object),
    }))
}

impl ObjectVersion {
    /// Decodes an object after a write, or in its last version if the write has deleted it. `plural`
    /// names the kind as in a request. None: the rules do not read the kind.
    ///
    /// # Errors
    /// If the object is none of this kind.
    pub fn decode(
        plural: &str,
        object: &Value,
        is_deleted: bool,
    ) -> Option<serde_json::Result<Self>> {
        let kind = JUDGED_KINDS.iter().find(|kind| kind.plural == plural)?;
        Some((kind.decode)(object, is_deleted))
    }
}
