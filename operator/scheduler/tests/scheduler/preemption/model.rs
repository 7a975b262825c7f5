//! Tests of preemption on small random clusters, against every set of victims. Random sequences
//! show that gangs do not preempt each other in circles.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::common::*;
use crate::oracle::{FreeAmounts, feasible};
use crate::random::{any_fair_share, any_gang, any_node};
use proptest::prelude::*;
use trellis_scheduler::{
    BorrowWithinPolicy, Decision, Engine, Gang, GangId, Node, Placement, PreemptionPolicy, Queue,
    QueueName, Quota, ReclaimPolicy, ResourceName, Time, UsageDecay, Weight, WithinQueuePolicy,
};

const NODES: usize = 4;

fn preempting_queue(within_queue: WithinQueuePolicy) -> Queue {
    Queue {
        preemption: PreemptionPolicy {
            within_queue,
            ..PreemptionPolicy::default()
        },
        ..Queue::new(QueueName::new("default"))
    }
}

fn any_nodes() -> impl Strategy<Value = Vec<Node>> {
    prop::collection::vec(any_node(NODES), 1..=NODES).prop_map(|nodes| {
        let by_name: BTreeMap<_, _> = nodes.into_iter().map(|n| (n.name.clone(), n)).collect();
        by_name.into_values().collect()
    })
}

fn any_gangs() -> impl Strategy<Value = Vec<Gang>> {
    let one = |at: usize| {
        let kept = prop::bool::weighted(0.15);
        let safe = prop::bool::weighted(0.15);
        let surplus = prop::bool::weighted(0.25);
        let gang = any_gang(format!("w{at}"), NODES);
        (gang, kept, safe, surplus).prop_map(|(gang, kept, safe, surplus)| Gang {
            queue: QueueName::new("default"),
            preemptible: !kept,
            min_runtime: Duration::from_secs(if safe { 3600 } else { 0 }),
            surplus,
            ..gang
        })
    };
    (one(0), one(1), one(2), one(3), one(4)).prop_map(|(a, b, c, d, e)| vec![a, b, c, d, e])
}

/// Returns the free capacity when all of these gangs are placed.
fn free_amounts_with(nodes: &[Node], places: &[(&Gang, &Placement)]) -> FreeAmounts {
    let all = |n: &Node| n.allocatable.iter().map(|(r, a)| (r.clone(), a)).collect();
    let mut free: FreeAmounts = nodes.iter().map(|n| (n.name.clone(), all(n))).collect();
    for (gang, placement) in places {
        for (name, _, node) in placement.iter() {
            let group = gang.groups.iter().find(|g| g.name == *name).unwrap();
            let own = group.request.iter().map(|(r, n)| (r.clone(), n));
            for (resource, amount) in own.chain([(ResourceName::new("pods"), 1)]) {
                if let Some(left) = free.get_mut(node).unwrap().get_mut(&resource) {
                    *left -= amount;
                }
            }
        }
    }
    free
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn victims_suffice_and_each_is_needed(
        nodes in any_nodes(),
        gangs in any_gangs(),
        asker in any_gang("asker".into(), NODES),
        newer in prop::bool::ANY,
        preempts in prop::bool::weighted(0.8),
    ) {
        let policy = if newer { WithinQueuePolicy::LowerOrNewerEqualPriority } else { WithinQueuePolicy::LowerPriority };
        let mut engine = engine(nodes.clone());
        engine.apply_queue(queue("default", None));
        let mut places: BTreeMap<GangId, Placement> = BTreeMap::new();
        for gang in &gangs {
            engine.apply_gang(gang.clone());
        }
        for decision in engine.cycle(ms(0)) {
            if let Decision::Place { gang, placement, .. } = decision {
                places.insert(gang, placement);
            }
        }
        engine.apply_queue(preempting_queue(policy));
        let asker = Gang { queue: QueueName::new("default"), preempts, ..asker };
        let now = Time::from_millis(1_000);

        let may = |gang: &Gang| {
            let lower = gang.priority < asker.priority;
            let later = gang.priority == asker.priority && gang.submitted > asker.submitted;
            let may = gang.preemptible && gang.min_runtime.is_zero() && (lower || (newer && later));
            (may && asker.preempts) || gang.surplus
        };
        let rank = |gang: &Gang| (!gang.surplus, gang.priority);
        let placed: Vec<(&Gang, &Placement)> = gangs
            .iter()
            .filter_map(|g| Some((g, places.get(&g.id)?)))
            .collect();
        let without = |out: &dyn Fn(&Gang) -> bool| {
            let stay: Vec<_> = placed.iter().filter(|(g, _)| !out(g)).copied().collect();
            feasible(&asker, &nodes, free_amounts_with(&nodes, &stay))
        };
        match engine.try_gang(&asker, now) {
            Ok(outlook) if outlook.victims.is_empty() => prop_assert!(without(&|_| false)),
            Ok(outlook) => {
                let victims: BTreeSet<&GangId> = outlook.victims.iter().map(|v| &v.gang).collect();
                prop_assert!(!without(&|_| false), "it fits as things are");
                for (gang, _) in &placed {
                    prop_assert!(!victims.contains(&gang.id) || may(gang), "{} is no victim", gang.id);
                }
                prop_assert!(without(&|g| victims.contains(&g.id)), "they do not suffice");
                for one in &victims {
                    let fewer = |g: &Gang| victims.contains(&g.id) && g.id != **one;
                    prop_assert!(!without(&fewer), "{} need not go", one);
                }
                // If the gang fits without victims of the highest priority, the victims include
                // none of that priority. Surplus is below all priorities.
                let highest = placed.iter().filter(|(g, _)| victims.contains(&g.id)).map(|(g, _)| rank(g)).max();
                let below = |g: &Gang| may(g) && Some(rank(g)) < highest;
                prop_assert!(!without(&below), "lower priority would have done");
                // The placement is valid after the victims have left.
                let stay: Vec<_> = placed.iter().filter(|(g, _)| !victims.contains(&g.id)).copied().collect();
                let mut all = stay.clone();
                all.push((&asker, &outlook.placement));
                let before = free_amounts_with(&nodes, &stay);
                for (node, left) in free_amounts_with(&nodes, &all) {
                    let before = &before[&node];
                    for (resource, left) in left {
                        prop_assert!(left >= 0 || left == before[&resource], "{} is overbooked", node);
                    }
                }
            }
            Err(_) => {
                // The gang does not fit even without all gangs that the policies allow as victims.
                prop_assert!(!without(&|g| may(g)), "room could be made");
            }
        }
        // The trial leaves the engine unchanged.
        for (gang, placement) in &placed {
            prop_assert_eq!(engine.placement(&gang.id), Some((*placement).clone()));
        }
    }
}

const TEAMS: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
struct Team {
    nominal: i64,
    /// Cores of nominal quota. None: plenty.
    cores: Option<i64>,
    borrowing_limit: Option<i64>,
    /// The weight, in thousandths.
    weight: u32,
    preemption: PreemptionPolicy,
}

fn any_team() -> impl Strategy<Value = Team> {
    let within = prop_oneof![
        Just(WithinQueuePolicy::Never),
        Just(WithinQueuePolicy::LowerPriority),
        Just(WithinQueuePolicy::LowerOrNewerEqualPriority)
    ];
    let reclaim = prop_oneof![
        Just(ReclaimPolicy::Never),
        Just(ReclaimPolicy::LowerPriority),
        Just(ReclaimPolicy::Any)
    ];
    let borrow = prop_oneof![
        Just(BorrowWithinPolicy::Never),
        prop::option::of(0..3_i32)
            .prop_map(|max_priority| BorrowWithinPolicy::LowerPriority { max_priority }),
        any_fair_share(),
    ];
    let limit = prop::option::weighted(0.3, 0..6_i64);
    let cores = prop::option::weighted(0.5, 0..6_i64);
    let weight = prop_oneof![3 => Just(1_000), 1 => Just(0), 1 => Just(2_500)];
    ((0..6_i64, cores, weight), limit, within, reclaim, borrow).prop_map(
        |((nominal, cores, weight), borrowing_limit, within_queue, reclaim, borrow_within)| Team {
            weight,
            nominal,
            cores,
            borrowing_limit,
            preemption: PreemptionPolicy {
                within_queue,
                reclaim,
                borrow_within,
            },
        },
    )
}

proptest! {
    #![proptest_config(cases(600))]

    /// Teams reclaim from each other and borrow, and victims come back at once. After a bounded
    /// number of preemptions there are no more decisions, for every set of pending gangs.
    #[test]
    fn reclaim_between_teams_reaches_a_stable_state(
        teams in prop::collection::vec(any_team(), 3),
        gangs in prop::collection::vec(
            (0..3_usize, 1..5_u32, (0..3_i64, 0..3_i64), 0..3_i32, prop::bool::weighted(0.8)),
            1..14,
        ),
    ) {
        let mut engine = Engine::with_decay(UsageDecay::with_half_life(0));
        for node in gpu_nodes(2).into_iter().take(2) {
            engine.apply_node(node);
        }
        engine.apply_queue(Queue::new(QueueName::new("all")));
        for (name, team) in TEAMS.iter().zip(&teams) {
            let quota = Quota { nominal: team.nominal, borrowing_limit: team.borrowing_limit, lending_limit: None };
            let cores = team.cores.map_or(1 << 40, |cores| cores * 1_000);
            let cpu = Quota { nominal: cores, ..Quota::default() };
            let quotas = [(ResourceName::new(GPU), quota), (ResourceName::new("cpu"), cpu)];
            engine.apply_queue(Queue {
                parent: Some(QueueName::new("all")),
                preemption: team.preemption,
                weight: Weight::from_thousandths(team.weight),
                ..Queue::new(QueueName::new(*name)).with_quotas(quotas)
            });
        }
        let mut preemptions = 0_usize;
        let mut quiet = 0_usize;
        let mut second = 0_i64;
        let mut coming = gangs.iter().enumerate();
        while quiet < 3 {
            second += 1;
            if let Some((at, (team, pods, (cores, gpus), priority, preempts))) = coming.next() {
                engine.apply_gang(Gang {
                    priority: *priority,
                    preempts: *preempts,
                    submitted: Time::from_millis(second),
                    queue: QueueName::new(TEAMS[*team]),
                    ..workers(&format!("g{at}"), *pods, gpu(*cores, *gpus))
                });
            }
            let decisions = engine.cycle(Time::from_millis(second * 1_000));
            quiet = if decisions.is_empty() { quiet + 1 } else { 0 };
            for decision in &decisions {
                if let Decision::Preempt { victims, .. } = decision {
                    preemptions += victims.len();
                    for victim in victims {
                        engine.release_gang(&victim.gang, None);
                    }
                }
            }
            // Each gang preempts at most once before it is preempted itself. Gangs that come back
            // preempt only within their queue's own quota, or queues with a larger share.
            let most = gangs.len() * gangs.len() * 2;
            prop_assert!(preemptions <= most, "{preemptions} preemptions of {} gangs", gangs.len());
            prop_assert!(second < 2_000);
            for node in ["n00", "n01"] {
                prop_assert!(free_amount(&engine, node, GPU) >= 0);
            }
        }
    }
}
