//! Secrets in a store outside the cluster.

use serde_json::json;
use trellis_api::job::SecretStoreKind;
use trellis_compiler::RemoteSecret;
use trellis_policies::cedar::{PolicyRequest, RemoteSecretRef, SecretRef};

use super::support::{cluster, cluster_with, decide, load_problems, secret_request, set};

/// A path of a store, as `ml` asks for it.
pub fn remote_secret_request(kind: SecretStoreKind, path: &str) -> PolicyRequest {
    PolicyRequest::UseSecret(SecretRef::Store(RemoteSecretRef {
        namespace: "ml".to_owned(),
        secret: RemoteSecret {
            kind,
            store: "vault".to_owned(),
            path: path.to_owned(),
        },
    }))
}

const KINDS: [SecretStoreKind; 2] = [
    SecretStoreKind::SecretStore,
    SecretStoreKind::ClusterSecretStore,
];

#[test]
fn permits_for_own_secrets_do_not_cover_remote_secrets() {
    let starter = super::starter::policies();
    let by_name = set(vec![cluster(
        "names",
        "permit(principal, action == Trellis::Action::\"UseSecret\", resource) \
         when { resource.name == \"token\" || resource.name like \"ml-*\" };",
    )]);
    assert!(decide(&starter, "ml", &secret_request("ml", "token")).is_allowed());
    assert!(decide(&by_name, "ml", &secret_request("ml", "token")).is_allowed());
    for kind in KINDS {
        for path in ["token", "ml-token"] {
            let ask = remote_secret_request(kind, path);
            assert!(!decide(&starter, "ml", &ask).is_allowed(), "{ask:?}");
            assert!(!decide(&by_name, "ml", &ask).is_allowed(), "{ask:?}");
        }
    }
}

#[test]
fn policy_matches_a_remote_secret_by_store_and_path() {
    let text = "permit(principal, action == Trellis::Action::\"UseSecret\", resource) when { \
        resource has store && resource.store.kind == \"ClusterSecretStore\" && \
        resource.store.name == \"vault\" && resource.store.path like \"ml/*\" };";
    let policies = set(vec![cluster("stores", text)]);
    let [own, of_cluster] = KINDS;
    for (ask, allowed) in [
        (remote_secret_request(of_cluster, "ml/wandb"), true),
        (remote_secret_request(of_cluster, "hr/salaries"), false),
        (remote_secret_request(own, "ml/wandb"), false),
        (secret_request("ml", "token"), false),
    ] {
        assert_eq!(
            decide(&policies, "ml", &ask).is_allowed(),
            allowed,
            "{ask:?}"
        );
    }
    // Not every Secret has one.
    let careless = text.replace("resource has store &&", "");
    let said = load_problems(cluster("x", &careless));
    assert!(
        said.contains("unable to guarantee safety of access"),
        "{said}"
    );
}

#[test]
fn policy_test_requests_a_remote_secret() {
    let test = |path: &str, decision: &str| {
        let store = json!({"kind": "ClusterSecretStore", "name": "vault", "path": path});
        json!({"tests": [{
            "name": "t", "decision": decision,
            "request": {"namespace": "ml", "action": "UseSecret", "resource": {"store": store}},
        }]})
    };
    let text = "permit(principal, action == Trellis::Action::\"UseSecret\", resource) \
        when { resource has store && resource.store.path == \"a\" };";
    for (path, decision, holds) in [
        ("a", "Allow", true),
        ("b", "Deny", true),
        ("b", "Allow", false),
    ] {
        let object = cluster_with("x", text, test(path, decision));
        assert_eq!(load_problems(object).is_empty(), holds, "{path} {decision}");
    }
}
