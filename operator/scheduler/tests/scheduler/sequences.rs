//! Random sequences of events: after each, the engine's arrays equal a recount,
//! no placement overbooks, and the engine equals one that is built from the
//! final state, in what it counts, decides and says.

use std::time::Duration;

use crate::common::*;
use crate::model::{Model, with_pod};
use crate::random::{
    QUEUES, any_close_gang, any_labelled_node, any_request, any_runtime, node_name, topologies,
};
use proptest::prelude::*;
use trellis_scheduler::{
    Because, BorrowWithin, Decay, Decision, Engine, Gang, GangId, Node, Placement, PodKey,
    Preemption, QueueName, Reclaim, Resources, Stop, Time, Victim, WithinQueue,
};

const NODES: usize = 4;
const GANGS: usize = 5;
const ROOT: &str = "root";

/// What else differs between queues.
#[derive(Clone, Copy, Debug, Default)]
struct QueueFlags {
    stop: Stop,
    below: bool,
    no_backfill: bool,
    default_runtime: Option<Duration>,
    preemption: Preemption,
}

#[derive(Clone, Debug)]
enum Event {
    ApplyNode(Node),
    DeleteNode(usize),
    ApplyForeign(usize, usize, Resources),
    DeleteForeign(usize),
    ApplyQueue(usize, Option<(i64, i64)>, QueueFlags),
    /// The queue that others may be below.
    ApplyRoot(Option<(i64, i64)>),
    DeleteRoot,
    DeleteQueue(usize),
    ApplyGang(Gang),
    DeleteGang(usize),
    ReleaseGang(usize, Option<i64>),
    /// A topology, with all of its levels or without the first.
    ApplyTopology(usize, bool),
    DeleteTopology(usize),
    /// A planned pod of a gang is seen where it was planned, or elsewhere.
    SeeMember(usize, usize, Option<usize>),
    /// A pod of a gang is gone.
    LoseMember(usize, usize),
    /// A cycle, so much later than the one before.
    Cycle(i64),
}

fn any_stop() -> impl Strategy<Value = Stop> {
    prop_oneof![
        17 => Just(Stop::None),
        2 => Just(Stop::Hold),
        1 => Just(Stop::HoldAndDrain),
    ]
}

fn any_preemption() -> impl Strategy<Value = Preemption> {
    let within = prop_oneof![
        2 => Just(WithinQueue::Never),
        1 => Just(WithinQueue::LowerPriority),
        1 => Just(WithinQueue::LowerOrNewerEqualPriority),
    ];
    let reclaim = prop_oneof![
        2 => Just(Reclaim::Never),
        1 => Just(Reclaim::LowerPriority),
        1 => Just(Reclaim::Any),
    ];
    let borrow = prop_oneof![
        2 => Just(BorrowWithin::Never),
        1 => Just(BorrowWithin::LowerPriority { max_priority: None }),
    ];
    (within, reclaim, borrow).prop_map(|(within_queue, reclaim, borrow_within)| Preemption {
        within_queue,
        reclaim,
        borrow_within,
    })
}

fn any_flags() -> impl Strategy<Value = QueueFlags> {
    let flags = (
        any_stop(),
        prop::bool::ANY,
        prop::bool::weighted(0.2),
        any_runtime(),
        any_preemption(),
    );
    flags.prop_map(
        |(stop, below, no_backfill, default_runtime, preemption)| QueueFlags {
            stop,
            below,
            no_backfill,
            default_runtime,
            preemption,
        },
    )
}

fn any_event() -> impl Strategy<Value = Event> {
    let gang = (0..GANGS).prop_flat_map(|g| any_close_gang(format!("w{g}"), NODES));
    let quota = prop_oneof![Just(None), (0..12_i64, 0..8_i64).prop_map(Some)];
    prop_oneof![
        4 => any_labelled_node(NODES).prop_map(Event::ApplyNode),
        1 => (0..NODES).prop_map(Event::DeleteNode),
        2 => (0..3_usize, 0..NODES, any_request()).prop_map(|(p, n, r)| Event::ApplyForeign(p, n, r)),
        1 => (0..3_usize).prop_map(Event::DeleteForeign),
        2 => (0..2_usize, quota.clone(), any_flags()).prop_map(|(q, n, f)| Event::ApplyQueue(q, n, f)),
        1 => quota.prop_map(Event::ApplyRoot),
        1 => Just(Event::DeleteRoot),
        1 => (0..2_usize).prop_map(Event::DeleteQueue),
        3 => (0..2_usize, prop::bool::weighted(0.8)).prop_map(|(t, all)| Event::ApplyTopology(t, all)),
        1 => (0..2_usize).prop_map(Event::DeleteTopology),
        6 => gang.prop_map(Event::ApplyGang),
        1 => (0..GANGS).prop_map(Event::DeleteGang),
        1 => (0..GANGS, prop::option::of(0..9_i64)).prop_map(|(g, t)| Event::ReleaseGang(g, t)),
        3 => (0..GANGS, 0..9_usize, prop::option::weighted(0.1, 0..NODES))
            .prop_map(|(g, p, n)| Event::SeeMember(g, p, n)),
        1 => (0..GANGS, 0..9_usize).prop_map(|(g, p)| Event::LoseMember(g, p)),
        5 => (0..4_i64).prop_map(Event::Cycle),
        1 => Just(Event::Cycle(600_000)),
    ]
}

fn gang_id(at: usize) -> GangId {
    id(&format!("w{at}"))
}

fn apply(engine: &mut Engine, model: &mut Model, event: Event) -> Result<(), TestCaseError> {
    match event {
        Event::ApplyNode(node) => {
            engine.apply_node(node.clone());
            model.nodes.insert(node.name.clone(), node);
        }
        Event::DeleteNode(at) => {
            engine.delete_node(&node_name(at));
            model.nodes.remove(&node_name(at));
        }
        Event::ApplyForeign(pod, node, request) => {
            let key = PodKey::new(format!("x/{pod}"));
            engine.apply_pod(key.clone(), node_name(node), request.clone());
            model.see(key, node_name(node), request);
        }
        Event::DeleteForeign(pod) => {
            let key = PodKey::new(format!("x/{pod}"));
            engine.delete_pod(&key);
            model.pods.remove(&key);
        }
        Event::ApplyQueue(at, quota, flags) => {
            let quota = quota.map(|(cpu, gpu)| [("cpu", cpu), (GPU, gpu)]);
            let mut queue = queue(QUEUES[at], quota.as_ref().map(|q| &q[..]));
            queue.stop = flags.stop;
            queue.preemption = flags.preemption;
            queue.parent = flags.below.then(|| QueueName::new(ROOT));
            queue.backfill = !flags.no_backfill;
            queue.default_runtime = flags.default_runtime;
            engine.apply_queue(queue.clone());
            model.queues.insert(queue.name.clone(), queue);
        }
        Event::ApplyRoot(quota) => {
            let quota = quota.map(|(cpu, gpu)| [("cpu", cpu), (GPU, gpu)]);
            let root = queue(ROOT, quota.as_ref().map(|q| &q[..]));
            engine.apply_queue(root.clone());
            model.queues.insert(root.name.clone(), root);
        }
        Event::DeleteRoot => {
            engine.delete_queue(&QueueName::new(ROOT));
            model.queues.remove(ROOT);
        }
        Event::DeleteQueue(at) => {
            engine.delete_queue(&QueueName::new(QUEUES[at]));
            model.queues.remove(QUEUES[at]);
        }
        Event::ApplyTopology(at, all) => {
            let mut topology = topologies()[at].clone();
            if !all {
                topology.levels.remove(0);
            }
            engine.apply_topology(topology.clone());
            model.topologies.insert(topology.name.clone(), topology);
        }
        Event::DeleteTopology(at) => {
            let name = &topologies()[at].name;
            engine.delete_topology(name);
            model.topologies.remove(name);
        }
        Event::ApplyGang(gang) => {
            engine.apply_gang(gang.clone());
            model.gangs.insert(gang.id.clone(), gang);
        }
        Event::DeleteGang(at) => {
            engine.delete_gang(&gang_id(at));
            model.gangs.remove(&gang_id(at));
            model.unplace(&gang_id(at));
            model.back_off.remove(&gang_id(at));
        }
        Event::ReleaseGang(at, not_before) => {
            let id = gang_id(at);
            let not_before = not_before.map(|later| model.now.plus_millis(later));
            engine.release_gang(&id, not_before);
            model.unplace(&id);
            if let (Some(until), true) = (not_before, model.gangs.contains_key(&id)) {
                let latest = model.back_off.get(&id).copied().max(Some(until));
                model.back_off.insert(id, latest.unwrap());
            }
        }
        Event::SeeMember(at, pod, elsewhere) => {
            let Some(place) = model.places.get(&gang_id(at)) else {
                return Ok(());
            };
            if place.pods.is_empty() {
                return Ok(());
            }
            let (key, planned, request) = place.pods[pod % place.pods.len()].clone();
            let node = elsewhere.map_or(planned, node_name);
            engine.apply_pod(key.clone(), node.clone(), request.clone());
            model.see(key, node, request);
        }
        Event::LoseMember(at, pod) => {
            let key = model.members(at)[pod].clone();
            engine.delete_pod(&key);
            model.pods.remove(&key);
        }
        Event::Cycle(later) => {
            model.now = model.now.plus_millis(later);
            return cycle(engine, model, model.now);
        }
    }
    Ok(())
}

fn cycle(engine: &mut Engine, model: &mut Model, now: Time) -> Result<(), TestCaseError> {
    let mut twin = crate::snapshots::twin(engine)?;
    let expected = twin.cycle(now);
    let result = cycle_once(engine, model, now, &expected);
    prop_assert_eq!(twin.snapshot(), engine.snapshot(), "the same afterwards");
    result
}

fn cycle_once(
    engine: &mut Engine,
    model: &mut Model,
    now: Time,
    expected: &[Decision],
) -> Result<(), TestCaseError> {
    // An engine that was built just now decides the same.
    if !model.has_leftovers() {
        let mut rebuilt = model.build();
        rebuilt.restore_history(&engine.history());
        prop_assert_eq!(rebuilt.history(), engine.history());
        let placed = |decisions: Vec<Decision>| -> Vec<Decision> {
            let told = |d: &Decision| matches!(d, Decision::Wait { .. } | Decision::Reserve { .. });
            decisions.into_iter().filter(|d| !told(d)).collect()
        };
        let decisions = engine.cycle(now);
        prop_assert_eq!(&decisions, expected, "as the snapshot's");
        check_decisions(model, &decisions, now)?;
        prop_assert_eq!(placed(decisions), placed(rebuilt.cycle(now)));
        for id in model.gangs.keys() {
            let (ours, anew) = (engine.certificate(id), rebuilt.certificate(id));
            prop_assert_eq!(
                ours.map(|c| c.reason),
                anew.map(|c| c.reason),
                "{}: {:?} but anew {:?}",
                id,
                ours.map(ToString::to_string),
                anew.map(ToString::to_string)
            );
        }
        let kept = |engine: &Engine| engine.reservations().cloned().collect::<Vec<_>>();
        prop_assert_eq!(kept(engine), kept(&rebuilt));
        prop_assert_eq!(engine.next_wakeup(), rebuilt.next_wakeup());
    } else {
        let decisions = engine.cycle(now);
        prop_assert_eq!(&decisions, expected, "as the snapshot's");
        check_decisions(model, &decisions, now)?;
    }
    // What is told is true now, and says so itself.
    for id in model.gangs.keys() {
        let told = engine.certificate(id).map(|c| c.reason);
        prop_assert_eq!(engine.explain(id, now).map(|c| c.reason), told, "{}", id);
    }
    prop_assert!(engine.cycle(now).is_empty(), "nothing has changed");
    Ok(())
}

/// Every placement is whole, in order, on nodes with room, and within quota.
fn check_decisions(
    model: &mut Model,
    decisions: &[Decision],
    now: Time,
) -> Result<(), TestCaseError> {
    for decision in decisions {
        let (id, placement) = match decision {
            Decision::Place {
                gang, placement, ..
            } => (gang, placement),
            Decision::Preempt {
                gang,
                placement,
                victims,
            } => {
                preempt(model, gang, placement, victims)?;
                continue;
            }
            Decision::Drain { victim } => {
                let place = model.places.get_mut(&victim.gang).unwrap();
                prop_assert_eq!(model.queues[&place.gang.queue].stop, Stop::HoldAndDrain);
                place.leaving = true;
                model.preempted.insert(victim.gang.clone());
                continue;
            }
            Decision::Reserve { .. } => continue,
            Decision::Wait { gang, .. } => {
                // Who followed others and waits again has given up.
                model.unplace(gang);
                continue;
            }
        };
        if let Some(place) = model.places.get_mut(id) {
            prop_assert!(place.follows.take().is_some());
            place.since = now;
            let place = &model.places[id];
            for (_, node, request) in &place.pods {
                let free = model.free(&model.nodes[node]);
                for resource in with_pod(request).keys() {
                    prop_assert!(free[resource] >= 0, "{} is overbooked: {:?}", node, free);
                }
            }
            continue;
        }
        let gang = model.gangs[id].clone();
        prop_assert!(
            gang.not_before
                .max(model.back_off.get(id).copied())
                .is_none_or(|t| t <= now)
        );
        prop_assert_eq!(placement.pod_count(), gang.pod_count());
        model.place(&gang, placement);
        let place = &model.places[id];
        for (_, node, request) in &place.pods {
            let free = model.free(&model.nodes[node]);
            for resource in with_pod(request).keys() {
                prop_assert!(free[resource] >= 0, "{} is overbooked: {:?}", node, free);
            }
        }
        let nodes = place.pods.iter().map(|(_, node, _)| node);
        prop_assert!(
            model.close(&gang.topology, nodes),
            "{}: {:?}",
            id,
            placement
        );
        for group in placement.groups() {
            let asked = gang.groups.iter().find(|g| g.name == group.group).unwrap();
            let nodes = group.runs.iter().map(|(node, _)| node);
            prop_assert!(model.close(&asked.topology, nodes), "{}: {:?}", id, group);
        }
        let queue = &model.queues[&gang.queue];
        prop_assert_eq!(queue.stop, Stop::None);
        // What may be borrowed is the tree's own test.
        if let (Some(group), None) = (queue.resource_groups.first(), &queue.parent) {
            let quota = &group.flavors[0].quotas;
            let usage = model.usage(gang.queue.as_str());
            for group in gang.groups.iter().filter(|g| g.count > 0) {
                for (resource, _) in group.request.iter().filter(|(_, n)| *n > 0) {
                    prop_assert!(usage[resource] <= i128::from(quota[resource].nominal));
                }
            }
        }
    }
    Ok(())
}

/// Whole gangs leave, each for a reason that its queue or the other's allows.
fn preempt(
    model: &mut Model,
    id: &GangId,
    placement: &Placement,
    victims: &[Victim],
) -> Result<(), TestCaseError> {
    let gang = model.gangs[id].clone();
    prop_assert!(!victims.is_empty());
    let policy = model.queues[&gang.queue].preemption;
    for victim in victims {
        let place = model.places.get_mut(&victim.gang).unwrap();
        prop_assert!(!place.leaving && place.follows.is_none());
        place.leaving = true;
        let same = place.gang.queue == gang.queue;
        match victim.because {
            Because::LaterInQueue => {
                prop_assert!(same && policy.within_queue != WithinQueue::Never);
                prop_assert!(place.gang.priority <= gang.priority);
            }
            Because::Borrows => prop_assert!(!same && policy.reclaim != Reclaim::Never),
            Because::LowerPriority => {
                prop_assert!(!same && place.gang.priority < gang.priority);
            }
            Because::Drained => prop_assert!(false, "nobody drains for a gang"),
        }
        model.preempted.insert(victim.gang.clone());
    }
    model.place(&gang, placement);
    let place = model.places.get_mut(id).unwrap();
    place.follows = Some(victims.iter().map(|v| v.gang.clone()).collect());
    Ok(())
}

fn recount(engine: &Engine, model: &Model) -> Result<(), TestCaseError> {
    for at in 0..NODES {
        let name = node_name(at);
        let expected = model.nodes.get(&name).map(|node| model.free(node));
        prop_assert_eq!(engine.free(&name), expected, "{}", name);
    }
    for queue in QUEUES {
        prop_assert_eq!(
            engine.queue_usage(&QueueName::new(queue)),
            model.usage(queue)
        );
    }
    prop_assert_eq!(engine.placed_gangs(), model.places.len());
    prop_assert_eq!(
        engine.waiting_gangs(),
        model.gangs.len() - model.places.len()
    );
    prop_assert_eq!(engine.pods(), model.pods.len());
    Ok(())
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn any_sequence_of_events(events in prop::collection::vec(any_event(), 1..60)) {
        let mut engine = Engine::with_decay(Decay::half_life(0));
        let mut model = Model::default();
        for name in QUEUES {
            apply(&mut engine, &mut model, Event::ApplyQueue(usize::from(name != QUEUES[0]), None, QueueFlags::default()))?;
        }
        for at in 0..topologies().len() {
            apply(&mut engine, &mut model, Event::ApplyTopology(at, true))?;
        }
        for event in events {
            apply(&mut engine, &mut model, event)?;
            recount(&engine, &model)?;
        }
        let mut rebuilt = model.build();
        if !model.has_leftovers() {
            recount(&rebuilt, &model)?;
        }
        prop_assert_eq!(rebuilt.cycle(model.now), model.build().cycle(model.now), "the same twice");
        // All that came can go.
        for id in model.gangs.keys() {
            engine.delete_gang(id);
        }
        for key in model.pods.keys() {
            engine.delete_pod(key);
        }
        for (name, node) in &model.nodes {
            let all = node.allocatable.iter().map(|(r, n)| (r.clone(), n)).collect();
            prop_assert_eq!(engine.free(name), Some(all));
        }
    }
}
