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

use super::metadata;
use crate::resolved_service::network_policy_port;
use crate::{CompileContext, DnsPeer, DnsServers, ResolvedService, Settings};

/// A rule of a `spec.network`, resolved.
pub(crate) struct ResolvedTrafficRule<'a> {
    pub rule: &'a TrafficRule,
    peer: NetworkPolicyPeer,
    /// None: every port.
    ports: Option<Vec<NetworkPolicyPort>>,
}

/// Connections that a job's policy allows beyond its own pods and DNS.
pub(crate) struct ResolvedTrafficRules<'a> {
    pub egress: Vec<ResolvedTrafficRule<'a>>,
    pub ingress: Vec<ResolvedTrafficRule<'a>>,
}

impl<'a> ResolvedTrafficRules<'a> {
    pub fn new(job: &'a ValidatedJob, surroundings: &'a CompileContext) -> Self {
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
                .filter_map(|rule| resolve_egress(rule, service(rule)))
                .collect(),
            ingress: ingress
                .filter_map(|rule| resolve_ingress(rule, service(rule)))
                .collect(),
        }
    }
}

pub(crate) fn build(
    job: &ValidatedJob,
    openings: &ResolvedTrafficRules<'_>,
    settings: &Settings,
) -> NetworkPolicy {
    let own = pod_peer(metadata::job_uid_label(job), None);
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
        metadata: metadata::child_metadata(job),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(metadata::label_selector(metadata::job_uid_label(job))),
            // Without its type, a direction is open.
            policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
            ingress: Some(std::iter::once(own_ingress).chain(ingress).collect()),
            egress: Some(
                std::iter::once(own_egress)
                    .chain(settings.dns.iter().map(dns_rule))
                    .chain(egress)
                    .collect(),
            ),
        }),
    }
}

/// To a Service: the ports that its pods have behind its own.
fn resolve_egress<'a>(
    rule: &'a TrafficRule,
    service: Option<&ResolvedService>,
) -> Option<ResolvedTrafficRule<'a>> {
    let ports = match service {
        Some(service) => {
            let targets = service.target_ports(&rule.ports);
            // Without ports the rule would be for every port.
            Some(targets)
                .filter(|targets| !targets.is_empty())
                .map(Some)?
        }
        None => rule_ports(rule),
    };
    Some(ResolvedTrafficRule {
        rule,
        peer: resolve_peer(rule, service)?,
        ports,
    })
}

/// From a Service: its pods, to ports of the job. The Service's own ports have
/// no meaning here: they are those on which its pods are reached.
fn resolve_ingress<'a>(
    rule: &'a TrafficRule,
    service: Option<&ResolvedService>,
) -> Option<ResolvedTrafficRule<'a>> {
    Some(ResolvedTrafficRule {
        rule,
        peer: resolve_peer(rule, service)?,
        ports: rule_ports(rule),
    })
}

/// None where the rule names nothing that is known.
fn resolve_peer(
    rule: &TrafficRule,
    service: Option<&ResolvedService>,
) -> Option<NetworkPolicyPeer> {
    if let Some(cidr) = &rule.cidr {
        return Some(network_peer(cidr));
    }
    if let Some(namespace) = &rule.namespace {
        return Some(NetworkPolicyPeer {
            namespace_selector: Some(metadata::label_selector(namespace_label(namespace))),
            ..NetworkPolicyPeer::default()
        });
    }
    service.map(|service| pod_peer(service.selector().clone(), None))
}

fn dns_rule(peer: &DnsPeer) -> NetworkPolicyEgressRule {
    let servers = match &peer.servers {
        DnsServers::Pods { namespace, labels } => pod_peer(labels.clone(), Some(namespace)),
        DnsServers::Cidr(cidr) => network_peer(cidr),
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
fn rule_ports(rule: &TrafficRule) -> Option<Vec<NetworkPolicyPort>> {
    let ports = rule.ports.iter().map(network_policy_port);
    (!rule.ports.is_empty()).then(|| ports.collect())
}

fn network_peer(cidr: &str) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        ip_block: Some(IPBlock {
            cidr: cidr.to_owned(),
            except: None,
        }),
        ..NetworkPolicyPeer::default()
    }
}

/// Pods by label: of the job's namespace, or of another.
fn pod_peer(labels: BTreeMap<String, String>, namespace: Option<&str>) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        pod_selector: Some(metadata::label_selector(labels)),
        namespace_selector: namespace.map(|n| metadata::label_selector(namespace_label(n))),
        ..NetworkPolicyPeer::default()
    }
}

fn namespace_label(name: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(names::NAMESPACE_NAME.to_owned(), name.to_owned())])
}
