//! Topology requests of jobs, and the levels that they name.

use serde_json::{Value, json};

use super::documents::{group, volcano};
use super::{import_notes, import_object, import_text};

/// A HyperNode of Volcano.
fn hyper_node(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"
    )
}

/// A Job of Volcano with 8 pods in partitions of 4. `of_job` and `of_task` are network topologies.
fn partitioned(of_job: &str, of_task: &str) -> String {
    let of_job = match of_job {
        "" => String::new(),
        topology => format!("  networkTopology: {{{topology}}}\n"),
    };
    let policy = format!(
        "replicas: 8, partitionPolicy: {{totalPartitions: 2, partitionSize: 4, networkTopology: {{{of_task}}}}},"
    );
    volcano(&of_job, &[("t", &policy)])
}

fn problems(text: &str) -> Vec<String> {
    let imported = import_text(text);
    assert_eq!(imported[0].objects, [], "{text}");
    let problems = imported[0].problems.iter();
    problems
        .map(|p| format!("{}: {}", p.field, p.message))
        .collect()
}

#[test]
fn partitions_become_slices_at_a_finer_level_than_the_job() {
    let slices = json!({"slices": [{"level": "rack", "pods": 4}]});
    for (of_job, of_task, expected) in [
        ("", "highestTierName: rack", slices.clone()),
        (
            "highestTierName: block",
            "mode: hard, highestTierName: rack",
            slices,
        ),
        // The job is in one rack.
        (
            "highestTierName: rack",
            "highestTierName: rack",
            Value::Null,
        ),
        (
            "",
            "mode: soft, highestTierName: rack",
            json!({"slices": [{"level": "rack", "pods": 4}], "slicePolicy": "Preferred"}),
        ),
    ] {
        let job = import_object(&partitioned(of_job, of_task));
        let topology = &group(&job, 0)["topology"];
        assert_eq!(*topology, expected, "{of_job} {of_task}");
        if expected.is_null() {
            let notes = import_notes(&partitioned(of_job, of_task));
            let has_reason = |note: &String| note.contains("so the task group has no slices");
            assert!(notes.iter().any(has_reason), "{notes:?}");
        }
    }
}

#[test]
fn tier_number_gets_the_name_from_hyper_nodes() {
    let job = partitioned("highestTierAllowed: 2", "highestTierAllowed: 1");
    let (rack, block) = (
        hyper_node("r", "tier: 1, tierName: rack"),
        hyper_node("b", "tier: 2, tierName: block"),
    );
    let convert = |text: &str| serde_json::to_value(&import_text(text)[0].objects[0]).unwrap();
    let named = convert(&format!("{job}{rack}{block}"));
    assert_eq!(named["spec"]["topology"], json!({"required": "block"}));
    let slices = json!({"slices": [{"level": "rack", "pods": 4}]});
    assert_eq!(group(&named, 0)["topology"], slices);
    // A tier with two names has none.
    let other = hyper_node("o", "tier: 1, tierName: pod");
    for text in [
        format!("{job}{block}"),
        format!("{job}{block}{rack}{other}"),
    ] {
        assert_eq!(group(&convert(&text), 0)["topology"], Value::Null);
        let notes = import_notes(&text);
        let path = "spec.tasks[0].partitionPolicy.networkTopology.highestTierAllowed: 1 is a tier";
        assert!(notes.iter().any(|note| note.starts_with(path)), "{notes:?}");
    }
    // A coarser tier than that of the job splits nothing.
    let text = partitioned("highestTierAllowed: 1", "highestTierAllowed: 2");
    let job = convert(&format!("{text}{rack}{block}"));
    assert_eq!(group(&job, 0)["topology"], Value::Null);
}

#[test]
fn min_partitions_become_min_replicas() {
    let job = |topology: &str, framework: &str| {
        let policy = format!(
            "replicas: 8, partitionPolicy: {{totalPartitions: 4, partitionSize: 2, minPartitions: 3{topology}}},"
        );
        match framework {
            "" => volcano("", &[("t", &policy)]),
            framework => volcano(framework, &[("t", &policy), ("m", "")]),
        }
    };
    for text in [
        job("", ""),
        job(", networkTopology: {highestTierName: rack}", ""),
    ] {
        assert_eq!(group(&import_object(&text), 0)["minReplicas"], 6);
    }
    let text = job("", "  plugins: {mpi: [\"--master=m\", \"--worker=t\"]}\n");
    assert_eq!(group(&import_object(&text), 0)["minReplicas"], Value::Null);
    let notes = import_notes(&text);
    let path = "spec.tasks[0].partitionPolicy.minPartitions: ";
    assert!(notes.iter().any(|note| note.starts_with(path)), "{notes:?}");
    // 0 is the default: all partitions run.
    let all = job("", "").replace("minPartitions: 3", "minPartitions: 0");
    assert_eq!(group(&import_object(&all), 0)["minReplicas"], Value::Null);
}

#[test]
fn invalid_partitions_are_errors() {
    let job = |policy: &str| volcano("", &[("t", &format!("replicas: 8, {policy}"))]);
    for (policy, expected) in [
        (
            "partitionPolicy: {totalPartitions: 3, partitionSize: 4},",
            "spec.tasks[0].partitionPolicy: must have totalPartitions × partitionSize = 8, the replicas of the task, as in Volcano: correct them",
        ),
        (
            "partitionPolicy: {partitionSize: 4},",
            "spec.tasks[0].partitionPolicy: must have totalPartitions × partitionSize = 8, the replicas of the task, as in Volcano: correct them",
        ),
        (
            "minAvailable: 2, partitionPolicy: {totalPartitions: 2, partitionSize: 4, minPartitions: 1},",
            "spec.tasks[0].partitionPolicy.minPartitions: gives 4 pods with partitionSize, and minAvailable is 2, but Volcano requires the same number: correct one of them",
        ),
        (
            "partitionPolicy: {totalPartitions: 2, partitionSize: 4, minPartitions: 3},",
            "spec.tasks[0].partitionPolicy.minPartitions: becomes a TrainingJob that Trellis would refuse: spec.taskGroups[0].minReplicas: minReplicas must be 1 at least and replicas at most: the gang is minReplicas pods, and those above come and go with the room that there is",
        ),
        (
            "partitionPolicy: {totalPartitions: 2, partitionSize: 4, networkTopology: {mode: firm, highestTierName: rack}},",
            "spec.tasks[0].partitionPolicy.networkTopology.mode: must be hard or soft: write one of them",
        ),
        (
            "partitionPolicy: {totalPartitions: 2, partitionSize: 4, networkTopology: {highestTierAllowed: 1, highestTierName: rack}},",
            "spec.tasks[0].partitionPolicy.networkTopology.highestTierName: excludes highestTierAllowed, as in Volcano: remove one of the two",
        ),
    ] {
        assert_eq!(problems(&job(policy)), [expected], "{policy}");
    }
    let without_tier = hyper_node("a", "tierName: rack").replace("---\n", "");
    assert_eq!(problems(&without_tier), ["spec.tier: is required: add it"]);
}

#[test]
fn smallest_parallelism_is_raised_to_whole_slices() {
    let job = |least: u32| {
        format!(
            "{{apiVersion: batch/v1, kind: Job, metadata: {{name: a, \
             labels: {{kueue.x-k8s.io/queue-name: q}}, \
             annotations: {{kueue.x-k8s.io/job-min-parallelism: \"{least}\"}}}}, \
             spec: {{completions: 8, parallelism: 8, completionMode: Indexed, template: {{\
             metadata: {{annotations: {{kueue.x-k8s.io/podset-slice-required-topology: rack, \
             kueue.x-k8s.io/podset-slice-size: \"2\"}}}}, spec: {{restartPolicy: Never, \
             containers: [{{name: c, image: i, \
             resources: {{limits: {{cpu: 1, memory: 1Gi}}}}}}]}}}}}}}}"
        )
    };
    let path = "metadata.annotations.kueue.x-k8s.io/job-min-parallelism: ";
    for (least, expected, noted) in [
        (4, json!(4), false),
        (3, json!(4), true),
        (7, Value::Null, true),
    ] {
        let text = job(least);
        assert_eq!(
            group(&import_object(&text), 0)["minReplicas"],
            expected,
            "{least}"
        );
        let notes = import_notes(&text);
        let is_noted = notes.iter().any(|note| note.starts_with(path));
        assert_eq!(is_noted, noted, "{notes:?}");
    }
}
