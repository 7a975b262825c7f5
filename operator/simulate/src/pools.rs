//! Pools of equal nodes, written as `vcvGl=20x8,vcvlY=2x8`.

use std::collections::BTreeMap;
use std::time::Duration;

use trellis_scheduler::{
    Constraints, Flavor, FlavorGrowth, FlavorName, FlavorQuotas, Node, NodeName, NodeTemplate,
    ProvisioningPolicy, ProvisioningScope, Queue, Quota, ResourceGroup, ResourceName, Resources,
};

/// Resource name of GPUs.
pub(super) const GPU: &str = "nvidia.com/gpu";
/// Node label with the pool's name.
const POOL_LABEL: &str = "pool";
/// A limit on pods that no node reaches.
const UNLIMITED_PODS: i64 = 1 << 32;
/// Greatest number of nodes of a pool, and of GPUs of a node.
const MAX_COUNT: i64 = 1_000_000;

/// Equal nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Number of nodes.
    pub nodes: i64,
    /// GPUs of each node.
    pub gpus: i64,
}

/// Reads pools from `NAME=NODESxGPUS`, separated by commas.
///
/// # Errors
/// Names the invalid pool and the format.
pub fn parse_pools(text: &str) -> Result<Vec<Pool>, String> {
    let mut pools: Vec<Pool> = Vec::new();
    for part in text.split(',') {
        let pool = parse_pool(part).ok_or_else(|| {
            format!("{part:?} is not a pool: write NAME=NODESxGPUS, as in \"a=20x8,b=2x8\"")
        })?;
        if pools.iter().any(|p| p.name == pool.name) {
            return Err(format!("pool {:?} is given twice", pool.name));
        }
        pools.push(pool);
    }
    Ok(pools)
}

fn parse_pool(text: &str) -> Option<Pool> {
    let (name, size) = text.trim().split_once('=')?;
    let (nodes, gpus) = size.split_once('x')?;
    let count = |text: &str| text.parse().ok().filter(|n| (1..=MAX_COUNT).contains(n));
    let named = !name.is_empty() && !name.contains(['/', ' ']);
    named.then_some(())?;
    Some(Pool {
        name: name.to_owned(),
        nodes: count(nodes)?,
        gpus: count(gpus)?,
    })
}

impl Pool {
    /// Returns the nodes of the pool. Only their GPUs are limited.
    pub(super) fn to_nodes(&self) -> impl Iterator<Item = Node> {
        (0..self.nodes).map(move |index| {
            let name = NodeName::new(format!("{}-{index:03}", self.name));
            self.node_template().to_node(name)
        })
    }

    fn node_template(&self) -> NodeTemplate {
        NodeTemplate {
            labels: self.labels(),
            taints: Vec::new(),
            allocatable: Resources::new()
                .with("pods", UNLIMITED_PODS)
                .with(GPU, self.gpus),
        }
    }

    fn labels(&self) -> BTreeMap<String, String> {
        [(POOL_LABEL.to_owned(), self.name.clone())].into()
    }

    /// Returns a flavor that may get all nodes of the pool, with the default times of the API.
    pub(super) fn growing_flavor(&self) -> Flavor {
        Flavor {
            node_labels: self.labels(),
            growth: Some(FlavorGrowth {
                node: self.node_template(),
                max_nodes: u32::try_from(self.nodes).unwrap_or(u32::MAX),
                timeout: Duration::from_secs(1_800),
                idle: Duration::from_secs(600),
                usual: None,
            }),
            ..Flavor::new(FlavorName::new(self.name.as_str()))
        }
    }

    /// Returns a queue that offers the flavor of the pool, and orders nodes for all its gangs.
    pub(super) fn growing_queue(
        &self,
        queue: Queue,
        quotas: BTreeMap<ResourceName, Quota>,
    ) -> Queue {
        Queue {
            resource_groups: vec![ResourceGroup {
                flavors: vec![FlavorQuotas {
                    flavor: FlavorName::new(self.name.as_str()),
                    quotas,
                }],
            }],
            provisioning: ProvisioningPolicy {
                scope: ProvisioningScope::Borrowing,
                after: Duration::from_secs(30),
                after_preemption: false,
            },
            ..queue
        }
    }

    /// Returns the constraints of a pod that must run on the pool's nodes.
    pub(super) fn constraints(name: &str) -> Constraints {
        Constraints {
            node_selector: [(POOL_LABEL.to_owned(), name.to_owned())].into(),
            ..Constraints::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_parsed_from_text() {
        let pools = parse_pools("vcvGl=20x8,vcvlY=2x4").unwrap();
        let read: Vec<_> = pools
            .iter()
            .map(|p| (p.name.as_str(), p.nodes, p.gpus))
            .collect();
        assert_eq!(read, [("vcvGl", 20, 8), ("vcvlY", 2, 4)]);
        let names: Vec<_> = pools[1].to_nodes().map(|n| n.name.to_string()).collect();
        assert_eq!(names, ["vcvlY-000", "vcvlY-001"]);
        for wrong in [
            "",
            "a",
            "a=8",
            "a=0x8",
            "a=8x",
            "=2x8",
            "a=1x1,a=1x1",
            "a=-1x8",
            "a=9999999x1",
        ] {
            assert!(parse_pools(wrong).is_err(), "{wrong}");
        }
    }
}
