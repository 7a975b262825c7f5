//! The question that policies answer: one action on one resource.

use trellis_api::job::NetworkPort;
use trellis_compiler::{Endpoint, Peer, RemoteSecret};

use super::action::Action;

/// One action on one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyRequest {
    /// To submit the job itself.
    Submit,
    /// To wait in a queue.
    UseQueue {
        /// Name of the queue.
        queue: String,
        /// True if the queue's `namespaceSelector` selects the job's namespace.
        selects_namespace: bool,
    },
    /// To have the priority of a class.
    UsePriorityClass(String),
    /// To be given nodes of a flavor.
    UseFlavor(String),
    /// To run an image, as the job writes it.
    UseImage(String),
    /// To run as a ServiceAccount.
    UseServiceAccount(NamespacedName),
    /// To read a Secret.
    UseSecret(NamespacedName),
    /// To read a secret from a store outside the cluster.
    UseRemoteSecret(RemoteSecretRef),
    /// To mount a claim, or to read a ConfigMap.
    UseVolume(VolumeKind, NamespacedName),
    /// To connect there.
    ConnectTo(NetworkPeer),
    /// To be reached from there.
    AcceptFrom(NetworkPeer),
    /// To have a privilege, by the name that policies know it by.
    UsePrivilege(String),
}

/// An object of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamespacedName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A secret in an external store, and the requesting namespace, which holds the SecretStore.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RemoteSecretRef {
    /// The namespace.
    pub namespace: String,
    /// The store, and the path in it.
    pub secret: RemoteSecret,
}

impl RemoteSecretRef {
    /// `ClusterSecretStore/<store>/<path>`, or `SecretStore/<store>/<path>`: no name of a
    /// Secret, which has no `/`.
    pub(super) fn policy_name(&self) -> String {
        let RemoteSecret { kind, store, path } = &self.secret;
        format!("{}/{store}/{path}", kind.as_str())
    }

    /// In words.
    pub(super) fn describe(&self) -> String {
        let RemoteSecret { kind, store, path } = &self.secret;
        format!("{path:?} of {} {store:?}", kind.as_str())
    }
}

/// Kind of the object behind a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VolumeKind {
    /// A PersistentVolumeClaim.
    Claim,
    /// A ConfigMap, mounted or in the environment.
    ConfigMap,
    /// A volume of each pod's own, made for it: its name is that of its StorageClass.
    Ephemeral,
}

impl VolumeKind {
    /// The word that policies know it by.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::ConfigMap => "configMap",
            Self::Ephemeral => "ephemeral",
        }
    }
}

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
    pub(super) fn ports(&self) -> Vec<String> {
        let meaning = |port: &NetworkPort| (port.port, port.last_port(), port.protocol());
        let mut ports = self.endpoint.ports.clone();
        ports.sort_unstable_by_key(meaning);
        ports.dedup_by_key(|port| meaning(port));
        ports.iter().map(NetworkPort::to_string).collect()
    }

    /// In words.
    pub(super) fn describe(&self) -> String {
        let who = match &self.endpoint.peer {
            Peer::Cidr(cidr) => format!("network {cidr:?}"),
            Peer::Namespace(name) => format!("namespace {name:?}"),
            Peer::Service(name) => format!("Service {name:?}"),
        };
        match self.ports().as_slice() {
            [] => who,
            [port] => format!("{who}, port {port}"),
            ports => format!("{who}, ports {}", ports.join(", ")),
        }
    }
}

impl PolicyRequest {
    /// The resource, in words. None: the job itself.
    #[must_use]
    pub fn describe_resource(&self) -> Option<String> {
        let object = |kind, o: &NamespacedName| {
            format!("{kind} {:?}", format!("{}/{}", o.namespace, o.name))
        };
        Some(match self {
            Self::Submit => return None,
            Self::UseQueue { queue, .. } => format!("Queue {queue:?}"),
            Self::UsePriorityClass(name) => format!("PriorityClass {name:?}"),
            Self::UseFlavor(name) => format!("ResourceFlavor {name:?}"),
            Self::UseImage(name) => format!("Image {name:?}"),
            Self::UseServiceAccount(o) => object("ServiceAccount", o),
            Self::UseSecret(o) => object("Secret", o),
            Self::UseRemoteSecret(remote) => format!("secret {}", remote.describe()),
            Self::UseVolume(VolumeKind::Claim, o) => object("claim", o),
            Self::UseVolume(VolumeKind::ConfigMap, o) => object("ConfigMap", o),
            Self::UseVolume(VolumeKind::Ephemeral, o) => {
                format!("ephemeral volume of StorageClass {:?}", o.name)
            }
            Self::ConnectTo(far) | Self::AcceptFrom(far) => far.describe(),
            Self::UsePrivilege(name) => format!("Privilege {name:?}"),
        })
    }

    /// The longest text of it that users write.
    pub(super) fn longest_text(&self) -> &str {
        match self {
            Self::Submit => "",
            Self::UseQueue { queue: name, .. }
            | Self::UsePriorityClass(name)
            | Self::UseFlavor(name)
            | Self::UseImage(name)
            | Self::UsePrivilege(name) => name,
            Self::UseServiceAccount(o) | Self::UseSecret(o) | Self::UseVolume(_, o) => &o.name,
            Self::UseRemoteSecret(remote) => &remote.secret.path,
            Self::ConnectTo(far) | Self::AcceptFrom(far) => match &far.endpoint.peer {
                Peer::Cidr(name) | Peer::Namespace(name) | Peer::Service(name) => name,
            },
        }
    }

    /// The action.
    #[must_use]
    pub const fn action(&self) -> Action {
        match self {
            Self::Submit => Action::Submit,
            Self::UseQueue { .. } => Action::UseQueue,
            Self::UsePriorityClass(_) => Action::UsePriorityClass,
            Self::UseFlavor(_) => Action::UseFlavor,
            Self::UseImage(_) => Action::UseImage,
            Self::UseServiceAccount(_) => Action::UseServiceAccount,
            Self::UseSecret(_) | Self::UseRemoteSecret(_) => Action::UseSecret,
            Self::UseVolume(..) => Action::UseVolume,
            Self::ConnectTo(_) => Action::ConnectTo,
            Self::AcceptFrom(_) => Action::AcceptFrom,
            Self::UsePrivilege(_) => Action::UsePrivilege,
        }
    }
}
