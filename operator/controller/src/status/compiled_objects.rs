//! The objects of a job in its status, with their readiness.

use std::collections::BTreeMap;

use trellis_api::job::CompiledObject;
use trellis_cache::Cache;
use trellis_compiler::CompiledGroup;
use trellis_dispatch::is_live_child;
use trellis_gang::key::Key;
use trellis_gang::observed::PodPhase;
use trellis_policies::AuthorizedJob;

use crate::build::cache::JobBuild;
use crate::job_context::JobContext;
use crate::references::external_secrets;

/// Returns the job's objects, with their readiness. Existing children match the compiled job,
/// because the controller corrects differences before it writes the status.
pub(super) fn compiled_objects(
    cache: &Cache,
    key: &Key,
    build: &JobBuild,
    job: &AuthorizedJob,
    job_context: &JobContext,
    attempt: i64,
) -> Vec<CompiledObject> {
    let mut list = build.objects.clone();
    for entry in &mut list {
        entry.ready = match entry.kind.as_str() {
            "Service" => {
                let key = Key::new(&key.namespace, &entry.name);
                is_live_child(cache.services.get(&key).as_deref(), job_context.uid())
            }
            "NetworkPolicy" => is_live_child(
                cache.network_policies.get(key).as_deref(),
                job_context.uid(),
            ),
            "ConfigMap" => {
                let key = Key::new(&key.namespace, &entry.name);
                is_live_child(cache.config_maps.get(&key).as_deref(), job_context.uid())
            }
            // The operator may not read Secrets.
            "Secret" => {
                let child_key = (entry.kind.clone(), entry.name.as_str().into());
                build.verified_versions.lock().contains_key(&child_key)
            }
            "PodGroup" => is_live_child(cache.pod_groups.get(key).as_deref(), job_context.uid()),
            "ExternalSecret" => {
                let child_key = Key::new(&key.namespace, &entry.name);
                entry.problem =
                    external_secrets::external_secret_problem(cache, &child_key, job_context.uid());
                entry.problem.is_none()
            }
            _ => false,
        };
    }
    let up = count_ready_pods(job_context, attempt);
    let groups = job.compiled().groups();
    let pods = list.iter_mut().filter(|o| o.kind == "Pod");
    for (entry, group) in pods.zip(groups) {
        let up = up.get(group.name()).copied().unwrap_or_default();
        entry.ready = up >= min_ready_pods(group);
    }
    list
}

/// Returns the number of pods of the attempt that run or have succeeded, by group.
fn count_ready_pods(job_context: &JobContext, attempt: i64) -> BTreeMap<&str, u32> {
    let is_up = |phase: &PodPhase| matches!(phase, PodPhase::Running | PodPhase::Succeeded);
    let attempt_pods = job_context
        .pods
        .values()
        .filter(|pod| pod.attempt == attempt);
    let mut up: BTreeMap<&str, u32> = BTreeMap::new();
    for pod in attempt_pods.filter(|pod| is_up(&pod.phase) && pod.job_uid == job_context.uid()) {
        let count = up.entry(&pod.group).or_default();
        *count = count.saturating_add(1);
    }
    up
}

/// Returns the number of pods that a group needs to be ready: the pods of the gang, or all pods of
/// a group outside the gang.
fn min_ready_pods(group: &CompiledGroup) -> u32 {
    match group.gang_size() {
        0 => group.replicas(),
        size => size,
    }
}
