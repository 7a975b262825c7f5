//! Rules for single fields.

use serde_json::{Value, json};

use super::documents::{CONTAINER, FAILED, group, kueue, volcano};
use super::{import_notes, import_object, import_text};

/// In Kubernetes, each create request for this object gives another name.
#[test]
fn generate_name_becomes_a_name() {
    let text = volcano("  minAvailable: 2\n", &[("t", "replicas: 4,")])
        .replace("{name: a}", "{generateName: sweep-}");
    assert_eq!(import_object(&text)["metadata"]["name"], "sweep");
    assert_eq!(
        import_notes(&text),
        [
            "metadata.generateName: \"sweep-\" generates a new name for each object, and the imported object has a fixed name: sweep; change metadata.name for each object that you create"
        ]
    );
    assert_eq!(import_text(&text)[0].from, "Job (batch.volcano.sh) sweep-");
}

#[test]
fn single_task_with_fewer_min_pods_is_elastic() {
    let text = volcano("  minAvailable: 2\n", &[("t", "replicas: 4,")]);
    assert_eq!(group(&import_object(&text), 0)["minReplicas"], 2);
    assert_eq!(import_notes(&text), Vec::<String>::new());
    // With MPI, all pods are in the gang.
    let text = volcano(
        "  minAvailable: 2\n  plugins: {mpi: [\"--master=t\", \"--worker=w\"]}\n",
        &[("t", ""), ("w", "replicas: 4,")],
    );
    assert_eq!(group(&import_object(&text), 1)["minReplicas"], Value::Null);
    let notes = import_notes(&text);
    assert!(
        notes.len() == 1 && notes[0].starts_with("spec.minAvailable: 2 "),
        "{notes:?}"
    );
}

#[test]
fn larger_of_two_minimums_counts() {
    for (of_job, of_task) in [(2, 3), (3, 2)] {
        let text = volcano(
            &format!("  minAvailable: {of_job}\n"),
            &[("t", &format!("replicas: 4, minAvailable: {of_task},"))],
        );
        assert_eq!(group(&import_object(&text), 0)["minReplicas"], 3);
    }
}

#[test]
fn job_value_from_one_group_is_noted() {
    let text = |pods: &str| {
        let task = |name: &str, pods: &str| {
            format!(
                "  - {{name: {name}, template: {{spec: {{{pods} containers: [{{{CONTAINER}}}]}}}}}}\n"
            )
        };
        format!(
            "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: a}}\nspec:\n{FAILED}  tasks:\n{}{}",
            task("t", pods),
            task("u", "")
        )
    };
    for (pods, expected) in [
        ("priorityClassName: high,", "is set for one task group"),
        (
            "terminationGracePeriodSeconds: 10,",
            "10 is less than another",
        ),
    ] {
        let notes = import_notes(&text(pods));
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains(expected), "{notes:?}");
    }
    let long = import_object(&text("terminationGracePeriodSeconds: 60,"));
    assert_eq!(long["spec"]["checkpoint"]["gracePeriodSeconds"], 60);
    assert_eq!(
        import_notes(&text("terminationGracePeriodSeconds: 30,")),
        Vec::<String>::new()
    );
}

#[test]
fn pod_sets_of_one_group_get_the_same_flavor() {
    let pods = |group: &str, level: &str| {
        format!(
            "{{metadata: {{annotations: {{kueue.x-k8s.io/podset-group-name: {group}, \
             kueue.x-k8s.io/podset-required-topology: {level}}}}}, spec: {{restartPolicy: Never, \
             containers: [{{name: pytorch, image: i, \
             resources: {{limits: {{cpu: 1, memory: 1Gi}}}}}}]}}}}"
        )
    };
    let text = |of_worker: &str| {
        format!(
            "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {{name: a}}\nspec:\n  \
             pytorchReplicaSpecs:\n    Master: {{replicas: 1, template: {}}}\n    \
             Worker: {{replicas: 2, template: {}}}\n",
            pods("trainers", "rack"),
            pods(of_worker, "rack")
        )
    };
    let job = |of_worker: &str| import_object(&text(of_worker));
    let one = job("trainers");
    assert_eq!(group(&one, 0)["sameFlavorAs"], Value::Null);
    assert_eq!(group(&one, 1)["sameFlavorAs"], group(&one, 0)["name"]);
    assert_eq!(one["spec"]["topology"], json!({"required": "rack"}));
    assert_eq!(import_notes(&text("trainers")), Vec::<String>::new());
    // Each group has a flavor and a domain of its own.
    let notes = import_notes(&text("others"));
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[1].contains("is on no other pod set"), "{notes:?}");
    let two = job("others");
    assert_eq!(group(&two, 1)["sameFlavorAs"], Value::Null);
    assert_eq!(two["spec"]["topology"], Value::Null);
    assert_eq!(group(&two, 1)["topology"], json!({"required": "rack"}));
}

#[test]
fn optional_task_is_outside_the_gang() {
    let text = volcano("", &[("t", ""), ("board", "minAvailable: 0,")]);
    let object = import_object(&text);
    assert_eq!(group(&object, 0)["membership"], Value::Null);
    assert_eq!(group(&object, 1)["membership"], "BestEffort");
}

#[test]
fn task_without_pods_is_left_out() {
    let text = volcano("", &[("none", "replicas: 0,"), ("t", "")]);
    assert_eq!(group(&import_object(&text), 0)["name"], "t");
    assert!(import_notes(&text)[0].starts_with("spec.tasks[0]: "));
    let text = volcano("", &[("none", "replicas: 0,")]);
    assert_eq!(import_text(&text)[0].problems.len(), 1);
}

#[test]
fn task_policies_come_before_job_policies() {
    let text = volcano(
        "  policies:\n  - {exitCode: 9, action: AbortJob}\n  - {event: PodFailed, action: RestartTask}\n",
        &[
            (
                "t",
                "policies: [{exitCode: 9, action: RestartJob}, {event: PodFailed, action: RestartPod}],",
            ),
            (
                "u",
                "policies: [{event: PodEvicted, action: TerminateJob}],",
            ),
        ],
    );
    assert_eq!(
        import_object(&text)["spec"]["restart"],
        json!({"scope": "Gang", "rules": [
            {"onReasons": ["PodDisrupted", "NodeLost", "Preempted"], "groups": ["u"], "action": "Fail"},
            {"onExitCodes": [9], "groups": ["t"], "action": "Restart"},
            {"groups": ["t"], "action": "RestartPod"},
            {"onExitCodes": [9], "action": "Fail"},
            {"action": "RestartGroup"},
        ]})
    );
}

#[test]
fn task_with_rank_0_completes_the_job() {
    let ends = "policies: [{event: TaskCompleted, action: CompleteJob}],";
    // The task gets rank 0, which is noted.
    let text = volcano("", &[("worker", "replicas: 2,"), ("driver", ends)]);
    let made = import_object(&text);
    assert_eq!(group(&made, 1)["role"], "Coordinator");
    assert_eq!(made["spec"]["success"]["policy"], "Leader");
    assert_eq!(import_notes(&text).len(), 1);
    // The success policy cannot express that several pods must end.
    let text = volcano("", &[("t", ""), ("u", &format!("replicas: 2, {ends}"))]);
    assert_eq!(import_object(&text)["spec"]["success"], Value::Null);
    assert!(import_notes(&text)[0].contains("a task of several pods"));
}

#[test]
fn dependencies_come_before_dependent_groups() {
    let text = volcano(
        "",
        &[
            ("c", "dependsOn: {name: [b]},"),
            ("b", "dependsOn: {name: [a]},"),
            ("a", ""),
        ],
    );
    let object = import_object(&text);
    let names: Vec<_> = (0..3)
        .map(|at| group(&object, at)["name"].clone())
        .collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(group(&object, 2)["dependsOn"], json!([{"group": "b"}]));
    assert!(import_notes(&text)[0].contains("in another order, a, b, c"));
    // Cyclic dependencies give no order.
    let text = volcano(
        "",
        &[
            ("a", "dependsOn: {name: [b]},"),
            ("b", "dependsOn: {name: [a]},"),
        ],
    );
    assert!(
        import_text(&text)[0].problems[0]
            .message
            .contains("stands after it")
    );
}

#[test]
fn more_completions_than_parallelism_are_noted() {
    let pods = format!("      containers: [{{{CONTAINER}}}]\n");
    let text = kueue(
        "  completions: 8\n  parallelism: 2\n  completionMode: Indexed\n",
        &pods,
    );
    assert_eq!(group(&import_object(&text), 0)["replicas"], 8);
    let notes = import_notes(&text);
    let is_expected =
        |note: &String| note.starts_with("spec.completions: 8 is more than parallelism");
    assert!(notes.iter().any(is_expected), "{notes:?}");
}

#[test]
fn exit_codes_above_the_limit_are_split_into_rules() {
    let pods = format!("      containers: [{{{CONTAINER}}}]\n");
    let codes: Vec<String> = (1..=40).map(|code| code.to_string()).collect();
    let rule = format!(
        "  podFailurePolicy: {{rules: [{{action: FailJob, onExitCodes: {{operator: In, values: [{}]}}}}]}}\n",
        codes.join(", ")
    );
    let object = import_object(&kueue(&rule, &pods));
    let rules = object["spec"]["restart"]["rules"].as_array().unwrap();
    let counts: Vec<_> = rules
        .iter()
        .map(|r| r["onExitCodes"].as_array().unwrap().len())
        .collect();
    assert_eq!(counts, [32, 8]);
}

#[test]
fn differing_groups_keep_their_own_values() {
    let pods = |account: &str, user: u32, label: &str| {
        format!(
            "template: {{metadata: {{labels: {{part: {label}}}}}, spec: {{serviceAccountName: {account}, \
             securityContext: {{runAsUser: {user}}}, containers: [{{{CONTAINER}}}]}}}}"
        )
    };
    let text = format!(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: a}}\nspec:\n{FAILED}  tasks:\n  \
         - {{name: t, {}}}\n  - {{name: u, {}}}\n",
        pods("one", 1, "a"),
        pods("two", 2, "b")
    );
    let object = import_object(&text);
    assert_eq!(object["spec"]["serviceAccountName"], "one");
    assert_eq!(object["spec"]["securityContext"], Value::Null);
    let template = &group(&object, 1)["podTemplate"];
    assert_eq!(template["spec"]["securityContext"]["runAsUser"], 2);
    assert_eq!(template["metadata"]["labels"], json!({"part": "b"}));
    let notes = import_notes(&text);
    assert!(
        notes.len() == 1
            && notes[0].starts_with("spec.tasks[1].template.spec.serviceAccountName: \"two\""),
        "{notes:?}"
    );
}

/// Returns the number of pods of a RayCluster's only worker group. None: the group is left out.
fn ray_workers(fields: &str) -> Option<i64> {
    let pod = "template: {spec: {containers: [{name: c, image: 'i:1', resources: {limits: {cpu: 1, memory: 1Gi}}}]}}";
    let text = format!(
        "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {{name: a}}\nspec:\n  headGroupSpec: {{rayStartParams: {{}}, {pod}}}\n  workerGroupSpecs: [{{groupName: w, rayStartParams: {{}}, {fields} {pod}}}]\n"
    );
    let job = import_object(&text);
    let workers = job["spec"]["taskGroups"].get(1)?;
    Some(workers["replicas"].as_i64().unwrap_or(1))
}

#[test]
fn ray_workers_are_as_many_as_kuberay_would_start() {
    assert_eq!(ray_workers("replicas: 2,"), Some(2));
    assert_eq!(ray_workers("replicas: 1, minReplicas: 3,"), Some(3));
    assert_eq!(ray_workers("replicas: 9, maxReplicas: 4,"), Some(4));
    assert_eq!(ray_workers("minReplicas: 2,"), Some(2));
    assert_eq!(ray_workers("replicas: 2, numOfHosts: 2,"), Some(4));
    assert_eq!(ray_workers(""), None);
}

#[test]
fn job_minimum_of_all_pods_overrides_smaller_task_minimums() {
    let text = volcano(
        "  minAvailable: 6\n",
        &[
            ("t", "replicas: 4, minAvailable: 2,"),
            ("u", "replicas: 2,"),
        ],
    );
    assert_eq!(group(&import_object(&text), 0)["minReplicas"], Value::Null);
}
