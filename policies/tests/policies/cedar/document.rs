//! Examples and messages in docs/policies.md are correct.

use trellis_api::document::split;
use trellis_api::{ClusterJobPolicy, JobPolicy};
use trellis_policies::cedar::{Action, PolicyObject};

use super::support::{cluster, decide, problems, queue, set};

const TEXT: &str = include_str!("../../../../docs/policies.md");

fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    let rest = TEXT.split(fence.as_str()).skip(1);
    rest.map(|rest| rest.split("```").next().unwrap()).collect()
}

#[test]
fn the_examples_are_good_and_pass_their_tests() {
    let mut objects = Vec::new();
    for document in blocks("yaml")
        .into_iter()
        .flat_map(|block| split(block).unwrap())
    {
        objects.push(match document.kind.as_str() {
            "JobPolicy" => PolicyObject::from(&document.valid::<JobPolicy>().unwrap()),
            "ClusterJobPolicy" => {
                PolicyObject::from(&document.valid::<ClusterJobPolicy>().unwrap())
            }
            // Tests of several objects: operator/tests/policy runs them.
            "PolicyTests" => continue,
            other => panic!("{other}"),
        });
    }
    assert_eq!(objects.len(), 3);
    assert!(objects.iter().all(|object| !object.tests.is_empty()));
    set(objects);
}

#[test]
fn what_is_quoted_is_what_is_said() {
    let text = "permit(principal, action, resource)\nwhen { context.gpu > 8 };\n";
    assert!(TEXT.contains(&problems(cluster("x", text))));
    let hint = decide(&set(vec![]), "ml", &queue("prod")).hint.unwrap();
    assert!(TEXT.contains(&hint));
    for action in Action::ALL {
        assert!(
            TEXT.contains(&format!("`{}`", action.as_str())),
            "{action:?}"
        );
    }
}

/// The policies that the page recommends do what it says.
#[test]
fn what_is_easily_got_wrong() {
    use trellis_api::job::{NetworkPort, Protocol};
    use trellis_compiler::{Endpoint, Peer};
    use trellis_policies::cedar::{Ask, Far, Verdict};
    let body = "resource has cidr && ip(\"169.254.169.254\").isInRange(resource.cidr)";
    assert!(TEXT.contains(body));
    let text = format!(
        "forbid(principal, action == Trellis::Action::\"ConnectTo\", resource) when {{ {body} }};"
    );
    let policies = set(vec![cluster("metadata", &text)]);
    for (cidr, verdict) in [
        ("0.0.0.0/0", Verdict::Forbidden),
        ("169.254.169.254/32", Verdict::Forbidden),
        ("::ffff:169.254.169.254/128", Verdict::Forbidden),
        ("10.0.0.0/8", Verdict::NotPermitted),
    ] {
        let ask = Ask::ConnectTo(Far {
            endpoint: Endpoint {
                peer: Peer::Cidr(cidr.to_owned()),
                ports: Vec::new(),
            },
            namespace: "ml".to_owned(),
        });
        assert_eq!(decide(&policies, "ml", &ask).verdict, verdict, "{cidr}");
    }
    let body =
        "resource has ports && !resource.hasPortRange && !resource.ports.contains(\"22/TCP\")";
    assert!(TEXT.contains(body));
    let text = format!(
        "permit(principal, action, resource); \
         forbid(principal, action == Trellis::Action::\"ConnectTo\", resource) unless {{ {body} }};"
    );
    let policies = set(vec![cluster("ssh", &text)]);
    let range = |port, last, protocol| NetworkPort {
        end_port: Some(last),
        protocol: Some(protocol),
        ..NetworkPort::tcp(port)
    };
    for (ports, verdict) in [
        (vec![NetworkPort::tcp(443)], Verdict::Allowed),
        (vec![range(443, 443, Protocol::Tcp)], Verdict::Allowed),
        (vec![range(22, 22, Protocol::Udp)], Verdict::Allowed),
        (
            vec![NetworkPort::tcp(443), NetworkPort::tcp(22)],
            Verdict::Forbidden,
        ),
        (vec![range(22, 22, Protocol::Tcp)], Verdict::Forbidden),
        (vec![range(20, 30, Protocol::Tcp)], Verdict::Forbidden),
        (Vec::new(), Verdict::Forbidden),
    ] {
        let said = format!("{ports:?}");
        let ask = Ask::ConnectTo(Far {
            endpoint: Endpoint {
                peer: Peer::Cidr("10.0.0.0/8".to_owned()),
                ports,
            },
            namespace: "ml".to_owned(),
        });
        assert_eq!(decide(&policies, "ml", &ask).verdict, verdict, "{said}");
    }
}

/// Ports are part of the id of an Endpoint: in one order, and each of them once.
#[test]
fn ports_of_one_meaning_have_one_id() {
    use trellis_api::job::{NetworkPort, Protocol};
    use trellis_compiler::{Endpoint, Peer};
    use trellis_policies::cedar::{Ask, Far, Verdict};
    let text = "permit(principal, action, \
        resource == Trellis::Endpoint::\"cidr/10.0.0.0/8:443/TCP,443/UDP\");";
    let policies = set(vec![cluster("one", text)]);
    let written_out = NetworkPort {
        port: 443,
        end_port: Some(443),
        protocol: Some(Protocol::Tcp),
    };
    let udp = NetworkPort {
        protocol: Some(Protocol::Udp),
        ..NetworkPort::tcp(443)
    };
    let ask = Ask::ConnectTo(Far {
        endpoint: Endpoint {
            peer: Peer::Cidr("10.0.0.0/8".to_owned()),
            ports: vec![written_out, udp, NetworkPort::tcp(443)],
        },
        namespace: "ml".to_owned(),
    });
    assert_eq!(decide(&policies, "ml", &ask).verdict, Verdict::Allowed);
}
