//! CPU and memory of task groups that name only GPUs.

use super::*;

impl Case {
    /// A job of 8 GPUs in each pod, and nothing else.
    fn of_gpus() -> Self {
        Self::new(json!({"taskGroups": [{"name": "worker", "gpus": 8, "image": "train:1"}]}))
    }

    /// CPU and memory that a pod requests, or why the job does not start.
    fn resources(&self, builds: &Builds) -> Result<[String; 2], Reason> {
        let build = builds.of(&key(), &mut self.look(), &Arc::default());
        let job = build.result.as_ref().map_err(|held| held.reason)?;
        let resources = job.compiled().groups()[0].resources();
        Ok(["cpu", "memory"].map(|name| resources[name].to_string()))
    }
}

fn is(cpu: &str, memory: &str) -> Result<[String; 2], Reason> {
    Ok([cpu, memory].map(str::to_owned))
}

fn per_gpu(cpu: u32, memory: &str) -> Value {
    json!({"resourcesPerGPU": {"cpu": cpu, "memory": memory}})
}

#[test]
fn waiting_job_gets_what_profile_and_queues_state_by_now() {
    let builds = Builds::default();
    let mut case = Case::of_gpus();
    case.queue_with("default", json!({"defaultFor": {}, "parentName": "root"}));
    assert_eq!(case.resources(&builds), Err(Reason::ResourcesMissing));
    let build = builds.of(&key(), &mut case.look(), &Arc::default());
    let held = build.result.as_ref().unwrap_err();
    assert_eq!(held.phase, JobPhase::Waiting);
    assert!(
        held.message.contains("queue \"default\""),
        "{}",
        held.message
    );
    // A queue above it states them: the generation of its own queue stays the same.
    case.queue_with("root", per_gpu(4, "32Gi"));
    assert_eq!(case.resources(&builds), is("32", "256Gi"));
    case.queue_with("root", per_gpu(5, "32Gi"));
    assert_eq!(case.resources(&builds), is("40", "256Gi"));
    case.queue_with(
        "default",
        json!({"defaultFor": {}, "parentName": "root", "resourcesPerGPU": {"cpu": 8}}),
    );
    assert_eq!(case.resources(&builds), is("64", "256Gi"));
    case.profile_with("p", json!({"resourcesPerGPU": {"memory": "128Gi"}}));
    assert_eq!(case.resources(&builds), is("64", "1024Gi"));
    case.context.cache.profiles.remove("p", "p");
    case.queue("default", json!({}));
    assert_eq!(case.resources(&builds), Err(Reason::ResourcesMissing));
}

#[test]
fn gang_that_has_its_place_keeps_what_its_queue_stated_and_the_next_attempt_does_not() {
    let builds = Builds::default();
    let mut case = Case::of_gpus();
    let queue = |cpu: u32| {
        let mut queue = per_gpu(cpu, "64Gi");
        queue["defaultFor"] = json!({});
        queue
    };
    case.queue_with("default", queue(8));
    let (_, children) = case.told(&builds);
    case.plan(PodGroupPhase::Committing);
    case.queue_with("default", queue(12));
    // An operator that only knows the journal does the same.
    for builds in [&builds, &Builds::default()] {
        for phase in [PodGroupPhase::Committing, PodGroupPhase::Placed] {
            case.becomes(phase);
            assert_eq!(case.resources(builds), is("64", "512Gi"), "{phase:?}");
            assert_eq!(case.told(builds).1, children, "{phase:?}");
        }
    }
    // A queue that states nothing any more takes nothing from a gang that runs.
    case.queue("default", json!({}));
    assert_eq!(case.resources(&builds), is("64", "512Gi"));
    case.queue_with("default", queue(12));
    case.status(2, None);
    assert_eq!(case.resources(&builds), is("96", "512Gi"));
    case.status(1, None);
    case.becomes(PodGroupPhase::Unwinding);
    assert_eq!(case.resources(&builds), is("96", "512Gi"));
}

#[test]
fn gang_that_has_its_place_keeps_what_its_profile_stated() {
    let builds = Builds::default();
    let mut case = Case::of_gpus();
    case.profile_with("p", per_gpu(8, "64Gi"));
    assert_eq!(case.resources(&builds), is("64", "512Gi"));
    case.plan(PodGroupPhase::Placed);
    case.profile_with("p", per_gpu(12, "64Gi"));
    assert_eq!(case.resources(&builds), is("64", "512Gi"));
    case.status(2, None);
    assert_eq!(case.resources(&builds), is("96", "512Gi"));
}
