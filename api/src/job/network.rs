//! Network peers of the pods other than the job's own pods and DNS.

use std::fmt;

use garde::Validate;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules;

/// Connections that the job's NetworkPolicy allows.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Network {
    /// Destinations that the pods may connect to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[garde(length(max = 64), dive)]
    pub egress: Vec<TrafficRule>,
    /// Sources that may connect to the pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[garde(length(max = 64), dive)]
    pub ingress: Vec<TrafficRule>,
}

/// One peer: exactly one of cidr, namespace, service.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::PEER.to_cel_rule())]
pub struct TrafficRule {
    /// IP range in CIDR notation, such as 10.20.0.0/16.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 43))]
    #[garde(inner(custom(rules::cidr)), custom(rules::peer(self)))]
    #[x_kube(validation = rules::CIDR.to_cel_rule())]
    pub cidr: Option<String>,
    /// Name of a namespace: every pod in it is a peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[garde(inner(custom(rules::object_name)))]
    pub namespace: Option<String>,
    /// Name of a Service in the job's namespace: the pods behind it are peers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[garde(inner(custom(rules::object_name)))]
    pub service: Option<String>,
    /// Ports, as in a NetworkPolicy. Absent: every port (egress to a Service: the Service's own).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    #[garde(length(max = 64), dive)]
    pub ports: Vec<NetworkPort>,
}

/// A port or a range of ports, as in a NetworkPolicy.
#[derive(
    KubeSchema,
    Validate,
    Serialize,
    Deserialize,
    Clone,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::PORT_RANGE.to_cel_rule())]
pub struct NetworkPort {
    /// Port number, 1 to 65535. With `endPort`: the first port of the range.
    #[garde(custom(rules::port), custom(rules::port_range(self)))]
    #[x_kube(validation = rules::PORT.to_cel_rule())]
    pub port: i32,
    /// Last port of the range. Absent: `port` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::port)))]
    #[x_kube(validation = rules::PORT.to_cel_rule())]
    pub end_port: Option<i32>,
    /// Protocol of the port: TCP, UDP or SCTP. Absent: TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
}

impl NetworkPort {
    /// Returns one TCP port.
    #[must_use]
    pub const fn tcp(port: i32) -> Self {
        Self {
            port,
            end_port: None,
            protocol: None,
        }
    }

    /// Returns the last port of the range.
    #[must_use]
    pub fn last_port(&self) -> i32 {
        self.end_port.unwrap_or(self.port)
    }

    /// Returns the protocol, by default TCP.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol.unwrap_or_default()
    }
}

/// Formats ports as kubectl does: `443/TCP`, `30000-30100/UDP`.
impl fmt::Display for NetworkPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.port)?;
        if self.last_port() != self.port {
            write!(f, "-{}", self.last_port())?;
        }
        write!(f, "/{}", self.protocol().as_str())
    }
}

/// Protocol of a port, as in a NetworkPolicy. Absent: TCP.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// Returns the protocol as Kubernetes writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }
}
