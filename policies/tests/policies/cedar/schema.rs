//! The schema, and its copy in the documentation.

use std::path::Path;

use trellis_api::job::{NetworkPort, SecretStoreKind};
use trellis_api::job_policy::Action;
use trellis_compiler::{Endpoint, Peer};
use trellis_policies::cedar::{
    ImageReference, JobItself, NamespacedName, NetworkPeer, PolicyLoader, PolicyRequest,
    VolumeKind, VolumeRef, schema_text,
};

use super::remote_secrets::remote_secret_request;
use super::support::{
    ALLOW_ALL, cluster, decide, load_problems, queue_request, secret_request, set,
};

#[test]
fn documented_schema_matches_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/policies/trellis.cedarschema");
    if std::env::var("INSTA_UPDATE").as_deref() == Ok("always") {
        std::fs::write(&path, schema_text()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == schema_text(),
        "{} is not up to date: run INSTA_UPDATE=always cargo test -p trellis-policies",
        path.display()
    );
}

#[test]
fn schema_is_valid_in_cedar() {
    PolicyLoader::new().unwrap();
}

/// One request of each action, with everything that it may have.
fn one_request_of_each_action() -> Vec<PolicyRequest> {
    let object = || NamespacedName {
        namespace: "ml".to_owned(),
        name: "x".to_owned(),
    };
    let volume = |kind| {
        PolicyRequest::UseVolume(VolumeRef {
            kind,
            object: object(),
        })
    };
    let far = |peer, ports: &[i32]| NetworkPeer {
        endpoint: Endpoint {
            peer,
            ports: ports.iter().map(|port| NetworkPort::tcp(*port)).collect(),
        },
        namespace: "ml".to_owned(),
    };
    let text = str::to_owned;
    vec![
        PolicyRequest::Submit(JobItself),
        queue_request("prod"),
        PolicyRequest::UsePriorityClass(text("high")),
        PolicyRequest::UseFlavor(text("h100")),
        PolicyRequest::ProvisionNodes(text("h100")),
        PolicyRequest::UseImage(ImageReference(text("train"))),
        PolicyRequest::UseImage(ImageReference(text(
            "registry.example/team/train:1@sha256:00",
        ))),
        PolicyRequest::UseServiceAccount(object()),
        secret_request("ml", "token"),
        remote_secret_request(SecretStoreKind::SecretStore, "ml/wandb"),
        remote_secret_request(SecretStoreKind::ClusterSecretStore, "ml/wandb"),
        volume(VolumeKind::Claim),
        volume(VolumeKind::ConfigMap),
        volume(VolumeKind::Ephemeral),
        PolicyRequest::ConnectTo(far(Peer::Cidr(text("10.20.0.0/16")), &[443, 80, 443])),
        PolicyRequest::ConnectTo(far(Peer::Cidr(text("::ffff:10.0.0.1/128")), &[])),
        PolicyRequest::ConnectTo(far(Peer::Service(text("store")), &[])),
        PolicyRequest::AcceptFrom(far(Peer::Namespace(text("monitoring")), &[9090])),
        PolicyRequest::UsePrivilege(text("RunAsRoot")),
    ]
}

/// Every request is held to the schema as it is put together.
#[test]
fn request_of_every_action_matches_the_schema() {
    let policies = set(vec![cluster("all", ALLOW_ALL)]);
    let mut seen = std::collections::BTreeSet::new();
    for ask in one_request_of_each_action() {
        let decision = decide(&policies, "ml", &ask);
        assert!(decision.is_allowed(), "{ask:?}: {decision:?}");
        seen.insert(ask.action());
    }
    assert_eq!(seen.len(), Action::ALL.len());
}

/// The hint names the request exactly: a permit written from it allows this request only.
#[test]
fn missing_permit_allows_only_the_denied_request() {
    let nothing = set(vec![]);
    let all = one_request_of_each_action();
    for ask in &all {
        let hint = decide(&nothing, "ml", ask).missing_permit.unwrap();
        let policies = set(vec![cluster("hint", &hint)]);
        for other in &all {
            let allowed = decide(&policies, "ml", other).is_allowed();
            assert_eq!(allowed, other == ask, "{hint}: {other:?}");
            assert!(!decide(&policies, "other", other).is_allowed(), "{hint}");
        }
    }
}

#[test]
fn policy_must_guard_optional_attributes_with_has() {
    for (attribute, with) in [
        (
            "context.requester.user == \"a\"",
            "context has requester && ",
        ),
        (
            "context.runtimeSeconds < 60",
            "context has runtimeSeconds && ",
        ),
    ] {
        let text = |guard: &str| {
            format!("forbid(principal, action, resource) when {{ {guard}{attribute} }};")
        };
        let said = load_problems(cluster("x", &text("")));
        assert!(
            said.contains("unable to guarantee safety of access"),
            "{said}"
        );
        assert_eq!(load_problems(cluster("x", &text(with))), "");
    }
    let said = load_problems(cluster(
        "x",
        "permit(principal, action == Trellis::Action::\"ConnectTo\", resource) \
         when { [\"443/TCP\"].containsAll(resource.ports) };",
    ));
    assert!(said.contains("`ports`"), "{said}");
}
