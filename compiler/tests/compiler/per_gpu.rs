//! CPU and memory that a profile or queue states for each GPU.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{from_value, json};
use trellis_api::{
    QueueResources, ResolvedJob, ResourcesPerGpu, RuntimeProfile, TrainingJob, ValidatedJob,
    ValidatedProfile,
};
use trellis_compiler::{CompileContext, CompiledJob, HashedProfile, compile};

use super::support::{compile_facts, container, first_pod, job, spec};

const GROUPS: &str = "taskGroups: [{name: w, gpus: 8, image: 'a:1'}]";

/// Compiled with 12 cores of a profile and 8Gi of a queue for each GPU.
fn compiled(job: TrainingJob) -> CompiledJob {
    let profile: RuntimeProfile = from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile",
        "metadata": {"name": "p"}, "spec": {"resourcesPerGPU": {"cpu": 12}},
    }))
    .unwrap();
    let profile = Arc::new(HashedProfile::new(
        ValidatedProfile::try_from(profile).unwrap(),
    ));
    let stated: ResourcesPerGpu = from_value(json!({"memory": "8Gi"})).unwrap();
    let queue = QueueResources::from_queue("default", Some(&stated));
    let job = ValidatedJob::try_from(job).unwrap();
    let job = ResolvedJob::new(job, Some(profile.validated()), "default", queue).unwrap();
    let surroundings = CompileContext::resolve(job.job(), compile_facts(&BTreeMap::new())).unwrap();
    let surroundings = surroundings.with_profile(Some(profile));
    compile(job, surroundings, &Arc::default())
}

#[test]
fn pod_and_pod_group_request_the_amounts_per_gpu() {
    let compiled = compiled(job(GROUPS));
    let pod = first_pod(&compiled);
    let resources = container(&pod).resources.as_ref().unwrap();
    let expected = [("cpu", "96"), ("memory", "64Gi"), ("nvidia.com/gpu", "8")];
    for list in [&resources.requests, &resources.limits] {
        let list = list.iter().flatten();
        let list: Vec<_> = list
            .map(|(name, q)| (name.as_str(), q.0.as_str()))
            .collect();
        assert_eq!(list, expected);
    }
    let member = &compiled.pod_group().spec.groups[0];
    let list = member.resources.iter();
    let list: Vec<_> = list.map(|(name, q)| (name.as_str(), q.as_str())).collect();
    assert_eq!(list, expected);
    // /dev/shm has half of the memory.
    let volumes = spec(&pod).volumes.iter().flatten();
    let mut disks = volumes.filter_map(|volume| volume.empty_dir.as_ref());
    let size = disks.next().and_then(|disk| disk.size_limit.as_ref());
    assert_eq!(size.map(|size| size.0.as_str()), Some("32Gi"));
}

#[test]
fn job_with_amounts_per_gpu_has_the_hash_of_written_amounts() {
    let written = "taskGroups: [{name: w, gpus: 8, image: 'a:1', \
                   resources: {limits: {cpu: 96, memory: 64Gi}}}]";
    assert_eq!(compiled(job(GROUPS)).hash(), compiled(job(written)).hash());
}
