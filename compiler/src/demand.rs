//! Demands: everything that the compiled objects make use of. Policies decide about each.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, PodSpec, Volume};
use trellis_api::job::{NetworkPort, SecretStoreKind, TrafficRule};

use crate::objects::network_policy::{ResolvedTrafficRule, ResolvedTrafficRules};

/// One object or permission that a job makes use of. Privileges are not listed here: policies look
/// for them in the final pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Demand {
    /// A queue.
    UseQueue(String),
    /// A PriorityClass.
    UsePriorityClass(String),
    /// A container image.
    UseImage(String),
    /// A ServiceAccount of the job's namespace.
    UseServiceAccount(String),
    /// A Secret of the job's namespace: mounted, in the environment, or for pulling images.
    UseSecret(String),
    /// A secret that is kept outside the cluster.
    UseRemoteSecret(RemoteSecret),
    /// A ConfigMap of the job's namespace.
    UseConfigMap(String),
    /// A PersistentVolumeClaim of the job's namespace.
    UseVolume(String),
    /// A volume of each pod's own, by its StorageClass; `default` where it names none.
    UseEphemeralVolume(String),
    /// To connect there.
    ConnectTo(Endpoint),
    /// To be reached from there.
    AcceptFrom(Endpoint),
}

/// A secret in an external store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RemoteSecret {
    /// The store: one of the job's namespace, or of the cluster.
    pub kind: SecretStoreKind,
    /// Its name.
    pub store: String,
    /// The path in it.
    pub path: String,
}

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// Who.
    pub peer: Peer,
    /// Ports as they were asked for. Empty: every port (of a Service to
    /// connect to: the Service's own).
    pub ports: Vec<NetworkPort>,
}

/// The peer of a connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// A network, in CIDR notation.
    Cidr(String),
    /// Every pod of a namespace, by name.
    Namespace(String),
    /// The pods behind a Service of the job's namespace.
    Service(String),
}

/// Name for the cluster's default StorageClass in demands, where a volume names no class.
const DEFAULT_STORAGE_CLASS: &str = "default";

/// The ServiceAccount of a pod that names none (`admission.ServiceAccount`).
const DEFAULT_SERVICE_ACCOUNT: &str = "default";

/// Everything that a pod makes use of by name.
#[must_use]
pub fn pod_demands(spec: &PodSpec) -> BTreeSet<Demand> {
    let mut demands = BTreeSet::new();
    demands.extend(
        spec.priority_class_name
            .clone()
            .map(Demand::UsePriorityClass),
    );
    demands.extend(
        spec.service_account_name
            .clone()
            .map(Demand::UseServiceAccount),
    );
    if spec.automount_service_account_token == Some(true) {
        demands.insert(service_account_demand(spec));
    }
    let pull_secrets = spec.image_pull_secrets.iter().flatten();
    demands.extend(pull_secrets.map(|s| Demand::UseSecret(s.name.clone())));
    for volume in spec.volumes.iter().flatten() {
        add_volume_demands(volume, spec, &mut demands);
    }
    let inits = spec.init_containers.iter().flatten();
    for container in spec.containers.iter().chain(inits) {
        add_container_demands(container, &mut demands);
    }
    demands
}

/// The ServiceAccount whose token a pod gets.
fn service_account_demand(spec: &PodSpec) -> Demand {
    let name = spec.service_account_name.as_deref();
    Demand::UseServiceAccount(name.unwrap_or(DEFAULT_SERVICE_ACCOUNT).to_owned())
}

fn add_volume_demands(volume: &Volume, pod: &PodSpec, demands: &mut BTreeSet<Demand>) {
    let claim = volume.persistent_volume_claim.as_ref();
    demands.extend(claim.map(|c| Demand::UseVolume(c.claim_name.clone())));
    if let Some(ephemeral) = &volume.ephemeral {
        let template = ephemeral.volume_claim_template.as_ref();
        let class = template.and_then(|template| template.spec.storage_class_name.clone());
        let class = class.unwrap_or_else(|| DEFAULT_STORAGE_CLASS.to_owned());
        demands.insert(Demand::UseEphemeralVolume(class));
    }
    let secret = volume.secret.as_ref().and_then(|s| s.secret_name.clone());
    demands.extend(secret.map(Demand::UseSecret));
    let config_map = volume.config_map.as_ref();
    demands.extend(config_map.map(|c| Demand::UseConfigMap(c.name.clone())));
    let image = volume.image.as_ref().and_then(|i| i.reference.clone());
    demands.extend(image.map(Demand::UseImage));
    let projected = volume.projected.iter().flat_map(|p| &p.sources).flatten();
    for source in projected {
        let secret = source.secret.as_ref();
        demands.extend(secret.map(|s| Demand::UseSecret(s.name.clone())));
        let config_map = source.config_map.as_ref();
        demands.extend(config_map.map(|c| Demand::UseConfigMap(c.name.clone())));
        if source.service_account_token.is_some() || source.pod_certificate.is_some() {
            demands.insert(service_account_demand(pod));
        }
    }
    demands.extend(driver_secrets(volume).map(|name| Demand::UseSecret(name.to_owned())));
}

/// The Secrets that the drivers of volumes are given, of whichever kind.
fn driver_secrets(volume: &Volume) -> impl Iterator<Item = &str> {
    let references = [
        volume
            .csi
            .as_ref()
            .and_then(|v| v.node_publish_secret_ref.as_ref()),
        volume.cephfs.as_ref().and_then(|v| v.secret_ref.as_ref()),
        volume.cinder.as_ref().and_then(|v| v.secret_ref.as_ref()),
        volume
            .flex_volume
            .as_ref()
            .and_then(|v| v.secret_ref.as_ref()),
        volume.iscsi.as_ref().and_then(|v| v.secret_ref.as_ref()),
        volume.rbd.as_ref().and_then(|v| v.secret_ref.as_ref()),
        volume.scale_io.as_ref().map(|v| &v.secret_ref),
        volume
            .storageos
            .as_ref()
            .and_then(|v| v.secret_ref.as_ref()),
    ];
    let names = references.into_iter().flatten().map(|r| r.name.as_str());
    names.chain(volume.azure_file.as_ref().map(|v| v.secret_name.as_str()))
}

fn add_container_demands(container: &Container, demands: &mut BTreeSet<Demand>) {
    demands.extend(container.image.clone().map(Demand::UseImage));
    for from in container.env_from.iter().flatten() {
        let secret = from.secret_ref.as_ref();
        demands.extend(secret.map(|s| Demand::UseSecret(s.name.clone())));
        let config_map = from.config_map_ref.as_ref();
        demands.extend(config_map.map(|c| Demand::UseConfigMap(c.name.clone())));
    }
    let sources = container.env.iter().flatten().flat_map(|e| &e.value_from);
    for source in sources {
        let secret = source.secret_key_ref.as_ref();
        demands.extend(secret.map(|s| Demand::UseSecret(s.name.clone())));
        let config_map = source.config_map_key_ref.as_ref();
        demands.extend(config_map.map(|c| Demand::UseConfigMap(c.name.clone())));
    }
}

/// Connections that the NetworkPolicy allows beyond the job's own pods and DNS.
pub(crate) fn network_demands(openings: &ResolvedTrafficRules<'_>) -> BTreeSet<Demand> {
    let endpoint = |opening: &ResolvedTrafficRule<'_>| endpoint_of_rule(opening.rule);
    let to = openings.egress.iter().filter_map(endpoint);
    let from = openings.ingress.iter().filter_map(endpoint);
    to.map(Demand::ConnectTo)
        .chain(from.map(Demand::AcceptFrom))
        .collect()
}

fn endpoint_of_rule(rule: &TrafficRule) -> Option<Endpoint> {
    let cidr = rule.cidr.clone().map(Peer::Cidr);
    let namespace = || rule.namespace.clone().map(Peer::Namespace);
    let service = || rule.service.clone().map(Peer::Service);
    Some(Endpoint {
        peer: cidr.or_else(namespace).or_else(service)?,
        ports: rule.ports.clone(),
    })
}
