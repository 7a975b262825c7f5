//! CPU and memory of task groups that name only GPUs.

use super::*;

impl BuildFixture {
    /// Returns a job whose pods request 8 GPUs and nothing else.
    fn with_gpus_only() -> Self {
        Self::new(json!({"taskGroups": [{"name": "worker", "gpus": 8, "image": "train:1"}]}))
    }

    /// Returns the CPU and memory that a pod requests, or why the job does not start.
    fn resources(&self, builds: &BuildCache) -> Result<[String; 2], Reason> {
        let build = builds.get_or_build(&key(), &mut self.read_context(), &Arc::default());
        let job = build.result.as_ref().map_err(|hold| hold.reason)?;
        let resources = job.compiled().groups()[0].resources();
        Ok(["cpu", "memory"].map(|name| resources[name].to_string()))
    }
}

fn cpu_and_memory(cpu: &str, memory: &str) -> Result<[String; 2], Reason> {
    Ok([cpu, memory].map(str::to_owned))
}

fn per_gpu(cpu: u32, memory: &str) -> Value {
    json!({"resourcesPerGPU": {"cpu": cpu, "memory": memory}})
}

#[test]
fn waiting_job_takes_current_resources_of_profile_and_queues() {
    let builds = BuildCache::default();
    let mut case = BuildFixture::with_gpus_only();
    case.queue_with("default", json!({"defaultFor": {}, "parentName": "root"}));
    assert_eq!(case.resources(&builds), Err(Reason::ResourcesMissing));
    let build = builds.get_or_build(&key(), &mut case.read_context(), &Arc::default());
    let hold = build.result.as_ref().unwrap_err();
    assert_eq!(hold.phase, JobPhase::Waiting);
    assert!(
        hold.message.contains("queue \"default\""),
        "{}",
        hold.message
    );
    // The queue above has the amounts. The generation of the job's queue stays the same.
    case.queue_with("root", per_gpu(4, "32Gi"));
    assert_eq!(case.resources(&builds), cpu_and_memory("32", "256Gi"));
    case.queue_with("root", per_gpu(5, "32Gi"));
    assert_eq!(case.resources(&builds), cpu_and_memory("40", "256Gi"));
    case.queue_with(
        "default",
        json!({"defaultFor": {}, "parentName": "root", "resourcesPerGPU": {"cpu": 8}}),
    );
    assert_eq!(case.resources(&builds), cpu_and_memory("64", "256Gi"));
    case.profile_with("p", json!({"resourcesPerGPU": {"memory": "128Gi"}}));
    assert_eq!(case.resources(&builds), cpu_and_memory("64", "1024Gi"));
    case.context.cache.profiles.remove("p", "p");
    case.queue("default", json!({}));
    assert_eq!(case.resources(&builds), Err(Reason::ResourcesMissing));
}

#[test]
fn placed_gang_retains_the_resources_of_its_queue_until_restart() {
    let builds = BuildCache::default();
    let mut case = BuildFixture::with_gpus_only();
    let queue = |cpu: u32| {
        let mut queue = per_gpu(cpu, "64Gi");
        queue["defaultFor"] = json!({});
        queue
    };
    case.queue_with("default", queue(8));
    let (_, children) = case.profile_and_children(&builds);
    case.add_plan(PodGroupPhase::Committing);
    case.queue_with("default", queue(12));
    // A new operator, which knows only the journal, gets the same result.
    for builds in [&builds, &BuildCache::default()] {
        for phase in [PodGroupPhase::Committing, PodGroupPhase::Placed] {
            case.set_phase(phase);
            assert_eq!(
                case.resources(builds),
                cpu_and_memory("64", "512Gi"),
                "{phase:?}"
            );
            assert_eq!(case.profile_and_children(builds).1, children, "{phase:?}");
        }
    }
    // A running gang keeps its amounts when its queue no longer has any.
    case.queue("default", json!({}));
    assert_eq!(case.resources(&builds), cpu_and_memory("64", "512Gi"));
    case.queue_with("default", queue(12));
    case.status(2, None);
    assert_eq!(case.resources(&builds), cpu_and_memory("96", "512Gi"));
    case.status(1, None);
    case.set_phase(PodGroupPhase::Unwinding);
    assert_eq!(case.resources(&builds), cpu_and_memory("96", "512Gi"));
}

#[test]
fn placed_gang_retains_the_resources_of_its_profile() {
    let builds = BuildCache::default();
    let mut case = BuildFixture::with_gpus_only();
    case.profile_with("p", per_gpu(8, "64Gi"));
    assert_eq!(case.resources(&builds), cpu_and_memory("64", "512Gi"));
    case.add_plan(PodGroupPhase::Placed);
    case.profile_with("p", per_gpu(12, "64Gi"));
    assert_eq!(case.resources(&builds), cpu_and_memory("64", "512Gi"));
    case.status(2, None);
    assert_eq!(case.resources(&builds), cpu_and_memory("96", "512Gi"));
}
