//! Checks every decision, after any events. The model follows the decisions.

use std::collections::BTreeMap;

use crate::model::{Model, with_pod};
use proptest::prelude::*;
use trellis_scheduler::{
    BorrowWithinPolicy, Decision, Gang, GangId, LimitName, Placement, PreemptionReason, Queue,
    QueueName, QueueStop, ReclaimPolicy, Time, Victim, WithinQueuePolicy,
};

/// Checks that every placement is whole, in order, on nodes with room, and within quota.
pub fn check_decisions(
    model: &mut Model,
    decisions: &[Decision],
    now: Time,
) -> Result<(), TestCaseError> {
    // Gangs give up nominations before the engine places any gang.
    for decision in decisions {
        let gave_up = match decision {
            Decision::Wait { gang, .. } => Some(gang),
            Decision::Place {
                gang, placement, ..
            } if !model.is_nominated_placement(gang, placement) => Some(gang),
            _ => None,
        };
        if let Some(gang) = gave_up.filter(|gang| model.places.contains_key(*gang)) {
            model.unplace(gang);
        }
    }
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
                check_preemption(model, (gang, placement), victims, now)?;
                continue;
            }
            Decision::Drain { victim } => {
                let place = model.places.get_mut(&victim.gang).unwrap();
                prop_assert_eq!(
                    model.queues[&place.gang.queue].stop,
                    QueueStop::HoldAndDrain
                );
                place.leaving = Some(now);
                model.preempted.insert(victim.gang.clone());
                continue;
            }
            // No gang of these sequences may cause new nodes.
            Decision::Provision(_) | Decision::EndProvisioning { .. } => {
                return Err(TestCaseError::fail(format!("{decision:?}")));
            }
            Decision::Reserve { .. } | Decision::Wait { .. } => continue,
        };
        if let Some(place) = model.places.get_mut(id) {
            prop_assert!(place.victims.take().is_some());
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
            model.is_close(&gang.topology, nodes),
            "{}: {:?}",
            id,
            placement
        );
        for group in placement.groups() {
            let asked = gang
                .groups
                .iter()
                .find(|g| g.stands_for(&group.group))
                .unwrap();
            let nodes = group.runs.iter().map(|(node, _)| node);
            prop_assert!(
                model.is_close(&asked.topology, nodes),
                "{}: {:?}",
                id,
                group
            );
        }
        check_limits(model, &gang, &model.limit_usage())?;
        let runs = model.running_limit_usage();
        check_limits(model, &gang, &runs)?;
        let queue = &model.queues[&gang.queue];
        prop_assert_eq!(queue.stop, QueueStop::None);
        // Another function checks borrowing in the tree.
        if let (Some(group), None) = (queue.resource_groups.first(), &queue.parent) {
            let quota = &group.flavors[0].quotas;
            let usage = model.usage(gang.queue.as_str());
            let runs = model.running_usage(gang.queue.as_str());
            for group in gang.groups.iter().filter(|g| g.count > 0) {
                for (resource, _) in group.request.iter().filter(|(_, n)| *n > 0) {
                    let nominal = i128::from(quota[resource].nominal);
                    prop_assert!(usage[resource] <= nominal && runs[resource] <= nominal);
                }
            }
        }
        let root = queue
            .parent
            .as_ref()
            .filter(|root| model.queues.contains_key(*root));
        if let Some(root) = root {
            check_tree_quota(model, root, &gang)?;
        }
    }
    Ok(())
}

/// Checks that every limit that a newly placed gang draws on had room for it.
fn check_limits(
    model: &Model,
    gang: &Gang,
    held: &BTreeMap<LimitName, i128>,
) -> Result<(), TestCaseError> {
    let needs = Model::drawn_amounts(gang, gang);
    for draw in gang.draws.iter().filter(|d| needs.contains_key(&d.limit)) {
        let limit = &draw.limit;
        if let Some(max) = draw.max {
            prop_assert!(
                !model.closed.contains_key(limit),
                "{} draws on {}",
                gang.id,
                limit
            );
            prop_assert!(held[limit] <= i128::from(max), "{}: {}", gang.id, limit);
        }
    }
    Ok(())
}

/// Checks the usage below a root. No queue keeps quota local here, so the usage is at most the sum
/// of the quotas, for each resource that the newly placed gang needs.
fn check_tree_quota(model: &Model, root: &QueueName, gang: &Gang) -> Result<(), TestCaseError> {
    let in_tree = |queue: &&Queue| queue.name == *root || queue.parent.as_ref() == Some(root);
    let tree: Vec<&Queue> = model.queues.values().filter(in_tree).collect();
    let named = tree.iter().flat_map(|queue| &queue.resource_groups);
    let named: Vec<_> = named.flat_map(|group| &group.flavors).collect();
    if named.is_empty() {
        return Ok(());
    }
    let requests = gang.groups.iter().filter(|g| g.count > 0);
    let needed = requests
        .flat_map(|g| g.request.iter())
        .filter(|(_, n)| *n > 0);
    for (resource, _) in needed {
        let quotas = named
            .iter()
            .filter_map(|offered| offered.quotas.get(resource));
        let quota: i128 = quotas.map(|quota| i128::from(quota.nominal)).sum();
        for sums in [Model::usage, Model::running_usage] {
            let held = tree.iter().map(|queue| sums(model, queue.name.as_str()));
            let held: i128 = held.filter_map(|held| held.get(resource).copied()).sum();
            prop_assert!(held <= quota, "{}: {held} of {quota} {resource}", gang.id);
        }
    }
    Ok(())
}

/// Checks that victims are whole gangs, each for a reason that its queue or the preemptor's queue
/// allows.
fn check_preemption(
    model: &mut Model,
    (id, placement): (&GangId, &Placement),
    victims: &[Victim],
    now: Time,
) -> Result<(), TestCaseError> {
    let gang = model.gangs[id].clone();
    prop_assert!(!victims.is_empty() && !gang.surplus);
    let policy = model.queues[&gang.queue].preemption;
    for victim in victims {
        let place = model.places.get_mut(&victim.gang).unwrap();
        prop_assert!(place.leaving.is_none() && place.victims.is_none());
        place.leaving = Some(now);
        let same = place.gang.queue == gang.queue;
        let surplus = place.gang.surplus;
        match victim.reason {
            PreemptionReason::LaterInQueue => {
                prop_assert!(same && policy.within_queue != WithinQueuePolicy::Never);
                prop_assert!(!surplus && place.gang.priority <= gang.priority);
            }
            PreemptionReason::Surplus => prop_assert!(same && surplus),
            PreemptionReason::Borrows => {
                prop_assert!(!same && (surplus || policy.reclaim != ReclaimPolicy::Never));
            }
            PreemptionReason::LowerPriority => {
                prop_assert!(!same && place.gang.priority < gang.priority);
            }
            PreemptionReason::FairShare => {
                let BorrowWithinPolicy::FairShare(victims) = policy.borrow_within else {
                    prop_assert!(false, "{} takes no fair share", gang.id);
                    continue;
                };
                let priority = place.gang.priority;
                prop_assert!(!same && victims.includes(priority, gang.priority));
            }
            PreemptionReason::Drained => prop_assert!(false, "nobody drains for a gang"),
        }
        model.preempted.insert(victim.gang.clone());
    }
    model.place(&gang, placement);
    check_limits(model, &gang, &model.limit_usage())?;
    let place = model.places.get_mut(id).unwrap();
    place.victims = Some(victims.iter().map(|v| v.gang.clone()).collect());
    Ok(())
}
