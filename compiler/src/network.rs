//! The NetworkPolicy: it allows the job's own pods, DNS, and the rules in `spec.network` of the job
//! and of its profile.
//!
//! A rule without peers allows every peer, and a rule without ports every port. A rule that cannot
//! be resolved is therefore left out as a whole.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer,
    NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use trellis_api::job::{Network, TrafficRule};
use trellis_api::{ValidatedJob, names};

use crate::resolved_service::open;
use crate::{DnsPeer, DnsServers, ResolvedService, Settings, Surroundings, metadata};

/// A rule of a `spec.network`, resolved.
pub(crate) struct Opening<'a> {
    pub rule: &'a TrafficRule,
    peer: NetworkPolicyPeer,
    /// None: every port.
    ports: Option<Vec<NetworkPolicyPort>>,
}

/// Connections that a job's policy allows beyond its own pods and DNS.
pub(crate) struct Openings<'a> {
    pub egress: Vec<Opening<'a>>,
    pub ingress: Vec<Opening<'a>>,
}

impl<'a> Openings<'a> {
    pub fn new(job: &'a ValidatedJob, surroundings: &'a Surroundings) -> Self {
        let profile = surroundings.profile.as_ref();
        let of_profile = profile.and_then(|p| p.spec().network.as_ref());
        let networks: [Option<&'a Network>; 2] = [of_profile, job.spec().network.as_ref()];
        let service = |rule: &TrafficRule| {
            let name = rule.service.as_ref()?;
            surroundings.services.get(name)
        };
        let egress = networks.into_iter().flatten().flat_map(|n| &n.egress);
        let ingress = networks.into_iter().flatten().flat_map(|n| &n.ingress);
        Self {
            egress: egress
                .filter_map(|rule| egress_opening(rule, service(rule)))
                .collect(),
            ingress: ingress
                .filter_map(|rule| ingress_opening(rule, service(rule)))
                .collect(),
        }
    }
}

pub(crate) fn build(
    job: &ValidatedJob,
    openings: &Openings<'_>,
    settings: &Settings,
) -> NetworkPolicy {
    let own = pods(metadata::own_pods(job), None);
    let own_egress = NetworkPolicyEgressRule {
        to: Some(vec![own.clone()]),
        ports: None,
    };
    let own_ingress = NetworkPolicyIngressRule {
        from: Some(vec![own]),
        ports: None,
    };
    let egress = openings.egress.iter().map(|o| NetworkPolicyEgressRule {
        to: Some(vec![o.peer.clone()]),
        ports: o.ports.clone(),
    });
    let ingress = openings.ingress.iter().map(|o| NetworkPolicyIngressRule {
        from: Some(vec![o.peer.clone()]),
        ports: o.ports.clone(),
    });
    NetworkPolicy {
        metadata: metadata::child(job),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(metadata::selector(metadata::own_pods(job))),
            // Without its type, a direction is open.
            policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
            ingress: Some(std::iter::once(own_ingress).chain(ingress).collect()),
            egress: Some(
                std::iter::once(own_egress)
                    .chain(settings.dns.iter().map(dns))
                    .chain(egress)
                    .collect(),
            ),
        }),
    }
}

/// To a Service: the ports that its pods have behind its own.
fn egress_opening<'a>(
    rule: &'a TrafficRule,
    service: Option<&ResolvedService>,
) -> Option<Opening<'a>> {
    let ports = match service {
        Some(service) => {
            let targets = service.targets(&rule.ports);
            // Without ports the rule would be for every port.
            Some(targets)
                .filter(|targets| !targets.is_empty())
                .map(Some)?
        }
        None => ports(rule),
    };
    Some(Opening {
        rule,
        peer: peer(rule, service)?,
        ports,
    })
}

/// From a Service: its pods, to ports of the job. The Service's own ports have
/// no meaning here: they are those on which its pods are reached.
fn ingress_opening<'a>(
    rule: &'a TrafficRule,
    service: Option<&ResolvedService>,
) -> Option<Opening<'a>> {
    Some(Opening {
        rule,
        peer: peer(rule, service)?,
        ports: ports(rule),
    })
}

/// None where the rule names nothing that is known.
fn peer(rule: &TrafficRule, service: Option<&ResolvedService>) -> Option<NetworkPolicyPeer> {
    if let Some(cidr) = &rule.cidr {
        return Some(network(cidr));
    }
    if let Some(namespace) = &rule.namespace {
        return Some(NetworkPolicyPeer {
            namespace_selector: Some(metadata::selector(namespace_label(namespace))),
            ..NetworkPolicyPeer::default()
        });
    }
    service.map(|service| pods(service.selector().clone(), None))
}

fn dns(peer: &DnsPeer) -> NetworkPolicyEgressRule {
    let servers = match &peer.servers {
        DnsServers::Pods { namespace, labels } => pods(labels.clone(), Some(namespace)),
        DnsServers::Cidr(cidr) => network(cidr),
    };
    let port = |protocol: &str| NetworkPolicyPort {
        protocol: Some(protocol.to_owned()),
        port: Some(IntOrString::Int(i32::from(peer.port))),
        end_port: None,
    };
    NetworkPolicyEgressRule {
        to: Some(vec![servers]),
        ports: Some(vec![port("UDP"), port("TCP")]),
    }
}

/// None, and so every port, where the rule gives none.
fn ports(rule: &TrafficRule) -> Option<Vec<NetworkPolicyPort>> {
    let ports = rule.ports.iter().map(open);
    (!rule.ports.is_empty()).then(|| ports.collect())
}

fn network(cidr: &str) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        ip_block: Some(IPBlock {
            cidr: cidr.to_owned(),
            except: None,
        }),
        ..NetworkPolicyPeer::default()
    }
}

/// Pods by label: of the job's namespace, or of another.
fn pods(labels: BTreeMap<String, String>, namespace: Option<&str>) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        pod_selector: Some(metadata::selector(labels)),
        namespace_selector: namespace.map(|n| metadata::selector(namespace_label(n))),
        ..NetworkPolicyPeer::default()
    }
}

fn namespace_label(name: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(names::NAMESPACE_NAME.to_owned(), name.to_owned())])
}
