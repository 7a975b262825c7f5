//! The admission policies of the chart that are off by default. The operator of every test runs
//! under both.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource as _, ResourceExt as _};
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_e2e::jobs::SOON;
use trellis_e2e::operator::{ACCOUNT, NAMESPACE};
use trellis_e2e::wait::{eventually, wait_for, wait_gone};

use super::people::{self, person};
use super::{shared, site};

#[track_caller]
fn refused<T: std::fmt::Debug>(answer: kube::Result<T>, message: &str) {
    let kube::Error::Api(status) = answer.unwrap_err() else {
        panic!("no answer of the API server");
    };
    assert_eq!(status.code, 403, "{}", status.message);
    assert!(status.message.contains(message), "{}", status.message);
}

/// A NetworkPolicy that lets every pod of its namespace reach every address.
fn opens(name: &str) -> NetworkPolicy {
    let policy = json!({"metadata": {"name": name},
        "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{}]}});
    serde_json::from_value(policy).unwrap()
}

#[tokio::test]
async fn in_a_labelled_namespace_only_trellis_writes_network_policies() {
    const OWN: &str = "NetworkPolicies of this namespace are written by Trellis";
    let control_plane = shared().await;
    let site = site("networks", 1).await;
    people::allow(control_plane).await;
    let ann = person(control_plane, "ann", &[]);
    let networks: Api<NetworkPolicy> = Api::namespaced(ann, site.name());
    let params = PostParams::default();
    networks.create(&params, &opens("before")).await.unwrap();

    let namespaces: Api<Namespace> = Api::all(control_plane.client());
    let label = json!({"metadata": {"labels": {"trellis.dev/network-policies": "operator"}}});
    let (label, by) = (Patch::Merge(label), PatchParams::default());
    namespaces.patch(site.name(), &by, &label).await.unwrap();
    // The API server finds the namespaces that a policy selects by its own watch.
    eventually(SOON, || async {
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let answer = networks.create(&dry_run, &opens("own")).await;
        anyhow::ensure!(answer.is_err(), "the label does not count yet");
        Ok(())
    })
    .await
    .unwrap();
    refused(networks.create(&params, &opens("own")).await, OWN);
    let wider = Patch::Merge(json!({"spec": {"ingress": [{}], "policyTypes": ["Ingress"]}}));
    refused(networks.patch("before", &by, &wider).await, OWN);

    // The operator writes the NetworkPolicy of a job, and only an administrator may delete one.
    site.submit("llm", 1, 1).await;
    site.whole("llm", 1).await;
    let gone = DeleteParams::default();
    refused(networks.delete("llm", &gone).await, OWN);
    let all: Api<NetworkPolicy> = Api::namespaced(control_plane.client(), site.name());
    all.delete("before", &gone).await.unwrap();

    // The garbage collector deletes it with its job.
    site.delete::<TrainingJob>("llm").await;
    wait_gone(&all, "llm", SOON).await.unwrap();
}

/// Every request bears the token of the operator.
#[tokio::test]
async fn operator_writes_no_object_that_is_not_of_a_job() {
    const CONFINED: &str = "the operator of Trellis writes objects of TrainingJobs alone";
    let control_plane = shared().await;
    let site = site("confined", 1).await;
    let job = site.submit("llm", 1, 1).await;
    let client = control_plane
        .service_account_client(NAMESPACE, ACCOUNT)
        .await
        .unwrap();
    let as_operator: Api<ConfigMap> = Api::namespaced(client.clone(), site.name());
    let as_admin: Api<ConfigMap> = Api::namespaced(control_plane.client(), site.name());
    let map = |name: &str| ConfigMap {
        metadata: kube::core::ObjectMeta {
            name: Some(name.to_owned()),
            ..Default::default()
        },
        data: Some(BTreeMap::from([("mapUsers".to_owned(), String::new())])),
        ..ConfigMap::default()
    };
    let params = PostParams::default();

    refused(as_operator.create(&params, &map("new")).await, CONFINED);
    as_admin.create(&params, &map("foreign")).await.unwrap();
    let change = Patch::Merge(json!({"data": {"mapUsers": "- groups: [system:masters]"}}));
    let by = PatchParams::default();
    refused(as_operator.patch("foreign", &by, &change).await, CONFINED);
    let gone = DeleteParams::default();
    refused(as_operator.delete("foreign", &gone).await, CONFINED);
    // The operator cannot adopt a foreign object to get around that.
    let owner = job.controller_owner_ref(&()).unwrap();
    let adopt = Patch::Merge(json!({"metadata": {"ownerReferences": [owner]}}));
    refused(as_operator.patch("foreign", &by, &adopt).await, CONFINED);

    let mut own = map("own");
    own.owner_references_mut().push(owner);
    as_operator.create(&params, &own).await.unwrap();
    as_operator.patch("own", &by, &change).await.unwrap();
    as_operator.delete("own", &gone).await.unwrap();
    wait_for(&as_admin, "foreign", SOON, |_: &ConfigMap| true)
        .await
        .unwrap();
}
