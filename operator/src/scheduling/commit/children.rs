//! What must be there before a pod is: its Service, and the NetworkPolicy without
//! which it would talk to everyone.

use kube::Resource;
use trellis_api::Reason;

use super::{Committer, Outcome, is_owned};
use crate::key::Key;
use crate::watch::Store;

impl Committer {
    /// Which of them is not there, or is going. The controller creates it again.
    pub(super) fn missing_child(&self, job: &Key, uid: &str) -> Option<String> {
        let (services, policies) = (&self.world.services, &self.world.network_policies);
        let kind = if !is_there(services, job, uid) {
            "Service"
        } else if !is_there(policies, job, uid) {
            "NetworkPolicy"
        } else {
            return None;
        };
        Some(format!(
            "the job's {kind} {:?} is not there, and no pod starts without it",
            &*job.name
        ))
    }

    /// Nothing is promised to a job that lacks one of them.
    pub(super) fn has_children(&self, job: &Key, uid: &str) -> Result<(), Outcome> {
        match self.missing_child(job, uid) {
            None => Ok(()),
            Some(message) => Err(Outcome::PutOff(Reason::ChildMissing, message)),
        }
    }
}

fn is_there<K: Resource<DynamicType = ()>>(store: &Store<K>, job: &Key, uid: &str) -> bool {
    let is_own = |child: &K| is_owned(child, uid) && child.meta().deletion_timestamp.is_none();
    store.get(job).is_some_and(|child| is_own(&child))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::Client;
    use serde_json::{Value, json};

    use super::*;
    use crate::commands::Commands;
    use crate::leader::Leadership;
    use crate::world::World;

    fn child<K: serde::de::DeserializeOwned>(uid: &str, more: Value) -> K {
        let mut meta = json!({"name": "j", "namespace": "ns", "uid": "c", "resourceVersion": "1",
            "ownerReferences": [{"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
                "name": "j", "uid": uid, "controller": true}]});
        meta.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        serde_json::from_value(json!({"metadata": meta, "spec": {"podSelector": {}}})).unwrap()
    }

    /// What is missing of a job that has this Service, and this NetworkPolicy.
    async fn missing(service: Option<(&str, Value)>, policy: Option<(&str, Value)>) -> String {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(nowhere).unwrap();
        let (world, _) = World::new();
        let job = Key::new("ns", "j");
        if let Some((uid, more)) = service {
            world.services.observed(job.clone(), child(uid, more));
        }
        if let Some((uid, more)) = policy {
            world
                .network_policies
                .observed(job.clone(), child(uid, more));
        }
        let commands = Commands::new(client, Leadership::of_a_test());
        let committer = Committer::new(Arc::clone(&world), commands);
        match committer.has_children(&job, "mine") {
            Ok(()) => String::new(),
            Err(Outcome::PutOff(Reason::ChildMissing, message)) => message,
            Err(other) => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_child_that_is_gone_or_going_or_anothers_is_missing() {
        let own = || Some(("mine", json!({})));
        assert_eq!(missing(own(), own()).await, "");
        let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        for none in [None, Some(("another", json!({}))), Some(("mine", going))] {
            let message = missing(own(), none.clone()).await;
            assert!(message.contains("NetworkPolicy \"j\""), "{message}");
            let message = missing(none, own()).await;
            assert!(message.contains("Service \"j\""), "{message}");
        }
    }
}
