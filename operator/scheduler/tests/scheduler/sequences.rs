//! Tests of random sequences of events. After each event the engine's arrays equal a recount, and
//! no placement overbooks. The engine also equals an engine that is built from the final state, in
//! its counts, decisions and explanations.

pub(super) mod decisions;
pub(super) mod events;

use std::collections::{BTreeMap, BTreeSet};

use crate::common::*;
use crate::model::Model;
use crate::random::{QUEUES, node_name, topologies};
use crate::sequences::decisions::check_decisions;
use crate::sequences::events::{Event, NODES, QueueFlags, any_event, limit_name};
use proptest::prelude::*;
use trellis_scheduler::{
    Decision, Engine, GangId, LimitClosure, Placement, PodKey, QueueName, TaskGroup, Time,
    UsageDecay,
};

const ROOT: &str = "root";

fn gang_id(at: usize) -> GangId {
    id(&format!("w{at}"))
}

fn apply_event(engine: &mut Engine, model: &mut Model, event: Event) -> Result<(), TestCaseError> {
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
            model.apply_pod(key, node_name(node), request);
        }
        Event::DeleteForeign(pod) => {
            let key = PodKey::new(format!("x/{pod}"));
            engine.delete_pod(&key);
            model.delete_pod(&key);
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
            model.idle.remove(&gang.id);
            model.gangs.insert(gang.id.clone(), gang);
        }
        Event::DeleteGang(at) => {
            engine.delete_gang(&gang_id(at));
            model.delete(&gang_id(at));
        }
        Event::RetireGang(at) => {
            engine.retire_gang(&gang_id(at));
            model.retire(&gang_id(at));
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
        Event::ObserveMember(at, pod, elsewhere) => {
            if let Some(kept) = model.kept_places.get(&gang_id(at))
                && !kept.pods.is_empty()
            {
                // The engine sees the pod late, or the pod has grown.
                let own = kept.pods[pod % kept.pods.len()].clone();
                let node = elsewhere.map_or(own.node, node_name);
                engine.apply_pod(own.key.clone(), node.clone(), own.request.clone());
                model.apply_pod(own.key, node, own.request);
                return Ok(());
            }
            let Some(place) = model.places.get(&gang_id(at)) else {
                return Ok(());
            };
            if place.pods.is_empty() {
                return Ok(());
            }
            let (key, planned, request) = place.pods[pod % place.pods.len()].clone();
            let node = elsewhere.map_or(planned, node_name);
            engine.apply_pod(key.clone(), node.clone(), request.clone());
            model.apply_pod(key, node, request);
        }
        Event::DeleteMember(at, pod) => {
            let key = model.members(at)[pod].clone();
            engine.delete_pod(&key);
            model.delete_pod(&key);
        }
        Event::LoseMember(at, pod) => {
            let key = model.members(at)[pod].clone();
            engine.lose_pod(&key);
            model.lose_pod(&key);
        }
        Event::Restore(at, node) => {
            let Some(gang) = model.gangs.get(&gang_id(at)).cloned() else {
                return Ok(());
            };
            let groups = gang.groups.iter().flat_map(TaskGroup::members);
            let on = groups.map(|member| {
                let runs = vec![(node_name(node), member.count())];
                (member.name.clone(), runs)
            });
            let placement: Placement = on.collect();
            engine.restore_gang(gang.clone(), placement.clone(), model.now);
            model.restore(&gang, &placement);
        }
        Event::Keep(at, except, longer) => {
            let except: Vec<_> = except.map(node_name).into_iter().collect();
            let until = model.now.plus_millis(longer);
            let kept = engine.keep_place(&gang_id(at), &except, until);
            prop_assert_eq!(kept, model.keep_place(&gang_id(at), &except, until));
        }
        Event::Stay(at, longer) => {
            let until = model.now.plus_millis(longer);
            engine.cancel_departure(&gang_id(at), until);
            if let Some(place) = model.places.get_mut(&gang_id(at))
                && place.leaving.take().is_some()
            {
                place.protected = Some(until);
                model.finish_leaving(&gang_id(at));
            }
        }
        Event::Checkpoint(at, earlier) => {
            let safe = model.now.plus_millis(-earlier);
            engine.record_checkpoint(&gang_id(at), safe);
            if let Some(place) = model.places.get_mut(&gang_id(at)) {
                place.checkpoint = place.checkpoint.max(Some(safe));
            }
        }
        Event::Recall(at) => {
            let queue = QueueName::new(QUEUES[at]);
            if let Some(memory) = engine.queue_memory(&queue) {
                engine.restore_queue_memory(&queue, &memory);
            }
        }
        Event::Gate(at, closed) => {
            let limit = limit_name(at);
            match closed {
                None => {
                    engine.open_limit(&limit);
                    model.closed.remove(&limit);
                }
                Some(until) => {
                    let closure = LimitClosure {
                        why: "all is used".to_owned(),
                        until: until.map(|later| model.now.plus_millis(later)),
                    };
                    engine.close_limit(limit.clone(), closure.clone());
                    model.closed.insert(limit, closure);
                }
            }
        }
        Event::Cycle(later) => {
            model.now = model.now.plus_millis(later);
            return run_cycles(engine, model, model.now);
        }
    }
    Ok(())
}

fn run_cycles(engine: &mut Engine, model: &mut Model, now: Time) -> Result<(), TestCaseError> {
    let mut twin = crate::snapshots::restored_engine(engine)?;
    let expected = twin.cycle(now);
    let result = run_cycle(engine, model, now, &expected);
    prop_assert_eq!(twin.snapshot(), engine.snapshot(), "the same afterwards");
    result
}

/// Removes the kept places that have ended: their time is over, or their gang has started.
fn release_kept_places(
    engine: &Engine,
    model: &mut Model,
    decisions: &[Decision],
) -> Result<(), TestCaseError> {
    let starts = |id: &GangId| {
        decisions.iter().any(|d| match d {
            Decision::Place { gang, .. } | Decision::Preempt { gang, .. } => gang == id,
            _ => false,
        })
    };
    let gangs = engine.snapshot().gangs.into_iter();
    let kept: BTreeSet<GangId> = gangs
        .filter(|told| told.kept.is_some())
        .map(|told| told.gang.id)
        .collect();
    for (id, held) in &model.kept_places {
        prop_assert!(!kept.contains(id) || held.until > model.now, "{}", id);
    }
    let over = model
        .kept_places
        .keys()
        .filter(|id| !kept.contains(*id) && !starts(id));
    let stops: Vec<_> = over
        .filter_map(|id| model.stopping_from_kept_place(id))
        .collect();
    model.stopping.extend(stops);
    model
        .kept_places
        .retain(|id, _| kept.contains(id) || starts(id));
    Ok(())
}

fn run_cycle(
    engine: &mut Engine,
    model: &mut Model,
    now: Time,
    expected: &[Decision],
) -> Result<(), TestCaseError> {
    // A new engine makes the same decisions.
    if !model.has_leftovers() {
        let mut rebuilt = model.to_engine();
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
            let (ours, anew) = (engine.explanation(id), rebuilt.explanation(id));
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
        release_kept_places(engine, model, &decisions)?;
        check_decisions(model, &decisions, now)?;
    }
    // The reported reasons hold now, and `explain` returns the same.
    for id in model.gangs.keys() {
        let told = engine.explanation(id).map(|c| c.reason);
        prop_assert_eq!(engine.explain(id, now).map(|c| c.reason), told, "{}", id);
    }
    prop_assert!(engine.cycle(now).is_empty(), "nothing has changed");
    Ok(())
}

fn check_recount(engine: &Engine, model: &Model) -> Result<(), TestCaseError> {
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
    let held: BTreeMap<_, _> = engine.limit_usage().map(|(l, n)| (l.clone(), n)).collect();
    prop_assert_eq!(held, model.limit_usage());
    prop_assert_eq!(engine.placed_gang_count(), model.places.len());
    prop_assert_eq!(
        engine.pending_gang_count(),
        model.gangs.len() - model.places.len() - model.idle.len()
    );
    prop_assert_eq!(engine.pod_count(), model.pods.len());
    Ok(())
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn engine_equals_a_recount_after_any_sequence_of_events(events in prop::collection::vec(any_event(), 1..60)) {
        let mut engine = Engine::with_decay(UsageDecay::with_half_life(0));
        let mut model = Model::default();
        for name in QUEUES {
            apply_event(&mut engine, &mut model, Event::ApplyQueue(usize::from(name != QUEUES[0]), None, QueueFlags::default()))?;
        }
        for at in 0..topologies().len() {
            apply_event(&mut engine, &mut model, Event::ApplyTopology(at, true))?;
        }
        for event in events {
            apply_event(&mut engine, &mut model, event)?;
            check_recount(&engine, &model)?;
        }
        let mut rebuilt = model.to_engine();
        if !model.has_leftovers() {
            check_recount(&rebuilt, &model)?;
        }
        prop_assert_eq!(rebuilt.cycle(model.now), model.to_engine().cycle(model.now), "the same twice");
        // The test removes all objects again.
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
