use serde_json::{Value, json};

use super::*;
use crate::{RuntimeProfile, TrainingJob};

fn valid(groups: Value) -> ValidatedJob {
    let job: TrainingJob = serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "llm"}, "spec": {"taskGroups": groups},
    }))
    .unwrap();
    ValidatedJob::try_from(job).unwrap()
}

fn profile(per_gpu: Value) -> ValidatedProfile {
    let profile: RuntimeProfile = serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile",
        "metadata": {"name": "p"}, "spec": {"resourcesPerGPU": per_gpu},
    }))
    .unwrap();
    ValidatedProfile::try_from(profile).unwrap()
}

fn queue(name: &str, per_gpu: Value) -> QueueResources {
    let stated: ResourcesPerGpu = serde_json::from_value(per_gpu).unwrap();
    QueueResources::from_queue(name, Some(&stated))
}

fn group(fields: Value) -> Value {
    let mut group = json!({"name": "worker", "image": "i"});
    let fields = fields.as_object().unwrap().clone();
    group.as_object_mut().unwrap().extend(fields);
    group
}

/// Returns CPU and memory of the first group, each with its source.
fn first_group_amounts(
    fields: Value,
    profile: Option<&ValidatedProfile>,
    queue: QueueResources,
) -> Result<[(String, AmountSource); 2], String> {
    let job = valid(json!([group(fields)]));
    let resolved = ResolvedJob::new(job, profile, "q", queue).map_err(|e| e.to_string())?;
    let (_, compute) = resolved.groups().next().unwrap();
    let of = |amount: &PodAmount| (amount.quantity.to_string(), amount.source.clone());
    Ok([of(&compute.cpu), of(&compute.memory)])
}

#[test]
fn amount_comes_from_the_group_then_the_profile_then_the_queue() {
    let of_profile = profile(json!({"cpu": 12, "memory": "128Gi"}));
    let of_queue = || queue("q", json!({"cpu": "1500m", "memory": "64Gi"}));
    let by_profile = || AmountSource::Profile("p".to_owned());
    let by_queue = || AmountSource::Queue("q".to_owned());
    let own = json!({"gpus": 8, "resources": {"limits": {"cpu": 4, "memory": "8Gi"}}});
    let own_cpu =
        json!({"gpus": 8, "resources": {"limits": {"cpu": 4, "ephemeral-storage": "1Gi"}}});
    let gpus = || json!({"gpus": 8});
    let cpu_alone = profile(json!({"cpu": 12}));
    for (fields, profile, queue, cpu, memory) in [
        (
            own,
            Some(&of_profile),
            of_queue(),
            ("4", AmountSource::Group),
            ("8Gi", AmountSource::Group),
        ),
        (
            own_cpu,
            Some(&of_profile),
            of_queue(),
            ("4", AmountSource::Group),
            ("1024Gi", by_profile()),
        ),
        (
            gpus(),
            Some(&of_profile),
            of_queue(),
            ("96", by_profile()),
            ("1024Gi", by_profile()),
        ),
        (
            gpus(),
            Some(&cpu_alone),
            of_queue(),
            ("96", by_profile()),
            ("512Gi", by_queue()),
        ),
        (
            gpus(),
            None,
            of_queue(),
            ("12", by_queue()),
            ("512Gi", by_queue()),
        ),
    ] {
        let found = first_group_amounts(fields.clone(), profile, queue).unwrap();
        let expected = [cpu, memory].map(|(amount, source)| (amount.to_owned(), source));
        assert_eq!(found, expected, "{fields}");
    }
}

#[test]
fn devices_of_any_resource_count_as_gpus() {
    let slice = json!({"gpus": 2, "gpuResource": "nvidia.com/mig-1g.10gb"});
    let found = first_group_amounts(slice, None, queue("q", json!({"cpu": 2, "memory": "8Gi"})));
    let [cpu, memory] = found.unwrap();
    assert_eq!((cpu.0.as_str(), memory.0.as_str()), ("4", "16Gi"));
}

#[test]
fn amount_comes_from_the_nearest_queue_that_states_it() {
    let own = queue("team", json!({"cpu": 8}));
    let above = queue("root", json!({"cpu": 12, "memory": "128Gi"}));
    let both = own.or(above);
    let source = |queue: &str| AmountSource::Queue(queue.to_owned());
    let found = first_group_amounts(json!({"gpus": 1}), None, both.clone()).unwrap();
    assert_eq!(
        found,
        [
            ("8".to_owned(), source("team")),
            ("128Gi".to_owned(), source("root"))
        ]
    );
    let amounts: ResourcesPerGpu =
        serde_json::from_value(json!({"cpu": 8, "memory": "128Gi"})).unwrap();
    assert_eq!(both.per_gpu(), Some(amounts));
    assert_eq!(QueueResources::default().per_gpu(), None);
}

#[test]
fn missing_amount_is_refused_with_field_and_both_fixes() {
    let gpus = || json!({"gpus": 8});
    let none = QueueResources::default;
    let of_cpu = profile(json!({"cpu": 12}));
    assert_eq!(
        first_group_amounts(gpus(), None, none()).unwrap_err(),
        "spec.taskGroups[0].resources.limits: cpu and memory are required: state them, or resourcesPerGPU \
         in a RuntimeProfile or queue \"q\""
    );
    assert_eq!(
        first_group_amounts(gpus(), Some(&of_cpu), none()).unwrap_err(),
        "spec.taskGroups[0].resources.limits.memory: is required: state it, or resourcesPerGPU.memory in \
         RuntimeProfile \"p\" or queue \"q\""
    );
    let cpu = first_group_amounts(gpus(), None, queue("root", json!({"memory": "1Gi"})));
    assert!(
        cpu.unwrap_err()
            .starts_with("spec.taskGroups[0].resources.limits.cpu: is required: ")
    );
    // All groups are reported at once, by their index.
    let two = valid(json!([
        group(json!({"gpus": 8})),
        {"name": "head", "image": "i", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}},
        {"name": "third", "image": "i", "gpus": 1, "resources": {"limits": {"cpu": 1}}},
    ]));
    let error = ResolvedJob::new(two, None, "q", none())
        .unwrap_err()
        .to_string();
    let places: Vec<&str> = error
        .split("; ")
        .filter_map(|e| e.split(": ").next())
        .collect();
    assert_eq!(
        places,
        [
            "spec.taskGroups[0].resources.limits",
            "spec.taskGroups[2].resources.limits.memory"
        ]
    );
}

#[test]
fn stage_keeps_the_amounts_of_its_groups() {
    let job = valid(json!([
        {"name": "prepare", "image": "i", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}},
        {"name": "train", "image": "i", "gpus": 8,
            "dependsOn": [{"group": "prepare", "status": "Complete"}]},
    ]));
    let of_queue = queue("q", json!({"cpu": 12, "memory": "128Gi"}));
    let resolved = ResolvedJob::new(job, None, "q", of_queue).unwrap();
    for (stage, name, cpu) in [(1, "prepare", "1"), (2, "train", "96")] {
        let stage = resolved.clone().into_stage(stage);
        let groups: Vec<_> = stage.groups().collect();
        let [(group, compute)] = groups[..] else {
            panic!("{groups:?}");
        };
        assert_eq!(
            (group.name.as_str(), compute.cpu.quantity.as_str()),
            (name, cpu)
        );
    }
}

#[test]
fn largest_amounts_per_gpu_are_within_the_pod_limits() {
    let most = profile(json!({"cpu": 1000, "memory": "16Ti"}));
    let [cpu, memory] =
        first_group_amounts(json!({"gpus": 64}), Some(&most), QueueResources::default()).unwrap();
    let amounts = [cpu, memory].map(|(amount, _)| Quantity::new(amount));
    assert!(crate::rules::cpu(&amounts[0], &()).is_ok(), "{amounts:?}");
    assert!(
        crate::rules::memory(&amounts[1], &()).is_ok(),
        "{amounts:?}"
    );
}
