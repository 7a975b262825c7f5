//! Tests that the engine admits a gang exactly if it fits under the quota rules. They check against
//! every choice of flavors and every placement, with a second implementation of the formula of
//! docs/queues.md. The check is exact up to 64 choices of flavors. `flavors_assignments` tests
//! larger numbers.

use std::collections::BTreeMap;

use crate::common::*;
use crate::flavors::offered::queue_with_flavors;
use crate::queues::flavor;
use proptest::prelude::*;
use trellis_scheduler::{
    Engine, FlavorName, Gang, GroupFlavors, GroupName, NodeName, Placement, Queue, QueueName,
    Quota, ResourceName, TaskGroup,
};

const FLAVORS: [&str; 2] = ["x", "y"];
/// The root, and two queues below it.
const QUEUES: [&str; 3] = ["all", "a", "b"];

/// The quotas by queue, then by flavor.
type Quotas = [[Quota; 2]; 3];

#[derive(Clone, Debug)]
struct Case {
    quotas: Quotas,
    /// True if `b` has no quotas, so that it may use idle quota.
    b_has_no_quotas: bool,
    /// The GPUs of each node, and its flavor.
    nodes: Vec<(i64, usize)>,
    /// A gang of one pod: its queue, its node, its GPUs.
    held: Vec<(usize, usize, i64)>,
    preemptor_queue: usize,
    /// For each group: the number of pods, the GPUs of each pod, and the only flavor.
    groups: Vec<(u32, i64, Option<usize>)>,
}

fn any_quota() -> impl Strategy<Value = Quota> {
    let limit = || prop::option::weighted(0.4, 0..5_i64);
    (0..6_i64, limit(), limit()).prop_map(|(nominal, borrowing_limit, lending_limit)| Quota {
        nominal,
        borrowing_limit,
        lending_limit,
    })
}

fn any_case() -> impl Strategy<Value = Case> {
    let two = || [any_quota(), any_quota()];
    let group = (1..3_u32, 1..4_i64, prop::option::weighted(0.3, 0..2_usize));
    (
        ([two(), two(), two()], prop::bool::weighted(0.2)),
        prop::collection::vec((0..5_i64, 0..2_usize), 1..5),
        prop::collection::vec((1..3_usize, 0..4_usize, 1..4_i64), 0..4),
        1..3_usize,
        prop::collection::vec(group, 1..3),
    )
        .prop_map(|((quotas, open), nodes, mut held, asker, groups)| {
            let mut free: Vec<i64> = nodes.iter().map(|(gpus, _)| *gpus).collect();
            held.retain(|(_, node, gpus)| {
                let Some(free) = free.get_mut(*node).filter(|free| **free >= *gpus) else {
                    return false;
                };
                *free -= gpus;
                true
            });
            Case {
                quotas,
                b_has_no_quotas: open,
                nodes,
                held,
                preemptor_queue: asker,
                groups,
            }
        })
}

impl Case {
    fn engine(&self) -> Engine {
        let mut engine = engine([]);
        for name in FLAVORS {
            engine.apply_flavor(flavor(name));
        }
        for (at, queue) in QUEUES.iter().enumerate() {
            let parent = (at > 0).then_some(QUEUES[0]);
            let mut queue = queue_with_flavors(queue, parent, &[("x", 0), ("y", 0)]);
            for (flavor, quota) in self.quotas[at].iter().enumerate() {
                let quotas = &mut queue.resource_groups[0].flavors[flavor].quotas;
                quotas.insert(ResourceName::new(GPU), *quota);
            }
            if self.b_has_no_quotas && at == 2 {
                queue = Queue {
                    parent: queue.parent,
                    ..Queue::new(queue.name)
                };
            }
            engine.apply_queue(queue);
        }
        for (at, (gpus, of)) in self.nodes.iter().enumerate() {
            let node = gpu_node(&format!("n{at}"), *gpus);
            engine.apply_node(label(node, "gpu", FLAVORS[*of]));
        }
        for (at, (queue, node, gpus)) in self.held.iter().enumerate() {
            let gang = Gang {
                queue: QueueName::new(QUEUES[*queue]),
                ..workers(&format!("held{at}"), 1, gpu(1, *gpus))
            };
            let runs = vec![(NodeName::new(format!("n{node}")), 1)];
            let on: Placement = [(GroupName::new("worker"), runs)].into_iter().collect();
            let of = FlavorName::new(FLAVORS[self.nodes[*node].1]);
            let given = GroupFlavors {
                group: GroupName::new("worker"),
                flavors: [GPU, "cpu"]
                    .map(|r| (ResourceName::new(r), of.clone()))
                    .into(),
            };
            engine.restore_gang_with_flavors(gang, on, &[given], ms(0));
        }
        engine
    }

    fn gang(&self) -> Gang {
        let groups = self.groups.iter().enumerate();
        let groups = groups.map(|(at, (pods, gpus, only))| TaskGroup {
            flavors: only
                .iter()
                .map(|of| FlavorName::new(FLAVORS[*of]))
                .collect(),
            ..group(&format!("g{at}"), *pods, gpu(0, *gpus))
        });
        Gang {
            queue: QueueName::new(QUEUES[self.preemptor_queue]),
            ..gang("w", groups.collect())
        }
    }

    fn usage(&self, queue: usize, flavor: usize) -> i64 {
        let held = self.held.iter();
        let of = held.filter(|(q, node, _)| *q == queue && self.nodes[*node].1 == flavor);
        of.map(|(.., gpus)| gpus).sum()
    }

    fn quota(&self, queue: usize, flavor: usize) -> Quota {
        if self.b_has_no_quotas && queue == 2 {
            return Quota::default();
        }
        self.quotas[queue][flavor]
    }

    /// Returns the amount of a flavor that the preemptor may still get.
    fn available(&self, flavor: usize) -> i64 {
        let local = |q: usize| {
            let quota = self.quota(q, flavor);
            quota
                .lending_limit
                .map_or(0, |limit| (quota.nominal - limit).max(0))
        };
        let own = self.quota(self.preemptor_queue, flavor);
        let below = [1, 2];
        let lent: i64 = below
            .iter()
            .map(|q| self.quota(*q, flavor).nominal - local(*q))
            .sum();
        let used: i64 = below
            .iter()
            .map(|q| (self.usage(*q, flavor) - local(*q)).max(0))
            .sum();
        let root = self.quota(0, flavor).nominal + lent - used;
        let (local, usage) = (
            local(self.preemptor_queue),
            self.usage(self.preemptor_queue, flavor),
        );
        let mut beyond = root;
        if let Some(limit) = own.borrowing_limit {
            let left = own.nominal - local - (usage - local).max(0) + limit;
            beyond = beyond.min(left);
        }
        if usage <= local {
            beyond = beyond.max(0);
        }
        (local - usage).max(0) + beyond
    }

    /// Returns true if some choice of flavors has quota and a place.
    fn fits(&self) -> bool {
        let mut free: Vec<i64> = self.nodes.iter().map(|(gpus, _)| *gpus).collect();
        for (_, node, gpus) in &self.held {
            free[*node] -= gpus;
        }
        let ways = 1_usize << self.groups.len();
        (0..ways).any(|way| {
            let of = |group: usize| way >> group & 1;
            let groups = || self.groups.iter().enumerate();
            let named = groups().all(|(at, (.., only))| only.is_none_or(|only| only == of(at)));
            let quota = [0, 1].into_iter().all(|flavor| {
                let needs = groups().filter(|(at, _)| of(*at) == flavor);
                let needs: i64 = needs
                    .map(|(_, (pods, gpus, _))| i64::from(*pods) * gpus)
                    .sum();
                needs == 0 || needs <= self.available(flavor)
            });
            let pods = groups().flat_map(|(at, (pods, gpus, _))| {
                std::iter::repeat_n((of(at), *gpus), *pods as usize)
            });
            named && quota && self.can_place(&pods.collect::<Vec<_>>(), &mut free.clone())
        })
    }

    fn can_place(&self, pods: &[(usize, i64)], free: &mut [i64]) -> bool {
        let [(flavor, gpus), rest @ ..] = pods else {
            return true;
        };
        (0..free.len()).any(|node| {
            if self.nodes[node].1 != *flavor || free[node] < *gpus {
                return false;
            }
            free[node] -= gpus;
            let found = self.can_place(rest, free);
            free[node] += gpus;
            found
        })
    }
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn gang_is_admitted_exactly_when_it_fits_the_quota_rules(case in any_case()) {
        let mut engine = case.engine();
        let told = engine.try_gang(&case.gang(), ms(0));
        prop_assert_eq!(told.is_ok(), case.fits(), "{:?}", told.map_err(|c| c.to_string()));
        if let Ok(outlook) = told {
            // The engine charges the gang to the flavors of its nodes.
            engine.apply_gang(case.gang());
            engine.cycle(ms(0));
            let flavors = engine.flavors(&id("w")).unwrap();
            let of: BTreeMap<_, _> = flavors.into_iter().map(|g| (g.group, g.flavors)).collect();
            for (group, _, node) in outlook.placement.iter() {
                let at: usize = node.as_str().trim_start_matches('n').parse().unwrap();
                let given = &of[group][&ResourceName::new(GPU)];
                prop_assert_eq!(given.as_str(), FLAVORS[case.nodes[at].1]);
            }
        }
    }
}

#[test]
fn ten_thousand_queues_follow_the_quota_rules() {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_queue(crate::queues::queue_below(
        "all",
        None,
        crate::queues::gpu_quota(16),
    ));
    for at in 0..10_000 {
        let queue = crate::queues::queue_below(
            &format!("q{at:05}"),
            Some("all"),
            crate::queues::gpu_quota(0),
        );
        engine.apply_queue(queue);
    }
    for at in (0..10_000).step_by(100) {
        let gang = workers(&format!("w{at:05}"), 1, gpu(1, 1));
        engine.apply_gang(Gang {
            queue: QueueName::new(format!("q{at:05}")),
            ..gang
        });
    }
    let told = cycle(&mut engine);
    let started = told.iter().filter(|d| d.starts_with('+')).count();
    assert_eq!(
        (started, told.len()),
        (16, 100),
        "one turn each, as long as there is quota"
    );
    let waits = told.iter().filter(|d| d.ends_with("QuotaExceeded")).count();
    assert_eq!(waits, 84);
    engine.delete_queue(&QueueName::new("all"));
    assert!(
        cycle(&mut engine)
            .iter()
            .all(|d| d.ends_with("QueueMisconfigured"))
    );
}
