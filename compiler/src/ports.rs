//! Ports of the containers, and of the Service that makes them known.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ContainerPort, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use trellis_api::job::TaskGroup;

use crate::framework::FrameworkPort;

const TCP: &str = "TCP";

/// The user's ports, then the framework's that are not among them.
pub(crate) fn container_ports(
    group: &TaskGroup,
    framework: &[FrameworkPort],
) -> Vec<ContainerPort> {
    let users = group.ports.iter().map(|port| ContainerPort {
        name: Some(port.name.clone()),
        container_port: port.port,
        protocol: Some(TCP.to_owned()),
        ..ContainerPort::default()
    });
    let missing = framework
        .iter()
        .filter(|port| group.ports.iter().all(|p| p.port != port.number));
    let added = missing.map(|port| ContainerPort {
        name: group
            .ports
            .iter()
            .all(|p| p.name != port.name)
            .then(|| port.name.to_owned()),
        container_port: port.number,
        protocol: Some(TCP.to_owned()),
        ..ContainerPort::default()
    });
    users.chain(added).collect()
}

/// Ports of all groups, each number once and each name once, by number.
pub(crate) fn service_ports<'a>(
    containers: impl IntoIterator<Item = &'a ContainerPort>,
) -> Vec<ServicePort> {
    let mut by_number: BTreeMap<i32, Option<&str>> = BTreeMap::new();
    for port in containers {
        by_number
            .entry(port.container_port)
            .or_insert(port.name.as_deref());
    }
    let mut taken = BTreeSet::new();
    by_number
        .into_iter()
        .map(|(number, name)| ServicePort {
            // The replacement is longer than any container port's name may be
            // (15 characters), so it is free.
            name: Some(
                name.filter(|name| taken.insert(*name))
                    .map_or_else(|| format!("container-port-{number}"), str::to_owned),
            ),
            port: number,
            protocol: Some(TCP.to_owned()),
            target_port: Some(IntOrString::Int(number)),
            ..ServicePort::default()
        })
        .collect()
}
