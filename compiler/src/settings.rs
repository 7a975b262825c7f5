//! What the operator's configuration says about the cluster.

use std::collections::BTreeMap;

/// Port that DNS servers listen on (RFC 1035).
const DNS_PORT: u16 = 53;

/// The operator's configuration, as far as compiling needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The cluster's DNS domain, such as `cluster.local`.
    pub cluster_domain: String,
    /// The DNS servers that every pod may ask. Empty: none.
    pub dns: Vec<DnsPeer>,
}

/// DNS servers and their port, over UDP and TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsPeer {
    /// The servers.
    pub servers: DnsServers,
    /// The port that they listen on. Of pods their own, not their Service's:
    /// network policies see connections after the Service's translation.
    pub port: u16,
}

/// Where DNS servers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnsServers {
    /// Pods of a namespace that bear all of these labels.
    Pods {
        /// The namespace's name.
        namespace: String,
        /// The labels. Empty: every pod of the namespace.
        labels: BTreeMap<String, String>,
    },
    /// A network, such as `169.254.20.10/32` for NodeLocal DNS.
    Cidr(String),
}

impl DnsPeer {
    /// NodeLocal DNS, or any other servers by their network.
    #[must_use]
    pub fn cidr(cidr: impl Into<String>) -> Self {
        Self {
            servers: DnsServers::Cidr(cidr.into()),
            port: DNS_PORT,
        }
    }

    /// What every distribution labels its DNS with: kube-dns, whatever the server.
    fn kube_dns() -> Self {
        Self {
            servers: DnsServers::Pods {
                namespace: "kube-system".to_owned(),
                labels: BTreeMap::from([("k8s-app".to_owned(), "kube-dns".to_owned())]),
            },
            port: DNS_PORT,
        }
    }
}

impl Default for Settings {
    /// Domain `cluster.local`; the DNS pods of `kube-system`.
    fn default() -> Self {
        Self {
            cluster_domain: "cluster.local".to_owned(),
            dns: vec![DnsPeer::kube_dns()],
        }
    }
}
