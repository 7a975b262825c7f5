//! Services as peers of a NetworkPolicy: the pods behind them, and their ports.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::NetworkPolicyPort;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use trellis_api::job::{NetworkPort, Protocol};

/// The pods behind a Service, and where they listen.
///
/// Its selector is never empty: to a NetworkPolicy an empty one is every pod
/// of the namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedService {
    selector: BTreeMap<String, String>,
    ports: Vec<ResolvedPort>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ResolvedPort {
    /// The Service's own port, by which people know it.
    number: i32,
    protocol: String,
    /// The pods' port, which a NetworkPolicy matches.
    target: IntOrString,
}

/// Why a Service cannot be a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceProblem {
    /// The job's namespace has no Service of that name.
    #[error("does not exist in the job's namespace: create it, or correct its name")]
    NotFound,
    /// The Service selects no pods: it has no selector, or is an ExternalName.
    #[error("has no selector, so its pods are unknown: write their network as cidr")]
    NoSelector,
    /// It has no ports, and the rule gives none.
    #[error("has no ports: give the ports in the rule")]
    NoPorts,
}

impl TryFrom<&Service> for ResolvedService {
    type Error = ServiceProblem;

    fn try_from(service: &Service) -> Result<Self, ServiceProblem> {
        let spec = service.spec.as_ref().ok_or(ServiceProblem::NoSelector)?;
        // The selector of an ExternalName is ignored by Kubernetes.
        let selector = spec
            .selector
            .as_ref()
            .filter(|s| !s.is_empty() && spec.type_.as_deref() != Some("ExternalName"))
            .ok_or(ServiceProblem::NoSelector)?;
        let ports = spec.ports.iter().flatten().map(|port| ResolvedPort {
            number: port.port,
            protocol: port
                .protocol
                .clone()
                .unwrap_or_else(|| Protocol::default().as_str().to_owned()),
            target: port
                .target_port
                .clone()
                .unwrap_or(IntOrString::Int(port.port)),
        });
        Ok(Self {
            selector: selector.clone(),
            ports: ports.collect(),
        })
    }
}

impl ResolvedService {
    /// Labels that all of its pods bear. Never empty.
    #[must_use]
    pub fn selector(&self) -> &BTreeMap<String, String> {
        &self.selector
    }

    /// The pods' ports behind the Service's `wanted` ports, or behind all of its ports if `wanted`
    /// is empty. A wanted port that the Service lacks is a port of the pods, as with a headless
    /// Service. A range also stands for the pods' own ports, beside the Service's ports in it.
    pub(crate) fn target_ports(&self, wanted: &[NetworkPort]) -> Vec<NetworkPolicyPort> {
        let target = |port: &ResolvedPort| NetworkPolicyPort {
            protocol: Some(port.protocol.clone()),
            port: Some(port.target.clone()),
            end_port: None,
        };
        if wanted.is_empty() {
            return self.ports.iter().map(target).collect();
        }
        let of = |wanted: &NetworkPort| {
            let range = wanted.port..=wanted.last_port();
            let protocol = wanted.protocol().as_str();
            let is_wanted =
                |port: &&ResolvedPort| range.contains(&port.number) && port.protocol == protocol;
            let mut found: Vec<_> = self.ports.iter().filter(is_wanted).map(target).collect();
            // A headless Service seldom declares each port of a range.
            if found.is_empty() || wanted.last_port() != wanted.port {
                found.push(network_policy_port(wanted));
            }
            found
        };
        wanted.iter().flat_map(of).collect()
    }
}

/// A port as a NetworkPolicy opens it.
pub(crate) fn network_policy_port(port: &NetworkPort) -> NetworkPolicyPort {
    NetworkPolicyPort {
        protocol: Some(port.protocol().as_str().to_owned()),
        port: Some(IntOrString::Int(port.port)),
        end_port: port.end_port,
    }
}
