//! The objects of the cluster after the last change.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use trellis_api::owner::controlling_job;
use trellis_api::{LeaderTerm, PodGroup, TrainingJob, TrainingQueue};

use crate::history::{Change, ObjectName, ObjectVersion, UnreadObject, Version};
use crate::judged_kinds::JudgedKind as _;
use crate::pods::PodFacts as _;
use crate::terms::Terms;

/// The uid of a TrainingJob.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JobUid(pub(crate) String);

impl fmt::Display for JobUid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

type Objects<K> = BTreeMap<ObjectName, Arc<K>>;

/// The objects of the cluster after the last change, with indexes of the pods.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    pub(crate) jobs: Objects<TrainingJob>,
    pub(crate) groups: Objects<PodGroup>,
    pub(crate) queues: Objects<TrainingQueue>,
    pub(crate) nodes: Objects<Node>,
    pub(crate) terms: Terms,
    namespaces: Objects<Namespace>,
    job_names: BTreeMap<JobUid, ObjectName>,
    pods: Objects<Pod>,
    pods_by_job: BTreeMap<JobUid, BTreeSet<ObjectName>>,
    pods_by_node: BTreeMap<String, BTreeSet<ObjectName>>,
    placeholders_by_job: BTreeMap<JobUid, BTreeSet<ObjectName>>,
    /// True if the history does not have the objects that existed at its start.
    pub(crate) is_partial: bool,
    /// Objects that do not decode, by kind and name.
    unread: BTreeMap<(&'static str, ObjectName), UnreadObject>,
}

/// The object before a change.
#[derive(Debug)]
pub(crate) enum Previous {
    Job(Option<Arc<TrainingJob>>),
    Group(Option<Arc<PodGroup>>),
    Queue(Option<Arc<TrainingQueue>>),
    Pod(Option<Arc<Pod>>),
    Node(Option<Arc<Node>>),
    Namespace(Option<Arc<Namespace>>),
    /// The cluster keeps only the last term.
    Term,
    Unread,
}

impl Cluster {
    /// Applies a change. Returns the object before it.
    pub(crate) fn apply(&mut self, change: &Change) -> Previous {
        if !self.unread.is_empty() {
            self.forget_unread(&change.object);
        }
        match &change.object {
            ObjectVersion::Job(version) => {
                let name = ObjectName::from_metadata(&version.object().metadata);
                let before = replace(&mut self.jobs, name.clone(), version);
                self.forget_job_name(before.as_deref());
                let now = version.stored();
                if let Some(uid) = now.and_then(|job| job.metadata.uid.clone()) {
                    self.job_names.insert(JobUid(uid), name);
                }
                Previous::Job(before)
            }
            ObjectVersion::Group(version) => {
                let name = ObjectName::from_metadata(&version.object().metadata);
                Previous::Group(replace(&mut self.groups, name, version))
            }
            ObjectVersion::Queue(version) => {
                let name = ObjectName::from_metadata(&version.object().metadata);
                Previous::Queue(replace(&mut self.queues, name, version))
            }
            ObjectVersion::Node(version) => {
                let name = ObjectName::from_metadata(&version.object().metadata);
                Previous::Node(replace(&mut self.nodes, name, version))
            }
            ObjectVersion::Namespace(version) => {
                let name = ObjectName::from_metadata(&version.object().metadata);
                Previous::Namespace(replace(&mut self.namespaces, name, version))
            }
            ObjectVersion::Lease(version) => {
                let lease = version.stored().map(Arc::as_ref);
                self.terms.observe_lease(lease, change.revision);
                Previous::Term
            }
            ObjectVersion::LeaderTerm(version) => {
                self.terms.observe_term(version.stored().map(Arc::as_ref));
                Previous::Term
            }
            ObjectVersion::Pod(version) => Previous::Pod(self.apply_pod(version)),
            ObjectVersion::Unread(version) => {
                match version {
                    Version::Stored(object) => self.hide(object),
                    Version::Deleted(object) => {
                        self.unread.remove(&(object.kind, object.name.clone()));
                    }
                }
                Previous::Unread
            }
        }
    }

    fn forget_job_name(&mut self, job: Option<&TrainingJob>) {
        if let Some(uid) = job.and_then(|job| job.metadata.uid.clone()) {
            self.job_names.remove(&JobUid(uid));
        }
    }

    /// Removes the earlier version of an object that does not decode any more: no rule judges by
    /// it. Pods and nodes keep their earlier version, which still takes room.
    fn hide(&mut self, object: &UnreadObject) {
        match object.kind {
            TrainingJob::PLURAL => {
                let before = self.jobs.remove(&object.name);
                self.forget_job_name(before.as_deref());
            }
            PodGroup::PLURAL => drop(self.groups.remove(&object.name)),
            TrainingQueue::PLURAL => drop(self.queues.remove(&object.name)),
            _ => {}
        }
        let key = (object.kind, object.name.clone());
        self.unread.insert(key, object.clone());
    }

    /// Forgets that an object did not decode, because it decodes now or is gone.
    fn forget_unread(&mut self, object: &ObjectVersion) {
        let (kind, metadata) = match object {
            ObjectVersion::Job(version) => (TrainingJob::PLURAL, &version.object().metadata),
            ObjectVersion::Group(version) => (PodGroup::PLURAL, &version.object().metadata),
            ObjectVersion::Queue(version) => (TrainingQueue::PLURAL, &version.object().metadata),
            ObjectVersion::Pod(version) => (Pod::PLURAL, &version.object().metadata),
            ObjectVersion::Node(version) => (Node::PLURAL, &version.object().metadata),
            ObjectVersion::Namespace(version) => (Namespace::PLURAL, &version.object().metadata),
            ObjectVersion::Lease(version) => (Lease::PLURAL, &version.object().metadata),
            ObjectVersion::LeaderTerm(version) => (LeaderTerm::PLURAL, &version.object().metadata),
            ObjectVersion::Unread(_) => return,
        };
        let key = (kind, ObjectName::from_metadata(metadata));
        self.unread.remove(&key);
    }

    /// Returns the objects that do not decode.
    pub(crate) fn unread(&self) -> impl Iterator<Item = &UnreadObject> {
        self.unread.values()
    }

    /// Returns true if an object of this kind does not decode.
    pub(crate) fn has_unread(&self, kind: &'static str) -> bool {
        self.unread().any(|object| object.kind == kind)
    }

    /// Returns true if the job with this uid exists, and does not decode.
    pub(crate) fn is_unread_job(&self, uid: &JobUid) -> bool {
        let mut unread = self.unread();
        unread.any(|object| object.kind == TrainingJob::PLURAL && object.uid == uid.0)
    }

    /// Returns true if the PodGroup of this name does not decode.
    pub(crate) fn is_unread_group(&self, name: &ObjectName) -> bool {
        let mut unread = self.unread();
        unread.any(|object| object.kind == PodGroup::PLURAL && object.name == *name)
    }

    fn apply_pod(&mut self, version: &Version<Pod>) -> Option<Arc<Pod>> {
        let name = ObjectName::from_metadata(&version.object().metadata);
        let before = replace(&mut self.pods, name.clone(), version);
        if let Some(before) = &before {
            remove(&mut self.pods_by_job, before.job_uid(), &name);
            remove(
                &mut self.pods_by_node,
                before.node().map(str::to_owned),
                &name,
            );
            remove(&mut self.placeholders_by_job, ordering_job(before), &name);
        }
        if let Some(now) = version.stored() {
            insert(&mut self.pods_by_job, now.job_uid(), &name);
            insert(&mut self.pods_by_node, now.node().map(str::to_owned), &name);
            insert(&mut self.placeholders_by_job, ordering_job(now), &name);
        }
        before
    }

    /// Returns the pods of the job with this uid.
    pub(crate) fn pods_of_job(
        &self,
        uid: &JobUid,
    ) -> impl Iterator<Item = (&ObjectName, &Arc<Pod>)> {
        self.find_pods(self.pods_by_job.get(uid))
    }

    /// Returns the placeholders for the job with this uid.
    pub(crate) fn placeholders_of_job(
        &self,
        uid: &JobUid,
    ) -> impl Iterator<Item = (&ObjectName, &Arc<Pod>)> {
        self.find_pods(self.placeholders_by_job.get(uid))
    }

    /// Returns the pod of this name.
    pub(crate) fn pod(&self, name: &ObjectName) -> Option<&Arc<Pod>> {
        self.pods.get(name)
    }

    /// Returns true if the job with this uid controls a pod, even one without Trellis's labels.
    pub(crate) fn has_pod_controlled_by(&self, uid: &JobUid) -> bool {
        let mut owners = self.pods().filter_map(|pod| controlling_job(&pod.metadata));
        owners.any(|owner| owner.uid == uid.0)
    }

    /// Returns the pods on a node.
    pub(crate) fn pods_on_node(
        &self,
        node: &str,
    ) -> impl Iterator<Item = (&ObjectName, &Arc<Pod>)> {
        self.find_pods(self.pods_by_node.get(node))
    }

    fn find_pods<'a>(
        &'a self,
        names: Option<&'a BTreeSet<ObjectName>>,
    ) -> impl Iterator<Item = (&'a ObjectName, &'a Arc<Pod>)> {
        names
            .into_iter()
            .flatten()
            .filter_map(|name| self.pods.get_key_value(name))
    }

    /// Returns the name of the job with this uid.
    pub(crate) fn job_name(&self, uid: &JobUid) -> Option<&ObjectName> {
        self.job_names.get(uid)
    }

    /// Returns the job with this uid.
    pub(crate) fn job(&self, uid: &JobUid) -> Option<&Arc<TrainingJob>> {
        self.jobs.get(self.job_name(uid)?)
    }

    /// Returns true if the job with this uid is gone, and the history shows it.
    pub(crate) fn is_gone(&self, uid: &JobUid) -> bool {
        self.job(uid).is_none() && !self.is_unread_job(uid) && !self.is_partial
    }

    /// Returns the PodGroup that the job with this uid owns.
    pub(crate) fn group_of_job(&self, uid: &JobUid) -> Option<&PodGroup> {
        let group = self.groups.get(self.job_name(uid)?)?;
        (owner_uid(group).as_ref() == Some(uid)).then_some(group)
    }

    /// Returns the topmost queue above this one.
    pub(crate) fn root_queue<'a>(&'a self, name: &'a str) -> &'a str {
        let mut root = name;
        // A cycle of parents ends after as many steps as there are queues.
        for _ in 0..self.queues.len() {
            let queue = self.queues.get(&ObjectName::cluster_wide(root));
            match queue.and_then(|queue| queue.spec.parent_name.as_deref()) {
                Some(parent) => root = parent,
                None => break,
            }
        }
        root
    }

    /// Returns true if a namespace is being deleted. The namespace controller then deletes its
    /// objects in any order.
    pub(crate) fn is_terminating(&self, namespace: &str) -> bool {
        let namespace = self.namespaces.get(&ObjectName::cluster_wide(namespace));
        namespace.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_some())
    }

    /// Returns all pods.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.values()
    }

    /// Returns the uids of all jobs, also of jobs that are gone and left pods. With each comes the
    /// last time at which the job, its PodGroup or one of its pods changed.
    pub(crate) fn gangs_with_last_change(&self) -> Vec<(JobUid, Option<Timestamp>)> {
        let uids: BTreeSet<&JobUid> = self
            .job_names
            .keys()
            .chain(self.pods_by_job.keys())
            .collect();
        let changed = |uid: &JobUid| {
            let job = self.job(uid).and_then(|job| last_change(&job.metadata));
            let group = self
                .group_of_job(uid)
                .and_then(|group| last_change(&group.metadata));
            let pods = self
                .pods_of_job(uid)
                .filter_map(|(_, pod)| last_change(&pod.metadata));
            pods.chain(job).chain(group).max()
        };
        uids.into_iter()
            .map(|uid| (uid.clone(), changed(uid)))
            .collect()
    }
}

fn ordering_job(pod: &Pod) -> Option<JobUid> {
    Some(pod.node_order()?.0)
}

fn replace<K>(objects: &mut Objects<K>, name: ObjectName, version: &Version<K>) -> Option<Arc<K>> {
    match version {
        Version::Stored(object) => objects.insert(name, Arc::clone(object)),
        Version::Deleted(_) => objects.remove(&name),
    }
}

fn insert<K: Ord>(
    index: &mut BTreeMap<K, BTreeSet<ObjectName>>,
    key: Option<K>,
    name: &ObjectName,
) {
    if let Some(key) = key {
        index.entry(key).or_default().insert(name.clone());
    }
}

fn remove<K: Ord>(
    index: &mut BTreeMap<K, BTreeSet<ObjectName>>,
    key: Option<K>,
    name: &ObjectName,
) {
    let Some(key) = key else { return };
    if let Some(names) = index.get_mut(&key) {
        names.remove(name);
        if names.is_empty() {
            index.remove(&key);
        }
    }
}

/// Returns the uid of the TrainingJob that owns a PodGroup. None for a PodGroup of a user.
pub(crate) fn owner_uid(group: &PodGroup) -> Option<JobUid> {
    let owner = controlling_job(&group.metadata)?;
    Some(JobUid(owner.uid.clone()))
}

/// Returns the last time at which a client wrote an object, by its `managedFields`.
pub(crate) fn last_change(metadata: &ObjectMeta) -> Option<Timestamp> {
    let writes = metadata.managed_fields.iter().flatten();
    let writes = writes.filter_map(|entry| entry.time.as_ref());
    writes
        .chain(&metadata.creation_timestamp)
        .map(|time| time.0)
        .max()
}
