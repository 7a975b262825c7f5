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

/// A Job of Kueue or KAI with 8 pods, and the labels and annotations of the job and its pods.
fn annotated(job: &str, pods: &str) -> String {
    format!(
        "{{apiVersion: batch/v1, kind: Job, metadata: {{name: a, {job}}}, \
         spec: {{completions: 8, parallelism: 8, template: {{\
         metadata: {{annotations: {{{pods}}}}}, spec: {{schedulerName: kai-scheduler, \
         containers: [{{name: c, image: i, resources: {{limits: {{cpu: 1, memory: 1Gi}}}}}}]}}}}}}}}\n"
    )
}

const IN_KUEUE: &str = "labels: {kueue.x-k8s.io/queue-name: q}";

/// The job would wait, because slices must be at a finer level than the required one.
#[test]
fn slices_at_the_required_level_are_left_out() {
    let kueue = "kueue.x-k8s.io/podset-required-topology: rack, kueue.x-k8s.io/podset-slice-required-topology";
    let kueue_size = "kueue.x-k8s.io/podset-slice-size: \"4\"";
    let layers = r#"kueue.x-k8s.io/podset-required-topology: rack, kueue.x-k8s.io/podset-slice-required-topology-constraints: '[{"topology": "rack", "size": 4}, {"topology": "host", "size": 2}]'"#;
    let kai_job = "labels: {kai.scheduler/queue: q}, annotations: {kai.scheduler/batch-min-member: \"4\", kai.scheduler/topology-required-placement: rack}";
    let kai = "kai.scheduler/segment-size: \"4\", kai.scheduler/segment-topology";
    for (job, pods, expected, is_noted) in [
        (
            IN_KUEUE,
            format!("{kueue}: rack, {kueue_size}"),
            json!({"required": "rack"}),
            true,
        ),
        (
            IN_KUEUE,
            format!("{kueue}: host, {kueue_size}"),
            json!({"required": "rack", "slices": [{"level": "host", "pods": 4}]}),
            false,
        ),
        (
            IN_KUEUE,
            layers.to_owned(),
            json!({"required": "rack", "slices": [{"level": "host", "pods": 2}]}),
            true,
        ),
        // KAI requires the level for the job.
        (
            kai_job,
            format!("{kai}-required-placement: rack"),
            Value::Null,
            true,
        ),
        (
            kai_job,
            format!("{kai}-preferred-placement: rack"),
            Value::Null,
            true,
        ),
        (
            kai_job,
            format!("{kai}-required-placement: host"),
            json!({"slices": [{"level": "host", "pods": 4}]}),
            false,
        ),
    ] {
        let text = annotated(job, &pods);
        let imported = import_object(&text);
        assert_eq!(group(&imported, 0)["topology"], expected, "{text}");
        let notes = import_notes(&text);
        let has_reason = |note: &String| note.contains("so the task group has no slices");
        assert_eq!(notes.iter().any(has_reason), is_noted, "{notes:?}");
    }
}

#[test]
fn segments_raise_the_smallest_number_of_pods_to_one_segment() {
    let job = |size: u32| {
        let pods = format!(
            "kai.scheduler/segment-size: \"{size}\", kai.scheduler/segment-topology-required-placement: rack"
        );
        annotated("labels: {kai.scheduler/queue: q}", &pods)
    };
    for (size, expected) in [(4, json!(4)), (8, Value::Null)] {
        let text = job(size);
        assert_eq!(group(&import_object(&text), 0)["minReplicas"], expected);
        let path = "spec.template.metadata.annotations.kai.scheduler/segment-size: ";
        let notes = import_notes(&text);
        assert!(notes.iter().any(|n| n.starts_with(path)), "{notes:?}");
    }
}

#[test]
fn balanced_placement_of_kueue_splits_pods_evenly() {
    let gate = |value: bool| {
        format!(
            "---\napiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nfeatureGates: {{TASBalancedPlacement: {value}}}\n"
        )
    };
    let kueue = "kueue.x-k8s.io/podset-preferred-topology: rack";
    for (value, pods, expected) in [
        (true, kueue, json!({"preferred": "rack", "balanced": true})),
        (false, kueue, json!({"preferred": "rack"})),
        // Kueue splits only pods without a required level.
        (
            true,
            "kueue.x-k8s.io/podset-required-topology: rack",
            json!({"required": "rack"}),
        ),
        (
            true,
            "kai.scheduler/topology-preferred-placement: rack",
            json!({"preferred": "rack"}),
        ),
    ] {
        let imported = import_text(&(annotated(IN_KUEUE, pods) + &gate(value)));
        let job = serde_json::to_value(&imported[0].objects[0]).unwrap();
        assert_eq!(group(&job, 0)["topology"], expected, "{value} {pods}");
    }
}

#[test]
fn partition_tier_with_an_unknown_order_is_noted() {
    let order = "must name a tier finer than";
    let rack = hyper_node("r", "tier: 1, tierName: rack");
    let block = hyper_node("b", "tier: 2, tierName: block");
    let (fine, coarse) = ("highestTierName: rack", "highestTierName: block");
    let soft = "mode: soft, highestTierName: rack";
    let known = format!("{rack}{block}");
    for (of_job, of_task, nodes, has_slices, is_noted) in [
        (fine, coarse, "", true, true),
        (coarse, fine, rack.as_str(), true, true),
        // The HyperNodes number the names.
        (fine, coarse, &known, false, false),
        (coarse, fine, &known, true, false),
        // A preference of the job bounds no slices.
        (soft, coarse, "", true, false),
    ] {
        let text = partitioned(of_job, of_task) + nodes;
        let job = serde_json::to_value(&import_text(&text)[0].objects[0]).unwrap();
        assert_eq!(group(&job, 0)["topology"].is_object(), has_slices, "{text}");
        let notes = import_notes(&text);
        assert_eq!(
            notes.iter().any(|n| n.contains(order)),
            is_noted,
            "{notes:?}"
        );
    }
}
