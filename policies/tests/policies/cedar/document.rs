//! Examples and messages in docs/policies.md are correct.

use trellis_api::document::split;
use trellis_api::job_policy::Action;
use trellis_api::{ClusterJobPolicy, JobPolicy};
use trellis_policies::cedar::PolicyObject;

use super::support::{cluster, decide, load_problems, queue_request, set};

const PAGE: &str = include_str!("../../../../docs/policies.md");

fn code_blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    let rest = PAGE.split(fence.as_str()).skip(1);
    rest.map(|rest| rest.split("```").next().unwrap()).collect()
}

#[test]
fn documented_policies_are_valid_and_pass_their_tests() {
    let mut objects = Vec::new();
    for document in code_blocks("yaml")
        .into_iter()
        .flat_map(|block| split(block).unwrap())
    {
        objects.push(match document.kind.as_str() {
            "JobPolicy" => PolicyObject::from(&document.decode_valid::<JobPolicy>().unwrap()),
            "ClusterJobPolicy" => {
                PolicyObject::from(&document.decode_valid::<ClusterJobPolicy>().unwrap())
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
fn documented_messages_match_the_code() {
    let text = "permit(principal, action, resource)\nwhen { context.gpu > 8 };\n";
    assert!(PAGE.contains(&load_problems(cluster("x", text))));
    let hint = decide(&set(vec![]), "ml", &queue_request("prod"))
        .missing_permit
        .unwrap();
    assert!(PAGE.contains(&hint));
    for action in Action::ALL {
        assert!(
            PAGE.contains(&format!("`{}`", action.as_str())),
            "{action:?}"
        );
    }
}

/// The policies that the page recommends do what it says.
#[test]
fn documented_advice_forbids_the_intended_requests() {
    use trellis_api::job::{NetworkPort, Protocol};
    use trellis_compiler::{Endpoint, Peer};
    use trellis_policies::cedar::{NetworkPeer, PolicyRequest, RequestVerdict};
    let body = "resource has cidr && ip(\"169.254.169.254\").isInRange(resource.cidr)";
    assert!(PAGE.contains(body));
    let text = format!(
        "forbid(principal, action == Trellis::Action::\"ConnectTo\", resource) when {{ {body} }};"
    );
    let policies = set(vec![cluster("metadata", &text)]);
    for (cidr, verdict) in [
        ("0.0.0.0/0", RequestVerdict::Forbidden),
        ("169.254.169.254/32", RequestVerdict::Forbidden),
        ("::ffff:169.254.169.254/128", RequestVerdict::Forbidden),
        ("10.0.0.0/8", RequestVerdict::NotPermitted),
    ] {
        let ask = PolicyRequest::ConnectTo(NetworkPeer {
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
    assert!(PAGE.contains(body));
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
        (vec![NetworkPort::tcp(443)], RequestVerdict::Allowed),
        (
            vec![range(443, 443, Protocol::Tcp)],
            RequestVerdict::Allowed,
        ),
        (vec![range(22, 22, Protocol::Udp)], RequestVerdict::Allowed),
        (
            vec![NetworkPort::tcp(443), NetworkPort::tcp(22)],
            RequestVerdict::Forbidden,
        ),
        (
            vec![range(22, 22, Protocol::Tcp)],
            RequestVerdict::Forbidden,
        ),
        (
            vec![range(20, 30, Protocol::Tcp)],
            RequestVerdict::Forbidden,
        ),
        (Vec::new(), RequestVerdict::Forbidden),
    ] {
        let said = format!("{ports:?}");
        let ask = PolicyRequest::ConnectTo(NetworkPeer {
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
fn endpoint_id_is_independent_of_port_order_and_notation() {
    use trellis_api::job::{NetworkPort, Protocol};
    use trellis_compiler::{Endpoint, Peer};
    use trellis_policies::cedar::{NetworkPeer, PolicyRequest, RequestVerdict};
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
    let ask = PolicyRequest::ConnectTo(NetworkPeer {
        endpoint: Endpoint {
            peer: Peer::Cidr("10.0.0.0/8".to_owned()),
            ports: vec![written_out, udp, NetworkPort::tcp(443)],
        },
        namespace: "ml".to_owned(),
    });
    assert_eq!(
        decide(&policies, "ml", &ask).verdict,
        RequestVerdict::Allowed
    );
}
