//! Orders of new nodes: a gang of 64 nodes on 5,000 full nodes, of a flavor that may have 1,000 more.

use std::collections::BTreeMap;
use std::time::Duration;

use trellis_scheduler::{
    Engine, Flavor, FlavorGrowth, FlavorName, FlavorQuotas, Gang, GangId, NodeTemplate,
    ProvisioningPolicy, ProvisioningScope, Queue, QueueName, Quota, ResourceGroup, ResourceName,
    Resources,
};

use crate::cluster::{Fleet, gang, now, pod};
use crate::row::Row;
use crate::timing::{time_run, time_runs};

const NODES: usize = 5_000;
const MAX_NEW_NODES: u32 = 1_000;

/// Returns an engine whose nodes have no free GPU.
fn full_engine() -> Engine {
    let mut engine = Fleet::with_nodes(NODES).engine();
    let flavor = FlavorName::new("h100");
    let growth = FlavorGrowth {
        node: NodeTemplate {
            labels: BTreeMap::new(),
            taints: Vec::new(),
            allocatable: Resources::new()
                .with("cpu", 96_000)
                .with("memory", 1 << 40)
                .with("pods", 110)
                .with("nvidia.com/gpu", 8),
        },
        max_nodes: MAX_NEW_NODES + u32::try_from(NODES).unwrap_or(u32::MAX),
        timeout: Duration::from_secs(1_800),
        idle: Duration::from_secs(600),
        usual: None,
    };
    engine.apply_flavor(Flavor {
        growth: Some(growth),
        ..Flavor::new(flavor.clone())
    });
    let quota = Quota {
        nominal: 1 << 60,
        ..Quota::default()
    };
    let resources = ["cpu", "memory", "nvidia.com/gpu"];
    let quotas = resources.map(|name| (ResourceName::new(name), quota));
    engine.apply_queue(Queue {
        resource_groups: vec![ResourceGroup {
            flavors: vec![FlavorQuotas {
                flavor,
                quotas: quotas.into(),
            }],
        }],
        provisioning: ProvisioningPolicy {
            scope: ProvisioningScope::Nominal,
            ..ProvisioningPolicy::default()
        },
        ..Queue::new(QueueName::new("default"))
    });
    for i in 0..8 * NODES {
        let (key, node, request) = pod(i, NODES);
        engine.apply_pod(key, node, request);
    }
    engine
}

pub(crate) fn print_provisioning(print: &impl Fn(Row)) {
    let mut engine = full_engine();
    for (provisions, nodes, case) in [
        (false, 64, "refuse 64 x 8 GPUs, 5,000 full nodes"),
        (
            true,
            64,
            "order 64 new nodes of up to 1,000, 5,000 full nodes",
        ),
        (
            true,
            1_001,
            "refuse 1,001 new nodes of up to 1,000, 5,000 full nodes",
        ),
    ] {
        let orders = provisions && nodes <= MAX_NEW_NODES;
        let took = time_runs(60, |i| {
            let name = format!("team/large-{provisions}-{nodes}-{i}");
            engine.apply_gang(Gang {
                provisions,
                ..gang(&name, nodes, 8, None)
            });
            let (took, _) = time_run(|| engine.cycle(now(i)));
            let id = GangId::new(name);
            assert_eq!(engine.provisioning(&id).is_some(), orders);
            engine.delete_gang(&id);
            engine.cycle(now(i));
            took
        });
        print(Row::new(case, took.median));
    }
}
