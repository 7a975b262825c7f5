//! From a validated job to all that it becomes.

use std::collections::BTreeSet;
use std::sync::Arc;

use trellis_api::ResolvedJob;

use crate::compile_input::CompileInput;
use crate::hash::Hasher;
use crate::objects::external_secrets;
use crate::objects::network_policy::ResolvedTrafficRules;
use crate::{CompileContext, CompiledGroup, CompiledJob, Demand, Settings, demand};

/// Compiles a job whose every task group has its CPU and memory, at the stage of its surroundings:
/// never the groups of two stages together. The same input gives the same objects, byte for byte.
///
/// A Service of `spec.network` that `surroundings` lacks (they were resolved for another job) is
/// left out of the NetworkPolicy: unknown peers are not opened.
#[must_use]
pub fn compile(
    job: ResolvedJob,
    surroundings: CompileContext,
    settings: &Arc<Settings>,
) -> CompiledJob {
    let source = Arc::new(CompileInput {
        job: job.into_stage(surroundings.stage),
        surroundings,
        settings: settings.clone(),
    });
    let groups: Vec<_> = CompiledGroup::compile_groups(&source);

    let openings = ResolvedTrafficRules::new(source.job.job(), &source.surroundings);
    let mut demands = BTreeSet::from([Demand::UseQueue(source.surroundings.queue.clone())]);
    demands.extend(demand::network_demands(&openings));
    for group in &groups {
        demands.extend(group.demands());
    }
    drop(openings);
    // Secrets that the job's own ExternalSecrets create are no demands; their remote paths are.
    for made in external_secrets::target_secret_names(source.job.job()).into_values() {
        demands.remove(&Demand::UseSecret(made));
    }
    demands.extend(external_secrets::demands(source.job.job()));

    let mut compiled = CompiledJob {
        source,
        groups,
        demands,
        hash: String::new(),
    };
    let services = compiled.services().into_iter();
    let hasher = services
        .fold(Hasher::default(), |hasher, service| hasher.feed(&service))
        .feed(&compiled.network_policy())
        .feed(&compiled.config_maps())
        .feed(&compiled.pod_group());
    let secrets = compiled.external_secrets();
    // A job without ExternalSecrets keeps the hash that it had before they were introduced.
    let hasher = match secrets.is_empty() {
        true => hasher,
        false => hasher.feed(&secrets),
    };
    compiled.hash = compiled
        .groups
        .iter()
        .fold(hasher, |hasher, group| hasher.feed(&group.hash()))
        .finish();
    compiled
}
