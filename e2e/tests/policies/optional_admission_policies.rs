//! The admission policies of the chart that are off by default. The operator of every test runs
//! with both.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource as _, ResourceExt as _};
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_e2e::operator;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::{eventually, wait_for, wait_until_deleted};

use super::users::{self, user_client};
use super::{create_site, shared_control_plane};

#[track_caller]
fn check_refused<T: std::fmt::Debug>(answer: kube::Result<T>, message: &str) {
    let kube::Error::Api(status) = answer.unwrap_err() else {
        panic!("no answer of the API server");
    };
    assert_eq!(status.code, 403, "{}", status.message);
    assert!(status.message.contains(message), "{}", status.message);
}

/// A NetworkPolicy that allows every pod of its namespace to reach every address.
fn open_network_policy(name: &str) -> NetworkPolicy {
    let policy = json!({"metadata": {"name": name},
        "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{}]}});
    serde_json::from_value(policy).unwrap()
}

#[tokio::test]
async fn only_trellis_writes_network_policies_in_a_labelled_namespace() {
    const NETWORK_POLICY_MESSAGE: &str =
        "only Trellis and administrators may write NetworkPolicies";
    let control_plane = shared_control_plane().await;
    let site = create_site("networks", 1).await;
    users::grant_user_rights(control_plane).await;
    let ann = user_client(control_plane, "ann", &[]);
    let networks: Api<NetworkPolicy> = Api::namespaced(ann, site.name());
    let params = PostParams::default();
    networks
        .create(&params, &open_network_policy("before"))
        .await
        .unwrap();

    let namespaces: Api<Namespace> = Api::all(control_plane.client());
    let label = json!({"metadata": {"labels": {"trellis.dev/network-policies": "operator"}}});
    let (label, patch_params) = (Patch::Merge(label), PatchParams::default());
    namespaces
        .patch(site.name(), &patch_params, &label)
        .await
        .unwrap();
    // The API server watches namespaces, so a policy takes effect late.
    eventually(SOON, || async {
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let answer = networks.create(&dry_run, &open_network_policy("own")).await;
        anyhow::ensure!(answer.is_err(), "the label has no effect yet");
        Ok(())
    })
    .await
    .unwrap();
    check_refused(
        networks.create(&params, &open_network_policy("own")).await,
        NETWORK_POLICY_MESSAGE,
    );
    let wider = Patch::Merge(json!({"spec": {"ingress": [{}], "policyTypes": ["Ingress"]}}));
    check_refused(
        networks.patch("before", &patch_params, &wider).await,
        NETWORK_POLICY_MESSAGE,
    );

    // The operator writes the NetworkPolicy of a job, and only an administrator may delete one.
    site.submit("llm", 1, 1).await;
    site.wait_for_whole_gang("llm", 1).await;
    let delete = DeleteParams::default();
    check_refused(
        networks.delete("llm", &delete).await,
        NETWORK_POLICY_MESSAGE,
    );
    let all: Api<NetworkPolicy> = Api::namespaced(control_plane.client(), site.name());
    all.delete("before", &delete).await.unwrap();

    // The garbage collector deletes the NetworkPolicy with its job.
    site.delete::<TrainingJob>("llm").await;
    wait_until_deleted(&all, "llm", SOON).await.unwrap();
}

/// Every request has the token of the operator.
#[tokio::test]
async fn operator_cannot_write_objects_outside_jobs() {
    const CONFINEMENT_MESSAGE: &str = "only if a TrainingJob controls them";
    let control_plane = shared_control_plane().await;
    let site = create_site("confined", 1).await;
    let job = site.submit("llm", 1, 1).await;
    // The API server refuses the writes of any other pod.
    let client = operator::client(control_plane, operator::POD)
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

    check_refused(
        as_operator.create(&params, &map("new")).await,
        CONFINEMENT_MESSAGE,
    );
    as_admin.create(&params, &map("foreign")).await.unwrap();
    let change = Patch::Merge(json!({"data": {"mapUsers": "- groups: [system:masters]"}}));
    let patch_params = PatchParams::default();
    check_refused(
        as_operator.patch("foreign", &patch_params, &change).await,
        CONFINEMENT_MESSAGE,
    );
    let delete = DeleteParams::default();
    check_refused(
        as_operator.delete("foreign", &delete).await,
        CONFINEMENT_MESSAGE,
    );
    // The operator cannot adopt a foreign object to get around that.
    let owner = job.controller_owner_ref(&()).unwrap();
    let adopt = Patch::Merge(json!({"metadata": {"ownerReferences": [owner]}}));
    check_refused(
        as_operator.patch("foreign", &patch_params, &adopt).await,
        CONFINEMENT_MESSAGE,
    );

    let mut own = map("own");
    own.owner_references_mut().push(owner);
    as_operator.create(&params, &own).await.unwrap();
    as_operator
        .patch("own", &patch_params, &change)
        .await
        .unwrap();
    as_operator.delete("own", &delete).await.unwrap();
    wait_for(&as_admin, "foreign", SOON, |_: &ConfigMap| true)
        .await
        .unwrap();
}
