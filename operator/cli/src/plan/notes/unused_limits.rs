//! Finds QuotaPolicies in files that limit nothing.
//! Most often they contain a typing error and refer to an object that does not exist.

use std::collections::BTreeSet;

use trellis_api::queue::DEFAULT_FLAVOR;
use trellis_api::{QuotaPolicy, names};
use trellis_policies::quota::missing_flavors;

use crate::plan::snapshot::ClusterSnapshot;

/// Returns a note for each reference of these policies to a missing object.
/// If the snapshot has no object of a kind, references to that kind give no note.
pub(crate) fn note_unused_limits(
    policies: &BTreeSet<String>,
    snapshot: &ClusterSnapshot,
) -> Vec<String> {
    let policies = policies
        .iter()
        .filter_map(|name| Some((name, snapshot.quota_policies.get(name)?)));
    let notes = policies.flat_map(|(name, policy)| {
        let notes = note_policy(policy, snapshot).into_iter();
        notes.map(move |note| format!("QuotaPolicy {name:?}: {note}"))
    });
    notes.collect()
}

fn note_policy(policy: &QuotaPolicy, snapshot: &ClusterSnapshot) -> Vec<String> {
    let mut notes = Vec::new();
    let subject = &policy.spec.subject;
    if let (Some(queue), Some(queues)) = (&subject.queue_name, &snapshot.queues)
        && !queues.contains_key(queue)
    {
        notes.push(format!(
            "spec.subject.queueName: there is no TrainingQueue {queue:?}, so it limits no job"
        ));
    }
    if let Some(team) = &subject.team {
        let mut namespaces = snapshot.namespaces.values();
        let is_of_team = namespaces.any(|namespace| {
            let labels = namespace.metadata.labels.as_ref();
            labels.and_then(|labels| labels.get(names::TEAM)) == Some(team)
        });
        if !snapshot.namespaces.is_empty() && !is_of_team {
            notes.push(format!(
                "spec.subject.team: no namespace has the label {}: {team}, so it limits no job",
                names::TEAM
            ));
        }
    }
    for (at, limit) in policy.spec.limits.resources.iter().enumerate() {
        let resource = &limit.resource;
        let mut nodes = snapshot.nodes.values();
        let is_offered = nodes.any(|node| node.status.allocatable.contains_key(resource));
        if !snapshot.nodes.is_empty() && !is_offered {
            notes.push(format!(
                "spec.limits.resources[{at}].resource: no node has {resource:?}, so it limits nothing"
            ));
        }
    }
    let exists = |flavor: &str| flavor == DEFAULT_FLAVOR || snapshot.flavors.contains_key(flavor);
    notes.extend(missing_flavors(policy, exists).map(|(at, flavor)| {
        format!(
            "spec.limits.resources[{at}].flavor: there is no ResourceFlavor {flavor:?}, so it limits nothing"
        )
    }));
    notes
}
