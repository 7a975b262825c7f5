//! Names that mean something in other places.

use trellis_policies::cedar::{Ask, Verdict};

use super::support::{Around, cluster, decide, labels, problems, queue, secret, set};

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
fn the_hint_of_a_hostile_name_permits_that_name_alone() {
    let nothing = set(vec![]);
    for name in NAMES {
        let hint = decide(&nothing, "ml", &queue(name)).hint.unwrap();
        let said = problems(cluster("hint", &hint));
        // Strict validation takes no ids with characters that do not show or deceive.
        let plain = name.chars().all(|c| c.is_ascii_graphic() || c == ' ');
        if !plain && !said.is_empty() {
            continue;
        }
        assert_eq!(said, "", "{name:?}: {hint}");
        let policies = set(vec![cluster("hint", &hint)]);
        for other in NAMES {
            let allowed = decide(&policies, "ml", &queue(other)).allows();
            assert_eq!(allowed, other == name, "{name:?} {other:?}: {hint}");
        }
        assert!(!decide(&policies, "ml", &secret("ml", name)).allows());
    }
}

#[test]
fn namespaces_teams_and_labels_with_such_names_are_themselves() {
    let nothing = set(vec![]);
    let text = "permit(principal in Trellis::Team::\"a\", action, resource);";
    let policies = set(vec![cluster("team", text)]);
    for name in NAMES {
        let around = Around {
            labels: labels(&[("trellis.dev/team", name), (name, name)]),
            job_labels: labels(&[(name, name)]),
            ..Around::default()
        };
        let decision = around.decide(&policies, name, &queue("q"));
        assert_eq!(decision.verdict, Verdict::NotPermitted, "{name:?}");
        let ask = Ask::UseImage(name.to_owned());
        assert_eq!(
            around.decide(&nothing, name, &ask).verdict,
            Verdict::NotPermitted
        );
    }
    let member = Around {
        labels: labels(&[("trellis.dev/team", "a")]),
        ..Around::default()
    };
    assert!(member.decide(&policies, "x", &queue("q")).allows());
}

/// A capability with the name of another privilege does not count as that privilege.
#[test]
fn no_capability_passes_for_another_privilege() {
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
