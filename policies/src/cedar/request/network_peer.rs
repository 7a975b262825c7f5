//! The other end of a connection as a resource.

use cedar_policy::RestrictedExpression as Value;
use trellis_api::job::NetworkPort;
use trellis_api::job_policy::TestResource;
use trellis_compiler::{Endpoint, Peer};

use super::cidr::canonical_cidr;
use super::resource::{
    AttributeValues, InvalidTestRequest, RequestBuildError, Resource, ResourceEntity,
    collect_attributes, string_value,
};

/// The other end of a connection, and the namespace that its Service is in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NetworkPeer {
    /// The peer and its ports.
    pub endpoint: Endpoint,
    /// Namespace of the Service, if the peer is a Service.
    pub namespace: String,
}

impl NetworkPeer {
    /// The ports as sorted text without duplicates: `{port: 443}` and `{port: 443, endPort: 443,
    /// protocol: TCP}` are the same port.
    fn ports(&self) -> Vec<String> {
        let meaning = |port: &NetworkPort| (port.port, port.last_port(), port.protocol());
        let mut ports = self.endpoint.ports.clone();
        ports.sort_unstable_by_key(meaning);
        ports.dedup_by_key(|port| meaning(port));
        ports.iter().map(NetworkPort::to_string).collect()
    }

    /// The peer in words.
    pub(super) fn describe_peer(&self) -> String {
        let peer = match &self.endpoint.peer {
            Peer::Cidr(cidr) => format!("network {cidr:?}"),
            Peer::Namespace(name) => format!("namespace {name:?}"),
            Peer::Service(name) => format!("Service {name:?}"),
        };
        match self.ports().as_slice() {
            [] => peer,
            [port] => format!("{peer}, port {port}"),
            ports => format!("{peer}, ports {}", ports.join(", ")),
        }
    }
}

impl Resource for NetworkPeer {
    fn from_test(own: &str, resource: &TestResource) -> Result<Self, InvalidTestRequest> {
        let TestResource {
            cidr,
            service,
            namespace,
            ports,
            ..
        } = resource;
        let peer = match (cidr, service, namespace) {
            (Some(cidr), None, None) => Peer::Cidr(cidr.clone()),
            (None, Some(service), _) => Peer::Service(service.clone()),
            (None, None, Some(namespace)) => Peer::Namespace(namespace.clone()),
            _ => {
                return Err(InvalidTestRequest(
                    "request.resource must have exactly one of cidr, namespace and service"
                        .to_owned(),
                    "say where the job connects to, or is reached from",
                ));
            }
        };
        Ok(Self {
            endpoint: Endpoint {
                peer,
                ports: ports.clone(),
            },
            namespace: namespace.clone().unwrap_or_else(|| own.to_owned()),
        })
    }

    fn entity(&self) -> Result<Option<ResourceEntity<'_>>, RequestBuildError> {
        let (id, attributes) = endpoint_attributes(self)?;
        Ok(Some(ResourceEntity {
            id,
            attributes,
            namespace: None,
        }))
    }

    fn longest_text(&self) -> &str {
        match &self.endpoint.peer {
            Peer::Cidr(name) | Peer::Namespace(name) | Peer::Service(name) => name,
        }
    }

    fn describe(&self, _: &str) -> Option<String> {
        Some(self.describe_peer())
    }
}

/// The ports are part of the id: two rules for one peer are two resources, and a permit for one
/// does not cover the other.
fn endpoint_attributes(
    network_peer: &NetworkPeer,
) -> Result<(String, AttributeValues), RequestBuildError> {
    let (id, cidr, namespace, service) = match &network_peer.endpoint.peer {
        Peer::Cidr(cidr) => {
            let network = canonical_cidr(cidr)
                .ok_or_else(|| RequestBuildError(format!("{cidr:?} is no network")))?;
            (
                format!("cidr/{network}"),
                Some(Value::new_ip(network)),
                None,
                None,
            )
        }
        Peer::Namespace(name) => (
            format!("namespace/{name}"),
            None,
            Some(string_value(name)),
            None,
        ),
        Peer::Service(name) => {
            let namespace = &network_peer.namespace;
            let id = format!("service/{namespace}/{name}");
            (
                id,
                None,
                Some(string_value(namespace)),
                Some(string_value(name)),
            )
        }
    };
    let mut ports = network_peer.endpoint.ports.iter();
    let has_port_range = ports.any(|port| port.last_port() != port.port);
    let written = network_peer.ports();
    let (id, ports) = if written.is_empty() {
        (id, None)
    } else {
        let set = Value::new_set(written.iter().map(|port| string_value(port)));
        (format!("{id}:{}", written.join(",")), Some(set))
    };
    let attributes = collect_attributes([
        ("cidr", cidr),
        ("namespace", namespace),
        ("service", service),
        ("ports", ports),
        ("hasPortRange", Some(Value::new_bool(has_port_range))),
    ]);
    Ok((id, attributes))
}
