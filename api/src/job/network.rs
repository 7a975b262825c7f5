//! What the pods may talk to, beyond their own job and DNS.

use garde::Validate;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::rules;

/// Openings in the job's NetworkPolicy.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Network {
    /// Where the pods may connect to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[garde(length(max = 64), dive)]
    pub egress: Vec<TrafficRule>,
    /// From where the pods may be reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[garde(length(max = 64), dive)]
    pub ingress: Vec<TrafficRule>,
}

/// One peer: exactly one of cidr, namespace, service.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(validation = rules::PEER.cel())]
pub struct TrafficRule {
    /// A network, such as 10.20.0.0/16.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 43))]
    #[garde(inner(custom(rules::cidr)), custom(rules::peer(self)))]
    #[x_kube(validation = rules::CIDR.cel())]
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
    /// TCP ports. Absent: every port (egress to a Service: the Service's own).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[garde(length(max = 64), inner(custom(rules::port)))]
    #[x_kube(validation = rules::PORTS.cel())]
    pub ports: Vec<i32>,
}
