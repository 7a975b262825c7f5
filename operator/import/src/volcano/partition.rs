//! The partitions of a task, as slices of its task group.

use trellis_api::topology::{SliceLayer, SlicePolicy};

use super::network_topology::NetworkTopology;
use crate::context::ImportContext;
use crate::fields::Fields;
use crate::pod::GroupDraft;

/// Reads `partitionPolicy`. `of_job` is the topology of the whole job.
pub(super) fn read_partitions(
    task: &Fields<'_>,
    of_job: Option<&NetworkTopology>,
    context: &ImportContext,
    pods: &mut GroupDraft,
) {
    let Some(policy) = task.object("partitionPolicy") else {
        return;
    };
    let (count, size) = (
        policy.integer("totalPartitions"),
        policy.integer("partitionSize"),
    );
    let replicas = i64::from(pods.group.replicas());
    let all = count
        .zip(size)
        .and_then(|(count, size)| count.checked_mul(size));
    if all != Some(replicas) {
        let message = format!(
            "must have totalPartitions × partitionSize = {replicas}, the replicas of the task, as in Volcano: correct them"
        );
        policy.log().add_problem(policy.path(), message);
        return;
    }
    let has_topology = policy.get("networkTopology").is_some();
    let Some(topology) = NetworkTopology::read(&policy, context) else {
        if !has_topology {
            policy.log().note(
                policy.path(),
                None,
                "names no network topology, so the task group has no slices",
                "write topology.slices if the pods of a partition must be in one domain",
            );
        }
        return;
    };
    let is_met = of_job.map_or(Some(false), |of_job| of_job.is_within(&topology));
    if is_met == Some(true) {
        policy.note_at(
            "networkTopology",
            "is already met, because the whole job is in one such domain, so the task group has no slices",
            "leave it out",
        );
    } else {
        if let Some(of_job) = of_job.filter(|_| is_met.is_none()) {
            note_unknown_order(&policy, of_job);
        }
        let slices = vec![SliceLayer {
            level: topology.level,
            pods: size,
            at_most: None,
        }];
        let of_group = pods.group.topology.get_or_insert_default();
        of_group.slices = slices;
        of_group.slice_policy = (!topology.is_required).then_some(SlicePolicy::Preferred);
        pods.origins
            .push(("topology", policy.field_path("partitionSize")));
    }
}

/// Notes slices that keep the job waiting unless their level is finer than the level of the job.
fn note_unknown_order(policy: &Fields<'_>, of_job: &NetworkTopology) {
    let reason = format!(
        "must name a tier finer than {:?}, the tier of the job, but the HyperNodes of the input do not show the order of the two tiers; with a coarser tier the job waits (TopologyNotFound)",
        of_job.level
    );
    policy.log().note(
        &policy.field_path("networkTopology"),
        None,
        reason,
        "remove topology.slices if the tier is coarser, or add the HyperNodes to the input",
    );
}

/// Returns `minPartitions` and the number of pods in these partitions. None: all partitions must
/// run, which 0 means too.
pub(super) fn read_minimum<'a>(task: &Fields<'a>) -> Option<(Fields<'a>, i64)> {
    let policy = task.object("partitionPolicy")?;
    let minimum = policy.get("minPartitions")?;
    let count = policy
        .integer("minPartitions")
        .filter(|count| *count != 0)?;
    let pods = count.checked_mul(policy.integer("partitionSize")?)?;
    Some((minimum, pods))
}
