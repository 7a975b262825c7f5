//! Counts devices of a node, and sums them over all nodes. Pure.

use std::collections::BTreeMap;

use trellis_api::visibility::{NodeResource, NodeState};

use crate::output::Table;

/// Resources that are not devices.
const NO_DEVICES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Usual sizes of pods, in devices.
const SIZES: [i64; 4] = [1, 2, 4, 8];

/// A resource in whole units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DeviceCounts {
    pub(super) total: i64,
    pub(super) jobs: i64,
    pub(super) external: i64,
    pub(super) reserved: i64,
    pub(super) free: i64,
}

impl DeviceCounts {
    pub(super) fn from_resource(resource: &NodeResource) -> Self {
        let units = |quantity: &trellis_api::Quantity| {
            quantity
                .amount()
                .map_or(0, trellis_api::quantity::Amount::floor_units)
        };
        Self {
            total: units(&resource.allocatable),
            jobs: units(&resource.jobs),
            external: units(&resource.others),
            reserved: units(&resource.kept),
            free: resource.free.as_ref().map_or(0, units),
        }
    }

    fn add(self, other: Self) -> Self {
        Self {
            total: self.total.saturating_add(other.total),
            jobs: self.jobs.saturating_add(other.jobs),
            external: self.external.saturating_add(other.external),
            reserved: self.reserved.saturating_add(other.reserved),
            free: self.free.saturating_add(other.free),
        }
    }
}

/// Returns the devices of the node.
pub(super) fn devices(node: &NodeState) -> impl Iterator<Item = (&str, DeviceCounts)> {
    let resources = node.resources.iter();
    let devices = resources.filter(|entry| !NO_DEVICES.contains(&entry.resource.as_str()));
    devices.map(|device| {
        (
            device.resource.as_str(),
            DeviceCounts::from_resource(device),
        )
    })
}

/// Returns true for a node with free devices that accepts pods.
pub(super) fn is_free(node: &NodeState) -> bool {
    node.schedulable && devices(node).any(|(_, units)| units.free > 0)
}

/// Returns the sort key: domains first, then the name with numeric order.
pub(super) fn sort_key(node: &NodeState) -> (Vec<&str>, Vec<(String, u64)>) {
    let domains = node.domains.iter().map(|domain| domain.domain.as_str());
    let name = node.metadata.name.as_deref().unwrap_or_default();
    (domains.collect(), split_name(name))
}

/// Splits a name so that `node-10` sorts after `node-9`.
fn split_name(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let word = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (word, tail) = rest.split_at(word);
        let number = tail
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (number, tail) = tail.split_at(number);
        parts.push((word.to_owned(), number.parse().unwrap_or(0)));
        rest = tail;
    }
    parts
}

/// Renders the sum of each device over all nodes.
/// It also shows how many pods of each size could start now, each within one node. If these pods
/// need less than the free devices, the free capacity is fragmented.
pub(super) fn render_summary(nodes: &[&NodeState]) -> String {
    let mut sums: BTreeMap<&str, (DeviceCounts, i64, [i64; 4])> = BTreeMap::new();
    for node in nodes {
        for (device, units) in devices(node) {
            let (sum, usable, pods) = sums.entry(device).or_default();
            *sum = sum.add(units);
            let free = if node.schedulable { units.free } else { 0 };
            *usable = usable.saturating_add(free);
            for (size, pods) in SIZES.into_iter().zip(pods) {
                *pods = pods.saturating_add(free.checked_div(size).unwrap_or(0));
            }
        }
    }
    let mut table = Table::new([
        "DEVICE",
        "ALL",
        "JOBS",
        "OTHERS",
        "KEPT",
        "FREE",
        "USABLE",
        "PODS OF 1/2/4/8",
    ]);
    for (device, (sum, usable, pods)) in sums {
        let pods: Vec<_> = pods.iter().map(ToString::to_string).collect();
        let counts = [
            sum.total,
            sum.jobs,
            sum.external,
            sum.reserved,
            sum.free,
            usable,
        ];
        let counts = counts.iter().map(|count| count.to_string().into());
        table.push_row(
            [device.into()]
                .into_iter()
                .chain(counts)
                .chain([pods.join("/").into()]),
        );
    }
    match table.is_empty() {
        true => "no devices\n".to_owned(),
        false => table.render(0, None),
    }
}
