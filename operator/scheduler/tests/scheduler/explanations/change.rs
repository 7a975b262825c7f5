//! Tests of the smallest change that an explanation names. With this change the gang runs, and with
//! any smaller change it does not.

use std::collections::BTreeMap;

use crate::common::*;
use crate::queues::{gpu_quota, queue_below, small_gang};
use proptest::prelude::*;
use trellis_scheduler::{
    Engine, Gang, GroupName, Node, NodeName, NodeRelease, Placement, PodKey, Queue, QueueName,
    Quota, QuotaRaise, ResourceName, Resources, Topology, TopologyLevel, TopologyName,
    TopologyRequest, UnblockingChange, WaitReason,
};

fn unblocking_change(engine: &mut Engine, gang: &Gang) -> Option<UnblockingChange> {
    let told = engine.try_gang(gang, ms(0)).err()?;
    told.change.map(|change| (*change).clone())
}

#[test]
fn change_lists_every_limit_in_the_way() {
    let mut engine = engine(gpu_nodes(4));
    let borrows = |limit| Quota {
        borrowing_limit: Some(limit),
        ..gpu_quota(0)
    };
    engine.apply_queue(queue_below("root", None, gpu_quota(8)));
    engine.apply_queue(queue_below("a", Some("root"), borrows(8)));
    engine.apply_queue(queue_below("b", Some("root"), gpu_quota(0)));
    engine.apply_gang(small_gang("b", "other", 5));
    engine.apply_gang(small_gang("a", "own", 3));
    assert_eq!(cycle(&mut engine), ["+own", "+other"]);
    let told = trial_explanation(&mut engine, &small_gang("a", "w", 6));
    let says = told.to_string();
    assert!(
        says.ends_with(
            "; it would fit with 1 more nvidia.com/gpu in the borrowing limit of queue \"a\", \
             6 more nvidia.com/gpu in the quota of queue \"root\""
        ),
        "{says}"
    );
    engine.apply_queue(queue_below("root", None, gpu_quota(14)));
    let told = trial_explanation(&mut engine, &small_gang("a", "w", 6)).to_string();
    assert!(
        told.contains("(its borrowing limit)") && !told.contains("it would fit"),
        "{told}"
    );
    engine.apply_queue(queue_below("a", Some("root"), borrows(9)));
    trial_placement(&mut engine, &small_gang("a", "w", 6));
}

#[test]
fn change_lists_the_nodes_with_the_least_to_free() {
    let mut engine = engine(gpu_nodes(3));
    for (node, used) in [("n00", 6), ("n01", 3), ("n02", 5)] {
        apply_pod(&mut engine, &format!("x/{node}"), node, gpu(1, used));
    }
    let says = trial_explanation(&mut engine, &workers("w", 1, gpu(1, 8))).to_string();
    assert_eq!(
        says,
        "needs 8 nvidia.com/gpu on one node; 10 are free on 3 nodes, at most 5 on one; it would \
         fit with 3 nvidia.com/gpu more free on \"n01\""
    );
    // 6 are missing in total, but 6 more on these nodes do not suffice.
    let says = trial_explanation(&mut engine, &workers("w", 2, gpu(1, 8))).to_string();
    assert!(
        says.contains("6 are missing")
            && says.ends_with(
                "; it would fit with 3 nvidia.com/gpu more free on \"n01\", 5 nvidia.com/gpu on \
                 \"n02\""
            ),
        "{says}"
    );
    let says = trial_explanation(&mut engine, &workers("w", 3, gpu(1, 8))).to_string();
    assert!(
        says.contains("14 are missing") && !says.contains("it would"),
        "{says}"
    );
}

fn any_quota(limits: bool) -> impl Strategy<Value = Quota> {
    let limit = move || {
        let limit = prop::option::of(0..6_i64);
        limit.prop_map(move |limit| limit.filter(|_| limits))
    };
    (0..8_i64, limit(), limit()).prop_map(|(nominal, borrowing_limit, lending_limit)| Quota {
        nominal,
        borrowing_limit,
        lending_limit,
    })
}

/// Generates a tree: `mid` and `c` are below `root`, and `a` and `b` below `mid`.
fn any_tree() -> impl Strategy<Value = BTreeMap<&'static str, Queue>> {
    (
        any_quota(false),
        any_quota(true),
        any_quota(true),
        any_quota(true),
        any_quota(true),
    )
        .prop_map(|(root, mid, a, b, c)| {
            [
                ("root", None, root),
                ("mid", Some("root"), mid),
                ("a", Some("mid"), a),
                ("b", Some("mid"), b),
                ("c", Some("root"), c),
            ]
            .map(|(name, parent, quota)| (name, queue_below(name, parent, quota)))
            .into()
        })
}

fn with_raised_limit(queue: &Queue, raise: &QuotaRaise, by: i128) -> Queue {
    let mut queue = queue.clone();
    let flavor = &mut queue.resource_groups[0].flavors[0];
    let quota = flavor.quotas.get_mut(&raise.resource).unwrap();
    let by = i64::try_from(by).unwrap();
    match &mut quota.borrowing_limit {
        Some(limit) if raise.borrowing_limit => *limit += by,
        _ => quota.nominal += by,
    }
    queue
}

/// A node of a rack, and the usage of another pod on it.
#[derive(Clone, Debug)]
struct UsedNode {
    node: Node,
    external_usage: (i64, i64),
}

fn any_used_nodes() -> impl Strategy<Value = Vec<UsedNode>> {
    let one = (1..9_i64, 1..9_i64, 0..9_i64, 0..9_i64, 0..2_u8);
    prop::collection::vec(one, 1..5).prop_map(|all| {
        let used = all.into_iter().enumerate();
        let used = used.map(
            |(at, (gpus, cores, used_gpus, used_cores, rack))| UsedNode {
                node: label(
                    node(&format!("n{at}"), gpu(cores, gpus).with("pods", 110)),
                    "rack",
                    &format!("r{rack}"),
                ),
                external_usage: (used_cores.min(cores), used_gpus.min(gpus)),
            },
        );
        used.collect()
    })
}

fn engine_with_freed_nodes(nodes: &[UsedNode], freed: &[NodeRelease]) -> Engine {
    let mut engine = engine([]);
    engine.apply_topology(Topology {
        name: TopologyName::new("hall"),
        levels: vec![TopologyLevel::from_label("rack")],
    });
    for UsedNode {
        node,
        external_usage: uses,
    } in nodes
    {
        engine.apply_node(node.clone());
        let mut request: Resources = gpu(uses.0, uses.1);
        let on = freed.iter().filter(|on| on.node == node.name);
        for (resource, amount) in on.flat_map(|on| &on.amounts) {
            let left = request.get(resource) - i64::try_from(*amount).unwrap();
            assert!(left >= 0, "more of {resource} than is used");
            request.set(resource.clone(), left);
        }
        let key = PodKey::new(format!("x/{}", node.name));
        engine.apply_pod(key, node.name.clone(), request);
    }
    engine
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn gang_runs_with_the_raised_limits_and_with_no_less(
        tree in any_tree(),
        held in prop::collection::vec((0..3_usize, 1..5_u32), 0..5),
        asker in 0..3_usize,
        pods in 1..9_u32,
    ) {
        let leaves = ["a", "b", "c"];
        let mut engine = engine([gpu_node("n", 64)]);
        for queue in tree.values() {
            engine.apply_queue(queue.clone());
        }
        for (at, (queue, pods)) in held.into_iter().enumerate() {
            let runs = vec![(NodeName::new("n"), pods)];
            let on: Placement = [(GroupName::new("worker"), runs)].into_iter().collect();
            engine.restore_gang(small_gang(leaves[queue], &format!("held{at}"), pods), on, ms(0));
        }
        let gang = small_gang(leaves[asker], "w", pods);
        let Some(change) = unblocking_change(&mut engine, &gang) else {
            prop_assert!(engine.try_gang(&gang, ms(0)).is_ok(), "a refusal without a change");
            return Ok(());
        };
        let UnblockingChange::Raise(raises) = change else {
            return Err(TestCaseError::fail("there is room"));
        };
        let told = engine.try_gang(&gang, ms(0)).unwrap_err();
        let is_never = told.reason == WaitReason::ExceedsQuota;
        prop_assert!(!raises.is_empty());
        // First the test raises each limit in turn by one less, then all by the full amount.
        for less in (0..raises.len()).map(Some).chain([None]) {
            let mut now = tree.clone();
            for (at, raise) in raises.iter().enumerate() {
                let by = raise.by - i128::from(less == Some(at));
                let queue = now.get_mut(raise.queue.as_str()).unwrap();
                *queue = with_raised_limit(queue, raise, by);
            }
            for queue in now.values() {
                engine.apply_queue(queue.clone());
            }
            // If the whole quota was too small, the raise must change the reason. Gangs may still
            // hold some of the quota.
            let helps = match engine.try_gang(&gang, ms(0)) {
                Ok(_) => true,
                Err(told) => is_never && told.reason != WaitReason::ExceedsQuota,
            };
            prop_assert_eq!(helps, less.is_none(), "{:?} {:?}", raises, less);
        }
    }

    #[test]
    fn gang_runs_with_the_freed_amounts_and_with_no_less(
        nodes in any_used_nodes(),
        pods in 1..4_u32,
        each in (0..4_i64, 1..6_i64),
        close in any::<bool>(),
    ) {
        let mut gang = workers("w", pods, gpu(each.0, each.1));
        gang.topology = close.then(|| TopologyRequest::required("rack"));
        let mut engine = engine_with_freed_nodes(&nodes, &[]);
        let Err(told) = engine.try_gang(&gang, ms(0)) else {
            return Ok(());
        };
        let never = [
            WaitReason::ExceedsCluster,
            WaitReason::ExceedsTopology,
            WaitReason::NoMatchingNodes,
        ];
        let Some(change) = told.change.as_deref() else {
            prop_assert!(never.contains(&told.reason), "{told}");
            return Ok(());
        };
        let UnblockingChange::Free(freed) = change else {
            return Err(TestCaseError::fail("there is quota"));
        };
        let runs = engine_with_freed_nodes(&nodes, freed).try_gang(&gang, ms(0));
        prop_assert!(runs.is_ok(), "{told}: {}", runs.unwrap_err());
        if !close {
            prop_assert_eq!(Some(total_gpus(freed)), fewest_gpus(&gang, &nodes));
        }
        for at in 0..freed.len() {
            let mut less = freed.clone();
            let gpu = ResourceName::new(GPU);
            let Some((_, amount)) = less[at].amounts.iter_mut().find(|(r, _)| *r == gpu) else {
                continue;
            };
            *amount -= 1;
            prop_assert!(engine_with_freed_nodes(&nodes, &less).try_gang(&gang, ms(0)).is_err(), "{told}");
        }
    }

    /// The change that the engine reports for several groups lets them run. A smaller one may
    /// exist.
    #[test]
    fn gang_of_several_groups_runs_with_the_freed_amounts(
        nodes in any_used_nodes(),
        pods in (1..4_u32, 1..3_u32),
        each in (0..4_i64, 1..6_i64),
        other in (0..6_i64, 0..4_i64),
        close in (any::<bool>(), any::<bool>()),
    ) {
        let rack = || TopologyRequest::required("rack");
        let mut first = group("first", pods.0, gpu(each.0, each.1));
        first.topology = close.0.then(rack);
        let mut gang = gang("w", vec![first, group("second", pods.1, gpu(other.0, other.1))]);
        gang.topology = close.1.then(rack);
        let Err(told) = engine_with_freed_nodes(&nodes, &[]).try_gang(&gang, ms(0)) else {
            return Ok(());
        };
        let Some(UnblockingChange::Free(freed)) = told.change.as_deref() else {
            return Ok(());
        };
        let runs = engine_with_freed_nodes(&nodes, freed).try_gang(&gang, ms(0));
        prop_assert!(runs.is_ok(), "{told}: {}", runs.unwrap_err());
        if close == (false, false) {
            let fewest = fewest_gpus(&gang, &nodes);
            prop_assert!(fewest.is_some_and(|fewest| total_gpus(freed) >= fewest), "{}", told);
        }
    }
}

fn total_gpus(freed: &[NodeRelease]) -> i64 {
    let all = freed.iter().flat_map(|on| &on.amounts);
    let gpus = all.filter(|(resource, _)| resource.as_str() == GPU);
    gpus.map(|(_, amount)| i64::try_from(*amount).unwrap())
        .sum()
}

/// Returns the fewest GPUs that must become free for the gang. Tries every way.
fn fewest_gpus(gang: &Gang, nodes: &[UsedNode]) -> Option<i64> {
    let pods: Vec<&Resources> = gang
        .groups
        .iter()
        .flat_map(|group| (0..group.count).map(|_| &group.request))
        .collect();
    let ways = nodes.len().pow(u32::try_from(pods.len()).unwrap());
    let costs = (0..ways).filter_map(|way| {
        let mut way = way;
        let mut asked = vec![(0, 0); nodes.len()];
        for pod in &pods {
            let on = &mut asked[way % nodes.len()];
            way /= nodes.len();
            let of = |resource: &str| pod.get(&ResourceName::new(resource));
            *on = (on.0 + of("cpu"), on.1 + of(GPU));
        }
        let costs = nodes.iter().zip(asked).map(|(used, (cores, gpus))| {
            let has = |resource: &str| used.node.allocatable.get(&ResourceName::new(resource));
            let fits = cores <= has("cpu") && gpus <= has(GPU);
            fits.then(|| (gpus + used.external_usage.1 - has(GPU)).clamp(0, gpus))
        });
        costs.sum::<Option<i64>>()
    });
    costs.min()
}

#[test]
fn missing_queue_has_no_change() {
    let mut engine = engine(gpu_nodes(1));
    let mut gang = workers("w", 1, gpu(1, 1));
    gang.queue = QueueName::new("nope");
    assert_eq!(unblocking_change(&mut engine, &gang), None);
}
