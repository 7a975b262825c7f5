//! Translates deletions of objects into the script.

use trellis_gang::engine;
use trellis_gang::key::Key;
use trellis_policies::cedar::ObjectKey;
use trellis_scheduler::{FlavorName, NodeName, QueueName, Time, TopologyName};
use trellis_simulate::scenario::DeletedObject;
use trellis_simulate::{PodChange, ScriptChange};

use super::script_author::ScriptAuthor;
use crate::files::source_object::{DEFAULT_NAMESPACE, SourceObject};

impl ScriptAuthor {
    /// Deletes an object.
    pub(super) fn delete_object(
        &mut self,
        at: Time,
        target: &DeletedObject,
        source: &SourceObject,
        field: &str,
    ) {
        let name = target.name.as_str();
        let key = Key::new(
            target.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE),
            name,
        );
        let pod = (target.namespace.as_deref(), name);
        if target.kind == "Pod"
            && !self.snapshot.pods.contains_key(&key)
            && self.change_job_pod(at, pod, PodChange::Leaves, source, None)
        {
            return;
        }
        let snapshot = &mut self.snapshot;
        let change = match target.kind.as_str() {
            "TrainingJob" => self.jobs.remove(&key).map(|_| {
                self.unqueued.remove(&key);
                Some(ScriptChange::JobDeleted(engine::gang_id(&key)))
            }),
            "Node" => {
                let removed = snapshot.nodes.remove(name);
                removed.map(|_| Some(ScriptChange::NodeDeleted(NodeName::new(name))))
            }
            "TrainingQueue" => {
                let removed = snapshot.queues.get_or_insert_default().remove(name);
                removed.map(|_| Some(ScriptChange::QueueDeleted(QueueName::new(name))))
            }
            "ResourceFlavor" => {
                let removed = snapshot.flavors.remove(name);
                removed.map(|_| Some(ScriptChange::FlavorDeleted(FlavorName::new(name))))
            }
            "Topology" => {
                let removed = snapshot.topologies.remove(name);
                removed.map(|_| Some(ScriptChange::TopologyDeleted(TopologyName::new(name))))
            }
            "Pod" => {
                let removed = snapshot.pods.remove(&key);
                removed.map(|_| Some(ScriptChange::ExternalPodDeleted(engine::pod_key(&key))))
            }
            "ClusterJobPolicy" | "JobPolicy" => {
                let namespaced = target.kind == "JobPolicy";
                let policy = ObjectKey {
                    namespace: namespaced.then(|| key.namespace.to_string()),
                    name: name.to_owned(),
                };
                snapshot.policies.remove(&policy).then_some(None)
            }
            "QuotaPolicy" => {
                let removed = snapshot.quota_policies.remove(name);
                removed.map(|_| Some(ScriptChange::Quotas(snapshot.to_quota_policies())))
            }
            "PriorityClass" => snapshot.priority_classes.remove(name).map(|_| None),
            "Namespace" => snapshot.namespaces.remove(name).map(|_| None),
            "Service" => snapshot.services.remove(&key).map(|_| None),
            kind => {
                let message = format!("a simulation does not support {kind:?}");
                let field = format!("{field}.delete.kind");
                self.problems.push(source.problem(&field, message));
                return;
            }
        };
        match change {
            Some(change) => {
                if let Some(change) = change {
                    self.script.add(at, change);
                }
                self.retry_unqueued(at);
            }
            None => {
                let kind = &target.kind;
                let message = format!("{kind} {name:?} does not exist at that time");
                let field = format!("{field}.delete.name");
                self.problems.push(source.problem(&field, message));
            }
        }
    }
}
