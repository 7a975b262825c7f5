//! Facts of the cluster from the operator's configuration.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;

use trellis_api::rules;

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
    /// The port that they listen on. For pods this is the pods' port, not their Service's: network
    /// policies see connections after the Service's translation.
    pub port: u16,
}

/// Location of DNS servers.
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

/// Error of a text that is no [`DnsPeer`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{written:?} names no DNS servers: {reason}; write NAMESPACE/LABEL=VALUE,..., or a network such as 169.254.20.10/32, and @PORT behind it where that is not 53"
)]
pub struct InvalidDnsPeer {
    written: String,
    reason: String,
}

impl FromStr for DnsPeer {
    type Err = InvalidDnsPeer;

    /// `kube-system/k8s-app=kube-dns`, `169.254.20.10/32`, `fd00::a/128@5353`.
    fn from_str(written: &str) -> Result<Self, InvalidDnsPeer> {
        let wrong = |why: &str| InvalidDnsPeer {
            written: written.to_owned(),
            reason: why.to_owned(),
        };
        let (servers, port) = match written.rsplit_once('@') {
            None => (written, DNS_PORT),
            Some((servers, port)) => {
                let port = port.parse().ok().filter(|port| *port > 0);
                (servers, port.ok_or_else(|| wrong("its port is none"))?)
            }
        };
        let Some((first, rest)) = servers.split_once('/') else {
            return Err(wrong("there is no / in it"));
        };
        let servers = if first.parse::<IpAddr>().is_ok() {
            rules::cidr(servers, &()).map_err(|error| wrong(error.message()))?;
            DnsServers::Cidr(servers.to_owned())
        } else {
            rules::namespace(first).map_err(|error| wrong(error.message()))?;
            let labels = rest.split(',').filter(|label| !label.is_empty());
            let labels = labels.map(|label| label.split_once('=').ok_or(label));
            let labels: Result<Vec<_>, _> = labels.collect();
            let labels = labels.map_err(|label| wrong(&format!("{label:?} is no LABEL=VALUE")))?;
            let labels = labels
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value.to_owned()));
            DnsServers::Pods {
                namespace: first.to_owned(),
                labels: labels.collect(),
            }
        };
        Ok(Self { servers, port })
    }
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

    /// Every distribution labels its DNS pods `k8s-app: kube-dns`, whatever the server.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(written: &str) -> Result<DnsPeer, String> {
        written
            .parse()
            .map_err(|error: InvalidDnsPeer| error.to_string())
    }

    #[test]
    fn dns_peer_is_read_as_pods_or_a_network() {
        assert_eq!(
            read("kube-system/k8s-app=kube-dns"),
            Ok(DnsPeer::kube_dns())
        );
        assert_eq!(
            read("169.254.20.10/32"),
            Ok(DnsPeer::cidr("169.254.20.10/32"))
        );
        let six = read("fd00::a/128@5353").unwrap();
        assert_eq!(
            (six.port, six.servers),
            (5353, DnsServers::Cidr("fd00::a/128".to_owned()))
        );
        let openshift = "openshift-dns/dns.operator.openshift.io/daemonset-dns=default,a=b@5353";
        let labels = [
            ("a", "b"),
            ("dns.operator.openshift.io/daemonset-dns", "default"),
        ];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let servers = DnsServers::Pods {
            namespace: "openshift-dns".to_owned(),
            labels: labels.into(),
        };
        assert_eq!(
            read(openshift),
            Ok(DnsPeer {
                servers,
                port: 5353
            })
        );
        // Every pod of the namespace.
        assert!(read("dns/").is_ok());
    }

    #[test]
    fn invalid_dns_peer_is_refused_with_a_reason() {
        for (written, why) in [
            ("", "there is no /"),
            ("kube-dns", "there is no /"),
            ("10.0.0.0/33", "names no DNS servers"),
            ("10.0.0.1/24@0", "its port is none"),
            ("dns/a=b@x", "its port is none"),
            ("dns/a", "\"a\" is no LABEL=VALUE"),
            ("Dns/a=b", "names no DNS servers"),
        ] {
            let error = read(written).unwrap_err();
            assert!(error.contains(why), "{written}: {error}");
        }
    }
}
