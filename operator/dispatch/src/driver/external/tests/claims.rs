//! Claims of ephemeral volumes, which belong to their own pod.

use trellis_gang::observed::{SlimClaim, SlimStorageClass};
use trellis_policies::cedar::ExternalPodsQuery;

use super::*;
use crate::external_request;

impl ExternalPodsFixture {
    /// Returns why the pod "p", which has an ephemeral volume "scratch", waits. None: it can be
    /// placed.
    fn waiting_reason(&self) -> Option<(Reason, String)> {
        let context = self.driver.committer.context();
        let pod = context.cache.external_pods.get(&key("p")).unwrap();
        let pods = [("p".to_owned(), pod)];
        let policies = context.cache.policies.active();
        let judge = |question: ExternalPodsQuery| Some(question.decide(policies.as_deref()));
        let asked = external_request::find_request(
            &context.cache,
            "team-a",
            external_request::PlacementRole::Alone,
            &pods,
            judge,
        );
        asked.err().map(|why| (why.reason, why.message))
    }

    /// Adds the claim of that volume, with this controlling owner.
    fn claim(&self, owner: Value, more: Value) {
        let mut metadata = json!({"name": "p-scratch", "namespace": "team-a", "uid": "c",
            "ownerReferences": [owner]});
        metadata
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let claim: SlimClaim = decoded(json!({
            "metadata": metadata,
            "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Pending"},
        }));
        self.sink.apply(key("p-scratch"), claim);
    }
}

fn owner(kind: &str, name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "controller": true})
}

#[tokio::test]
async fn pod_waits_for_its_own_ephemeral_claim() {
    let scene = ExternalPodsFixture::new();
    let class: SlimStorageClass = decoded(json!({
        "metadata": {"name": "late", "uid": "late"}, "provisioner": "disks.example",
        "volumeBindingMode": "WaitForFirstConsumer",
    }));
    scene.sink.apply(Key::new("", "late"), class);
    scene.add_pod(decoded(json!({
        "metadata": {"name": "p", "namespace": "team-a", "uid": "p"},
        "spec": {"schedulerName": "trellis", "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]},
        "status": {"phase": "Pending"},
    })));
    let waits = |words: &str| {
        let (reason, message) = scene.waiting_reason().unwrap();
        assert!(message.contains(words), "{message}");
        reason
    };
    let is_made = "waits for PersistentVolumeClaim \"p-scratch\" of its ephemeral volume: kube-controller-manager makes it";
    assert_eq!(waits(is_made), Reason::ClaimNotBound);
    scene.claim(owner("Pod", "p", "before"), json!({}));
    assert_eq!(waits("is not gone yet"), Reason::ClaimNotBound);
    for theirs in [
        owner("Pod", "q", "q"),
        owner("StatefulSet", "p", "p"),
        json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p"}),
    ] {
        scene.claim(theirs, json!({}));
        assert_eq!(waits("is not pod \"p\"'s"), Reason::NameConflict);
    }
    let own = owner("Pod", "p", "p");
    let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    scene.claim(own.clone(), going);
    assert_eq!(waits("makes it anew"), Reason::ClaimNotBound);
    scene.claim(own, json!({}));
    assert_eq!(scene.waiting_reason(), None);
}
