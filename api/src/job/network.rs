//! What the pods may talk to, beyond their own job and DNS.

use std::fmt;

use garde::Validate;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules;

/// Openings in the job's NetworkPolicy.
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
    /// A network, such as 10.20.0.0/16.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 43))]
    #[garde(inner(custom(rules::cidr)), custom(rules::peer(self)))]
    #[x_kube(validation = rules::CIDR.to_cel_rule())]
    pub cidr: Option<String>,
    /// Every pod of a namespace, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[garde(inner(custom(rules::object_name)))]
    pub namespace: Option<String>,
    /// The pods behind a Service of the job's namespace. Its ports are used where none are given.
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

/// A port, or all ports from one to another, as in a NetworkPolicy.
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
    /// Number of the port, 1 to 65535: the first one where `endPort` is given.
    #[garde(custom(rules::port), custom(rules::port_range(self)))]
    #[x_kube(validation = rules::PORT.to_cel_rule())]
    pub port: i32,
    /// Number of the last port of a range. Absent: `port` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::port)))]
    #[x_kube(validation = rules::PORT.to_cel_rule())]
    pub end_port: Option<i32>,
    /// Protocol of the port: TCP, UDP or SCTP. Absent: TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
}

impl NetworkPort {
    /// One TCP port.
    #[must_use]
    pub const fn tcp(port: i32) -> Self {
        Self {
            port,
            end_port: None,
            protocol: None,
        }
    }

    /// Number of the last port.
    #[must_use]
    pub fn last_port(&self) -> i32 {
        self.end_port.unwrap_or(self.port)
    }

    /// The protocol, TCP where none is given.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol.unwrap_or_default()
    }
}

/// As kubectl writes it: `443/TCP`, `30000-30100/UDP`.
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
    /// The word that Kubernetes has for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }
}
