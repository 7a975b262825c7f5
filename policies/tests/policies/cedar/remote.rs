//! Secrets in a store outside the cluster.

use serde_json::json;
use trellis_api::job::SecretStoreKind;
use trellis_compiler::RemoteSecret;
use trellis_policies::cedar::{Ask, Remote};

use super::support::{cluster, cluster_with, decide, problems, secret, set};

/// A path of a store, as `ml` asks for it.
pub fn remote(kind: SecretStoreKind, path: &str) -> Ask {
    Ask::UseRemoteSecret(Remote {
        namespace: "ml".to_owned(),
        secret: RemoteSecret {
            kind,
            store: "vault".to_owned(),
            path: path.to_owned(),
        },
    })
}

const KINDS: [SecretStoreKind; 2] = [
    SecretStoreKind::SecretStore,
    SecretStoreKind::ClusterSecretStore,
];

#[test]
fn what_is_permitted_of_a_namespaces_own_or_by_a_name_does_not_reach_a_store() {
    let starter = super::starter::policies();
    let by_name = set(vec![cluster(
        "names",
        "permit(principal, action == Trellis::Action::\"UseSecret\", resource) \
         when { resource.name == \"token\" || resource.name like \"ml-*\" };",
    )]);
    assert!(decide(&starter, "ml", &secret("ml", "token")).allows());
    assert!(decide(&by_name, "ml", &secret("ml", "token")).allows());
    for kind in KINDS {
        for path in ["token", "ml-token"] {
            let ask = remote(kind, path);
            assert!(!decide(&starter, "ml", &ask).allows(), "{ask:?}");
            assert!(!decide(&by_name, "ml", &ask).allows(), "{ask:?}");
        }
    }
}

#[test]
fn a_policy_speaks_of_store_and_path() {
    let text = "permit(principal, action == Trellis::Action::\"UseSecret\", resource) when { \
        resource has store && resource.store.kind == \"ClusterSecretStore\" && \
        resource.store.name == \"vault\" && resource.store.path like \"ml/*\" };";
    let policies = set(vec![cluster("stores", text)]);
    let [own, of_cluster] = KINDS;
    for (ask, allowed) in [
        (remote(of_cluster, "ml/wandb"), true),
        (remote(of_cluster, "hr/salaries"), false),
        (remote(own, "ml/wandb"), false),
        (secret("ml", "token"), false),
    ] {
        assert_eq!(decide(&policies, "ml", &ask).allows(), allowed, "{ask:?}");
    }
    // Not every Secret has one.
    let careless = text.replace("resource has store &&", "");
    let said = problems(cluster("x", &careless));
    assert!(
        said.contains("unable to guarantee safety of access"),
        "{said}"
    );
}

#[test]
fn tests_of_policies_ask_for_what_is_kept_in_a_store() {
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
        assert_eq!(problems(object).is_empty(), holds, "{path} {decision}");
    }
}
