//! Limits that a placed job counts against.

use super::*;

impl BuildFixture {
    /// Adds a QuotaPolicy with that spec.
    pub(super) fn limit(&self, name: &str, mut spec: Value) {
        if spec["subject"].is_null() {
            spec["subject"] = json!({});
        }
        let policy: QuotaPolicy = serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy",
            "metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": spec,
        }))
        .unwrap();
        let quotas = &self.context.cache.quotas;
        quotas.objects.insert_observed(Key::new("", name), policy);
        quotas.invalidate();
    }

    fn get_queue(&self, name: &str) -> TrainingQueue {
        (*self.context.cache.queues.get(&Key::new("", name)).unwrap()).clone()
    }

    fn set_queue(&mut self, mut queue: TrainingQueue) {
        let name = queue.metadata.name.clone().unwrap();
        queue.metadata.resource_version = Some(self.next_version());
        self.context
            .cache
            .queues
            .insert_observed(Key::new("", &name), queue);
    }
}

/// A placed job counts against the limits of the current policies, even if it does not compile.
#[test]
fn uncompilable_placed_job_draws_on_the_current_limits() {
    let mut case = BuildFixture::new(json!({"queueName": "default"}));
    case.profile("p", "old");
    case.add_plan(PodGroupPhase::Placed);
    let mut group = case
        .context
        .cache
        .pod_groups
        .get(&key())
        .unwrap()
        .as_ref()
        .clone();
    let plan = group.status.as_mut().unwrap().plan.as_mut().unwrap();
    plan.requester = Some("ada".to_owned());
    group.metadata.resource_version = Some(case.next_version());
    case.context.cache.pod_groups.insert_observed(key(), group);
    case.limit("all", json!({"limits": {"runningJobs": 1}}));
    let adas_limits = json!({"subject": {"requester": "ada", "queueName": "default"}, "each": "Requester", "limits": {"gpuHours": {"limit": 1, "windowHours": 24}, "runtimeSecondsPerJob": 1}});
    case.limit("mine", adas_limits);
    let eves_limits = json!({"subject": {"requester": "eve"}, "limits": {"runningJobs": 1}});
    case.limit("eves", eves_limits);
    let other_queue_limits =
        json!({"subject": {"queueName": "other"}, "limits": {"runningJobs": 1}});
    case.limit("others", other_queue_limits);
    let draws = |case: &BuildFixture| -> Vec<String> {
        let limits = build::limits_of_place(&case.read_context()).unwrap();
        assert_eq!(limits.requester.as_deref(), Some("ada"));
        assert_eq!(limits.version, case.context.cache.quotas.version());
        limits
            .draws
            .iter()
            .map(|draw| draw.limit.to_string())
            .collect()
    };
    let expected = draws(&case);
    assert_eq!(expected.len(), 2, "{expected:?}");
    // A job that compiles counts against the same limits.
    let builds = BuildCache::default();
    let build = builds.get_or_build(&key(), &mut case.read_context(), &Arc::default());
    let built = &build.policy.as_ref().unwrap().limits.draws;
    let built: Vec<_> = built.iter().map(|draw| draw.limit.to_string()).collect();
    assert_eq!(built, expected);
    // A new operator finds two default profiles, so the job does not compile.
    case.profile("q", "another");
    let expect_no_build = |case: &BuildFixture| {
        let build =
            BuildCache::default().get_or_build(&key(), &mut case.read_context(), &Arc::default());
        assert!(build.result.is_err() && build.policy.is_none());
    };
    expect_no_build(&case);
    assert_eq!(draws(&case), expected);
    // A share of a queue counts if the queue exists.
    let half = json!({"resources": [{"resource": "cpu", "percentOfQueue": 50}]});
    case.limit("half", json!({"limits": half}));
    assert_eq!(draws(&case), expected);
    let quotas = json!([{"name": "cpu", "nominalQuota": 100}]);
    let mut queue = case.get_queue("default");
    queue.spec.resource_groups = serde_json::from_value(json!([
        {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": quotas}]},
    ]))
    .unwrap();
    case.set_queue(queue);
    let limits = build::limits_of_place(&case.read_context()).unwrap().draws;
    assert_eq!(limits.len(), 3);
    assert!(limits.iter().any(|draw| draw.max.floor_units() == 50));
    case.delete_queue("default");
    expect_no_build(&case);
    assert_eq!(draws(&case), expected);
    case.set_phase(PodGroupPhase::Pending);
    assert!(
        build::limits_of_place(&case.read_context()).is_none(),
        "it holds nothing"
    );
}
