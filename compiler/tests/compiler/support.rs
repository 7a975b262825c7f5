//! Jobs from YAML, compiled.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Service};
use trellis_api::document::split;
use trellis_api::{QueueResources, ResolvedJob, TrainingJob, ValidatedJob};
use trellis_compiler::{CompileContext, CompileFacts, CompiledJob, PodPlacement, compile};

pub const UID: &str = "5f2c9a1e-0000-4000-8000-000000000001";

pub const PLACEMENT: PodPlacement<'_> = PodPlacement {
    attempt: 1,
    plan: "0123456789abcdef",
    node: "node-a",
    ..PodPlacement::UNPLACED
};

/// The one TrainingJob of a file, as the API server would return it.
pub fn load(yaml: &str) -> TrainingJob {
    let mut documents = split(yaml).unwrap();
    documents.retain(|d| d.kind == "TrainingJob");
    assert_eq!(documents.len(), 1);
    let mut job: TrainingJob = documents[0]
        .decode_valid()
        .unwrap_or_else(|e| panic!("{e}"));
    job.metadata.uid = Some(UID.to_owned());
    job.metadata.generation = Some(1);
    job
}

/// A job `llm` of namespace `team-a` with this spec, in YAML.
pub fn job(spec: &str) -> TrainingJob {
    let spec: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    load(&format!(
        "apiVersion: trellis.dev/v1alpha1\nkind: TrainingJob\n\
         metadata: {{name: llm, namespace: team-a}}\nspec:\n{spec}"
    ))
}

/// A job that states the resources of all its task groups.
pub fn resolve_job(job: TrainingJob) -> ResolvedJob {
    let job = ValidatedJob::try_from(job).unwrap();
    ResolvedJob::new(job, None, "default", QueueResources::default()).unwrap()
}

pub fn compile_facts(services: &BTreeMap<String, Service>) -> CompileFacts<'_> {
    CompileFacts {
        queue: "default",
        priority: 0,
        namespace_enforces_restricted: false,
        services,
    }
}

/// Compiled where nothing but the `default` queue was found.
pub fn compile_job(job: TrainingJob) -> CompiledJob {
    compile_stage(job, 1)
}

/// Compiles a job at that stage, from 1.
pub fn compile_stage(job: TrainingJob, stage: u32) -> CompiledJob {
    let job = resolve_job(job);
    let surroundings = CompileContext::resolve(job.job(), compile_facts(&BTreeMap::new())).unwrap();
    compile(job, surroundings.at_stage(stage), &Arc::default())
}

/// Compiled, with one group of this YAML (a flow mapping without its braces).
pub fn compile_one_group(framework: &str, group: &str) -> CompiledJob {
    compile_job(job(&format!(
        "framework: {framework}\n\
         taskGroups:\n\
         - {{name: worker, image: busybox, resources: {{limits: {{cpu: 1, memory: 1Gi}}}}, {group}}}"
    )))
}

pub fn first_pod(job: &CompiledJob) -> Pod {
    job.groups()[0].pod(0, &PLACEMENT)
}

/// The files in the job's ConfigMap, by name.
pub fn files(job: &CompiledJob) -> BTreeMap<String, String> {
    job.config_maps().remove(0).data.unwrap()
}

/// Command and arguments of the pod's main container.
pub fn words(pod: &Pod) -> Vec<String> {
    let main = container(pod);
    let (command, args) = (main.command.clone(), main.args.clone());
    command.into_iter().chain(args).flatten().collect()
}

pub fn spec(pod: &Pod) -> &PodSpec {
    pod.spec.as_ref().unwrap()
}

pub fn container(pod: &Pod) -> &Container {
    let containers = &spec(pod).containers;
    assert_eq!(containers.len(), 1);
    &containers[0]
}

/// The pod's variables that have a value, in order.
pub fn env(pod: &Pod) -> Vec<(String, String)> {
    let vars = container(pod).env.iter().flatten();
    vars.filter_map(|v| Some((v.name.clone(), v.value.clone()?)))
        .collect()
}

pub fn env_value(pod: &Pod, name: &str) -> Option<String> {
    env(pod)
        .into_iter()
        .find(|(n, _)| n == name)
        .map(|(_, v)| v)
}
