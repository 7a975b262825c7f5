//! Limits that what holds a place draws on.

use super::*;

impl Case {
    /// A quota policy of that spec.
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
        quotas.objects.observed(Key::new("", name), policy);
        quotas.changed();
    }

    fn queue_of(&self, name: &str) -> TrainingQueue {
        (*self.context.cache.queues.get(&Key::new("", name)).unwrap()).clone()
    }

    fn queue_is(&mut self, mut queue: TrainingQueue) {
        let name = queue.metadata.name.clone().unwrap();
        queue.metadata.resource_version = Some(self.next());
        self.context
            .cache
            .queues
            .observed(Key::new("", &name), queue);
    }
}

/// A placed job counts by the current policies, whether it compiles or not.
#[test]
fn who_cannot_be_compiled_any_more_draws_on_the_limits_of_now() {
    let mut case = Case::new(json!({"queueName": "default"}));
    case.profile("p", "old");
    case.plan(PodGroupPhase::Placed);
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
    group.metadata.resource_version = Some(case.next());
    case.context.cache.pod_groups.observed(key(), group);
    case.limit("all", json!({"limits": {"runningJobs": 1}}));
    let mine = json!({"subject": {"requester": "ada", "queueName": "default"}, "each": "Requester", "limits": {"gpuHours": {"limit": 1, "windowHours": 24}, "runtimeSecondsPerJob": 1}});
    case.limit("mine", mine);
    let eves = json!({"subject": {"requester": "eve"}, "limits": {"runningJobs": 1}});
    case.limit("eves", eves);
    let others = json!({"subject": {"queueName": "other"}, "limits": {"runningJobs": 1}});
    case.limit("others", others);
    let draws = |case: &Case| -> Vec<String> {
        let held = build::held_limits(&case.look()).unwrap();
        assert_eq!(held.requester.as_deref(), Some("ada"));
        assert_eq!(held.version, case.context.cache.quotas.version());
        held.draws
            .iter()
            .map(|draw| draw.limit.to_string())
            .collect()
    };
    let expected = draws(&case);
    assert_eq!(expected.len(), 2, "{expected:?}");
    // As it is told of one that can be compiled.
    let builds = Builds::default();
    let build = builds.of(&key(), &mut case.look(), &Arc::default());
    let told = &build.decided.as_ref().unwrap().limits.draws;
    let told: Vec<_> = told.iter().map(|draw| draw.limit.to_string()).collect();
    assert_eq!(told, expected);
    // An operator that begins anew finds two default profiles, and then no queue.
    case.profile("q", "another");
    let cannot = |case: &Case| {
        let build = Builds::default().of(&key(), &mut case.look(), &Arc::default());
        assert!(build.result.is_err() && build.decided.is_none());
    };
    cannot(&case);
    assert_eq!(draws(&case), expected);
    // A share of a queue counts if the queue exists.
    let half = json!({"resources": [{"resource": "cpu", "percentOfQueue": 50}]});
    case.limit("half", json!({"limits": half}));
    assert_eq!(draws(&case), expected);
    let quotas = json!([{"name": "cpu", "nominalQuota": 100}]);
    let mut queue = case.queue_of("default");
    queue.spec.resource_groups = serde_json::from_value(json!([
        {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": quotas}]},
    ]))
    .unwrap();
    case.queue_is(queue);
    let held = build::held_limits(&case.look()).unwrap().draws;
    assert_eq!(held.len(), 3);
    assert!(held.iter().any(|draw| draw.max.units_down() == 50));
    case.delete_queue("default");
    cannot(&case);
    assert_eq!(draws(&case), expected);
    case.becomes(PodGroupPhase::Pending);
    assert!(
        build::held_limits(&case.look()).is_none(),
        "it holds nothing"
    );
}
