//! From a validated job to all that it becomes.

use std::collections::BTreeSet;

use trellis_api::ValidatedJob;

use crate::gang::Gang;
use crate::hash::Hasher;
use crate::network::{self, Openings};
use crate::{
    CompiledGroup, CompiledJob, Demand, Settings, Surroundings, demand, framework, pod_group,
    service,
};

/// Compiles a job. The same input gives the same objects, byte for byte.
///
/// A Service of `spec.network` that `surroundings` does not know (it was
/// resolved for another job) is left out of the NetworkPolicy: what is not
/// known is not opened.
#[must_use]
pub fn compile(job: ValidatedJob, surroundings: Surroundings, settings: &Settings) -> CompiledJob {
    let gang = Gang::new(&job, settings);
    let groups: Vec<_> = job
        .spec()
        .task_groups
        .iter()
        .map(|group| CompiledGroup::new(&gang, group, &surroundings))
        .collect();
    let openings = Openings::new(job.spec().network.as_ref(), &surroundings);

    let service = service::build(&job, groups.iter().flat_map(CompiledGroup::ports));
    let network_policy = network::build(&job, &openings, settings);
    let config_maps = framework::config_maps(job.spec().framework());
    let pod_group = pod_group::build(&job, &groups, &surroundings);

    let mut demands = BTreeSet::from([Demand::UseQueue(surroundings.queue.clone())]);
    demands.extend(demand::of_network(&openings));
    for group in &groups {
        demands.extend(group.demands());
    }

    let hasher = Hasher::default()
        .feed(&service)
        .feed(&network_policy)
        .feed(&config_maps)
        .feed(&pod_group);
    let hash = groups
        .iter()
        .fold(hasher, |hasher, group| hasher.feed(&group.hash()))
        .finish();
    CompiledJob {
        service,
        network_policy,
        config_maps,
        pod_group,
        groups,
        demands,
        hash,
        job,
    }
}
