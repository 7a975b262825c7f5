//! What every decision must be, whatever happened before; the model follows it.

use crate::model::{Model, with_pod};
use proptest::prelude::*;
use trellis_scheduler::{
    Because, Decision, GangId, Placement, Reclaim, Stop, Time, Victim, WithinQueue,
};

/// Every placement is whole, in order, on nodes with room, and within quota.
pub fn check_decisions(
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
                preempt(model, (gang, placement), victims, now)?;
                continue;
            }
            Decision::Drain { victim } => {
                let place = model.places.get_mut(&victim.gang).unwrap();
                prop_assert_eq!(model.queues[&place.gang.queue].stop, Stop::HoldAndDrain);
                place.leaving = Some(now);
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
    (id, placement): (&GangId, &Placement),
    victims: &[Victim],
    now: Time,
) -> Result<(), TestCaseError> {
    let gang = model.gangs[id].clone();
    prop_assert!(!victims.is_empty());
    let policy = model.queues[&gang.queue].preemption;
    for victim in victims {
        let place = model.places.get_mut(&victim.gang).unwrap();
        prop_assert!(place.leaving.is_none() && place.follows.is_none());
        place.leaving = Some(now);
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
