//! Claims of ephemeral volumes. Each claim belongs to one pod.

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
        let judge = |query: ExternalPodsQuery| Some(query.decide(policies.as_deref()));
        let request = external_request::find_request(
            &context.cache,
            "team-a",
            external_request::PlacementRole::Alone,
            &pods,
            judge,
        );
        request
            .err()
            .map(|explanation| (explanation.reason, explanation.message))
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
    let fixture = ExternalPodsFixture::new();
    let class: SlimStorageClass = decoded(json!({
        "metadata": {"name": "late", "uid": "late"}, "provisioner": "disks.example",
        "volumeBindingMode": "WaitForFirstConsumer",
    }));
    fixture.sink.apply(Key::new("", "late"), class);
    fixture.add_pod(decoded(json!({
        "metadata": {"name": "p", "namespace": "team-a", "uid": "p"},
        "spec": {"schedulerName": "trellis", "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]},
        "status": {"phase": "Pending"},
    })));
    let expect_message = |text: &str| {
        let (reason, message) = fixture.waiting_reason().unwrap();
        assert!(message.contains(text), "{message}");
        reason
    };
    let not_created = "waits for PersistentVolumeClaim \"p-scratch\" of its ephemeral volume: kube-controller-manager makes it";
    assert_eq!(expect_message(not_created), Reason::ClaimNotBound);
    fixture.claim(owner("Pod", "p", "before"), json!({}));
    assert_eq!(expect_message("is not gone yet"), Reason::ClaimNotBound);
    for other_owner in [
        owner("Pod", "q", "q"),
        owner("StatefulSet", "p", "p"),
        json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p"}),
    ] {
        fixture.claim(other_owner, json!({}));
        assert_eq!(expect_message("is not pod \"p\"'s"), Reason::NameConflict);
    }
    let pod_owner = owner("Pod", "p", "p");
    let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    fixture.claim(pod_owner.clone(), deleted);
    assert_eq!(expect_message("makes it anew"), Reason::ClaimNotBound);
    fixture.claim(pod_owner, json!({}));
    assert_eq!(fixture.waiting_reason(), None);
}
