//! The schema, and its copy in the documentation.

use std::path::Path;

use trellis_api::job::{NetworkPort, SecretStoreKind};
use trellis_compiler::{Endpoint, Peer};
use trellis_policies::cedar::{Action, Ask, Far, Loader, Object, VolumeKind, schema_text};

use super::remote::remote;
use super::support::{ALLOW_ALL, cluster, decide, problems, queue, secret, set};

#[test]
fn the_copy_in_docs_is_that_of_the_code() {
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
fn cedar_takes_it() {
    Loader::new().unwrap();
}

/// One request of each action, with everything that it may have.
fn one_of_each() -> Vec<Ask> {
    let object = || Object {
        namespace: "ml".to_owned(),
        name: "x".to_owned(),
    };
    let far = |peer, ports: &[i32]| Far {
        endpoint: Endpoint {
            peer,
            ports: ports.iter().map(|port| NetworkPort::tcp(*port)).collect(),
        },
        namespace: "ml".to_owned(),
    };
    let text = str::to_owned;
    vec![
        Ask::Submit,
        queue("prod"),
        Ask::UsePriorityClass(text("high")),
        Ask::UseFlavor(text("h100")),
        Ask::UseImage(text("train")),
        Ask::UseImage(text("registry.example/team/train:1@sha256:00")),
        Ask::UseServiceAccount(object()),
        secret("ml", "token"),
        remote(SecretStoreKind::SecretStore, "ml/wandb"),
        remote(SecretStoreKind::ClusterSecretStore, "ml/wandb"),
        Ask::UseVolume(VolumeKind::Claim, object()),
        Ask::UseVolume(VolumeKind::ConfigMap, object()),
        Ask::UseVolume(VolumeKind::Ephemeral, object()),
        Ask::ConnectTo(far(Peer::Cidr(text("10.20.0.0/16")), &[443, 80, 443])),
        Ask::ConnectTo(far(Peer::Cidr(text("::ffff:10.0.0.1/128")), &[])),
        Ask::ConnectTo(far(Peer::Service(text("store")), &[])),
        Ask::AcceptFrom(far(Peer::Namespace(text("monitoring")), &[9090])),
        Ask::UsePrivilege(text("RunAsRoot")),
    ]
}

/// Every request is held to the schema as it is put together.
#[test]
fn every_kind_of_request_is_of_the_schema() {
    let policies = set(vec![cluster("all", ALLOW_ALL)]);
    let mut seen = std::collections::BTreeSet::new();
    for ask in one_of_each() {
        let decision = decide(&policies, "ml", &ask);
        assert!(decision.allows(), "{ask:?}: {decision:?}");
        seen.insert(ask.action());
    }
    assert_eq!(seen.len(), Action::ALL.len());
}

/// The hint names the request exactly: a permit written from it allows this request only.
#[test]
fn the_missing_permit_is_the_one_that_allows_it() {
    let nothing = set(vec![]);
    let all = one_of_each();
    for ask in &all {
        let hint = decide(&nothing, "ml", ask).hint.unwrap();
        let policies = set(vec![cluster("hint", &hint)]);
        for other in &all {
            let allowed = decide(&policies, "ml", other).allows();
            assert_eq!(allowed, other == ask, "{hint}: {other:?}");
            assert!(!decide(&policies, "other", other).allows(), "{hint}");
        }
    }
}

#[test]
fn what_may_be_absent_must_be_asked_for() {
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
        let said = problems(cluster("x", &text("")));
        assert!(
            said.contains("unable to guarantee safety of access"),
            "{said}"
        );
        assert_eq!(problems(cluster("x", &text(with))), "");
    }
    let said = problems(cluster(
        "x",
        "permit(principal, action == Trellis::Action::\"ConnectTo\", resource) \
         when { [\"443/TCP\"].containsAll(resource.ports) };",
    ));
    assert!(said.contains("`ports`"), "{said}");
}
