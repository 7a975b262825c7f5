//! Names that mean something in other places.

use trellis_policies::cedar::{ImageReference, PolicyRequest, RequestVerdict};

use super::support::{
    RequestFixture, cluster, decide, labels, load_problems, queue_request, secret_request, set,
};

const NAMES: [&str; 12] = [
    "\"",
    "a\"); permit(principal, action, resource); //",
    "\\",
    "\\\"",
    "Trellis::Queue::\"x\"",
    "a::b",
    "\n\r\t",
    "\u{0}",
    "\u{202e}abc",
    "ünï-😀",
    "*",
    "",
];

/// The hint is text: a name in it stays a name.
#[test]
fn missing_permit_for_a_hostile_name_permits_only_that_name() {
    let nothing = set(vec![]);
    for name in NAMES {
        let hint = decide(&nothing, "ml", &queue_request(name))
            .missing_permit
            .unwrap();
        let said = load_problems(cluster("hint", &hint));
        // Strict validation takes no ids with characters that do not show or deceive.
        let plain = name.chars().all(|c| c.is_ascii_graphic() || c == ' ');
        if !plain && !said.is_empty() {
            continue;
        }
        assert_eq!(said, "", "{name:?}: {hint}");
        let policies = set(vec![cluster("hint", &hint)]);
        for other in NAMES {
            let allowed = decide(&policies, "ml", &queue_request(other)).is_allowed();
            assert_eq!(allowed, other == name, "{name:?} {other:?}: {hint}");
        }
        assert!(!decide(&policies, "ml", &secret_request("ml", name)).is_allowed());
    }
}

#[test]
fn hostile_namespace_team_and_label_names_match_no_other_name() {
    let nothing = set(vec![]);
    let text = "permit(principal in Trellis::Team::\"a\", action, resource);";
    let policies = set(vec![cluster("team", text)]);
    for name in NAMES {
        let around = RequestFixture {
            labels: labels(&[("trellis.dev/team", name), (name, name)]),
            job_labels: labels(&[(name, name)]),
            ..RequestFixture::default()
        };
        let decision = around.decide(&policies, name, &queue_request("q"));
        assert_eq!(decision.verdict, RequestVerdict::NotPermitted, "{name:?}");
        let ask = PolicyRequest::UseImage(ImageReference(name.to_owned()));
        assert_eq!(
            around.decide(&nothing, name, &ask).verdict,
            RequestVerdict::NotPermitted
        );
    }
    let member = RequestFixture {
        labels: labels(&[("trellis.dev/team", "a")]),
        ..RequestFixture::default()
    };
    assert!(
        member
            .decide(&policies, "x", &queue_request("q"))
            .is_allowed()
    );
}

/// A capability with the name of another privilege does not count as that privilege.
#[test]
fn capability_with_the_name_of_a_privilege_is_not_that_privilege() {
    use k8s_openapi::api::core::v1::{Capabilities, Container, Pod, PodSpec, SecurityContext};
    let pod = |capability: &str| Pod {
        spec: Some(PodSpec {
            containers: vec![Container {
                security_context: Some(SecurityContext {
                    capabilities: Some(Capabilities {
                        add: Some(vec![capability.to_owned()]),
                        drop: Some(vec!["ALL".to_owned()]),
                    }),
                    ..SecurityContext::default()
                }),
                ..Container::default()
            }],
            ..PodSpec::default()
        }),
        ..Pod::default()
    };
    for (name, expected) in [
        ("IPC_LOCK", "IPC_LOCK"),
        ("SYS_PTRACE", "SYS_PTRACE"),
        ("RunAsRoot", "capability RunAsRoot"),
        ("privileged", "capability privileged"),
        ("capability x", "capability capability x"),
    ] {
        let found = trellis_policies::privileges(&pod(name));
        let names: Vec<_> = found.iter().map(|p| p.policy_name()).collect();
        assert!(names.contains(&expected.to_owned()), "{name}: {names:?}");
    }
}
