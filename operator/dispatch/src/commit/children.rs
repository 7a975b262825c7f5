//! Objects that must exist before a pod does: its Services, its NetworkPolicy, without which it
//! could reach every pod, and the ConfigMap that it mounts.

use trellis_api::{Reason, names};
use trellis_compiler::CompiledJob;
use trellis_gang::key::Key;

use super::{Committer, is_live_child};
use crate::task_outcome::TaskOutcome;

impl Committer {
    /// Describes the first object that is missing or terminating. The controller creates it again.
    pub(super) fn find_missing_child(
        &self,
        job: &Key,
        uid: &str,
        compiled: &CompiledJob,
    ) -> Option<String> {
        let cache = &self.context.cache;
        let key = |name: &str| Key::new(&job.namespace, name);
        let has_service =
            |name: &str| is_live_child(cache.services.get(&key(name)).as_deref(), uid);
        let config_map = names::hosts_config_map_name(&job.name);
        let has_config_map =
            || is_live_child(cache.config_maps.get(&key(&config_map)).as_deref(), uid);
        let mut services = compiled.job().spec().service_names(&job.name);
        let (kind, name) = if let Some(name) = services.find(|name| !has_service(name)) {
            ("Service", name)
        } else if !is_live_child(cache.network_policies.get(job).as_deref(), uid) {
            ("NetworkPolicy", job.name.to_string())
        } else if compiled.has_config_map() && !has_config_map() {
            ("ConfigMap", config_map)
        } else {
            return None;
        };
        Some(format!(
            "the job's {kind} {name:?} is not there, and no pod starts without it"
        ))
    }

    /// Puts a job off if one of these objects is missing.
    pub(super) fn check_children(
        &self,
        job: &Key,
        uid: &str,
        compiled: &CompiledJob,
    ) -> Result<(), TaskOutcome> {
        match self.find_missing_child(job, uid, compiled) {
            None => Ok(()),
            Some(message) => Err(TaskOutcome::PutOff(Reason::ChildMissing, message)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::Client;
    use serde_json::{Value, json};
    use trellis_gang::fixtures::{compile_job_as, spec_with};

    use super::*;
    use crate::commands::Commands;
    use crate::context::Context;
    use crate::leader::Leadership;

    fn child<K: serde::de::DeserializeOwned>(uid: &str, more: Value) -> K {
        let mut meta = json!({"name": "j", "namespace": "ns", "uid": "c", "resourceVersion": "1",
            "ownerReferences": [{"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
                "name": "j", "uid": uid, "controller": true}]});
        meta.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        serde_json::from_value(json!({"metadata": meta, "spec": {"podSelector": {}}})).unwrap()
    }

    /// Returns a committer without an API server.
    fn committer(context: &Arc<Context>) -> Committer {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(nowhere).unwrap();
        let commands = Commands::new(client, Leadership::for_test());
        Committer::new(Arc::clone(context), commands)
    }

    /// Returns the missing object of a job that has this Service, NetworkPolicy and ConfigMap.
    async fn missing(
        service: Option<(&str, Value)>,
        policy: Option<(&str, Value)>,
        config_map: Option<(&str, Value)>,
    ) -> String {
        let (context, _) = Context::new();
        let job = Key::new("ns", "j");
        if let Some((uid, metadata)) = service {
            context
                .cache
                .services
                .insert_observed(job.clone(), child(uid, metadata));
        }
        if let Some((uid, metadata)) = policy {
            context
                .cache
                .network_policies
                .insert_observed(job.clone(), child(uid, metadata));
        }
        if let Some((uid, metadata)) = config_map {
            let key = Key::new("ns", "j-hosts");
            context
                .cache
                .config_maps
                .insert_observed(key, child(uid, metadata));
        }
        let compiled = compile_job_as("j", "ns", spec_with(json!({"framework": "DeepSpeed"})));
        match committer(&context).check_children(&job, "mine", &compiled) {
            Ok(()) => String::new(),
            Err(TaskOutcome::PutOff(Reason::ChildMissing, message)) => message,
            Err(other) => panic!("{other:?}"),
        }
    }

    /// The leader of a Ray job has its own Service.
    #[tokio::test]
    async fn missing_service_of_the_leader_counts_as_missing() {
        let (context, _) = Context::new();
        let cache = &context.cache;
        let service = |name: &str, uid: &str| {
            let key = Key::new("ns", name);
            cache.services.insert_observed(key, child(uid, json!({})));
        };
        service("j", "mine");
        let policy = child("mine", json!({}));
        cache
            .network_policies
            .insert_observed(Key::new("ns", "j"), policy);
        let map = child("mine", json!({}));
        cache
            .config_maps
            .insert_observed(Key::new("ns", "j-hosts"), map);
        let ray = spec_with(json!({"framework": "Ray", "taskGroups": [{
            "name": "head", "role": "Coordinator", "image": "i",
            "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}]}));
        let compiled = compile_job_as("j", "ns", ray);
        let committer = committer(&context);
        let missing = || committer.find_missing_child(&Key::new("ns", "j"), "mine", &compiled);
        assert!(missing().unwrap().contains("Service \"j-head\""));
        service("j-head", "another");
        assert!(missing().unwrap().contains("Service \"j-head\""));
        cache.services.remove(&Key::new("ns", "j-head"));
        service("j-head", "mine");
        assert_eq!(missing(), None);
    }

    #[tokio::test]
    async fn absent_terminating_or_foreign_child_counts_as_missing() {
        let live_child = || Some(("mine", json!({})));
        assert_eq!(missing(live_child(), live_child(), live_child()).await, "");
        let terminating = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        for bad_child in [
            None,
            Some(("another", json!({}))),
            Some(("mine", terminating)),
        ] {
            let message = missing(live_child(), bad_child.clone(), live_child()).await;
            assert!(message.contains("NetworkPolicy \"j\""), "{message}");
            let message = missing(bad_child.clone(), live_child(), live_child()).await;
            assert!(message.contains("Service \"j\""), "{message}");
            let message = missing(live_child(), live_child(), bad_child).await;
            assert!(message.contains("ConfigMap \"j-hosts\""), "{message}");
        }
    }
}
