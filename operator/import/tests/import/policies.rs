//! Lifecycle policies of Volcano, and the resulting restart settings.

use serde_json::{Value, json};

use super::{import_notes, import_object, import_text};

/// A Job with these policies and tasks. Each task has a name, fields and the restart policy of its
/// pods.
fn job(policies: &str, tasks: &[(&str, &str, &str)]) -> String {
    let tasks: String = tasks
        .iter()
        .map(|(name, fields, restart)| {
            format!(
                "  - {{name: {name}, {fields} template: {{spec: {{{restart} containers: [{{name: c, image: 'i:1', resources: {{limits: {{cpu: 1, memory: 1Gi}}}}}}]}}}}}}\n"
            )
        })
        .collect();
    format!(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: a}}\nspec:\n  policies: [{policies}]\n  tasks:\n{tasks}"
    )
}

const NEVER: &str = "restartPolicy: Never,";
const OWN: [&str; 2] = ["PodFailed", "OutOfMemory"];

fn restart_of_text(text: &str) -> Value {
    import_object(text)["spec"]["restart"].clone()
}

/// Imports a job with one task and these policies. Returns the restart settings and the notes.
fn restart_of_job(policies: &str) -> (Value, Vec<String>) {
    let text = job(policies, &[("t", "", NEVER)]);
    (restart_of_text(&text), import_notes(&text))
}

#[test]
fn first_matching_policy_counts() {
    let code = "{exitCode: 3, action: TerminateJob}";
    let failed = "{event: PodFailed, action: RestartJob}";
    let rule = json!({"onExitCodes": [3], "action": "Fail"});
    let (restart, notes) = restart_of_job(&format!("{code}, {failed}"));
    assert_eq!(restart, json!({"scope": "Gang", "rules": [rule]}));
    assert_eq!(notes, Vec::<String>::new());
    // An earlier policy already handles all failed pods, so the exit code has no effect.
    for first in [
        failed,
        "{events: [PodEvicted, PodFailed], action: RestartJob}",
    ] {
        let (restart, notes) = restart_of_job(&format!("{first}, {code}"));
        assert_eq!(restart, json!({"scope": "Gang"}), "{first}");
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(
            notes[0].starts_with("spec.policies[1]: ")
                && notes[0].contains("has no effect on exit code 3"),
            "{notes:?}"
        );
    }
    // Policies of a task work the same way, and come before the policies of the job.
    let text = job(
        &format!("{code}, {failed}"),
        &[(
            "t",
            "policies: [{event: '*', action: RestartPod}, {exitCode: 7, action: AbortJob}],",
            NEVER,
        )],
    );
    let pod = json!({"groups": ["t"], "action": "RestartPod"});
    let expected_rule =
        json!({"onReasons": ["PodDisrupted"], "groups": ["t"], "action": "RestartPod"});
    assert_eq!(
        restart_of_text(&text),
        json!({"scope": "Gang", "rules": [expected_rule, pod, rule]})
    );
    let notes = import_notes(&text);
    let expected_path = "spec.tasks[0].policies[1]: ";
    assert!(
        notes.iter().any(|note| note.starts_with(expected_path)),
        "{notes:?}"
    );
}

#[test]
fn repeated_policy_is_noted() {
    let (restart, notes) = restart_of_job(
        "{event: PodFailed, action: RestartJob}, {events: [PodFailed, PodEvicted], action: RestartTask}",
    );
    assert_eq!(
        restart,
        json!({"scope": "Gang", "rules": [{"onReasons": ["PodDisrupted"], "action": "RestartGroup"}]})
    );
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].contains("has no effect on PodFailed:"),
        "{notes:?}"
    );
    let (_, notes) = restart_of_job(
        "{event: PodFailed, action: AbortJob}, {event: PodFailed, action: AbortJob}",
    );
    assert!(notes.iter().any(|n| n.starts_with("spec.policies[1]: ")));
}

/// Without a policy, Volcano does not restart a failed pod.
#[test]
fn failure_without_a_policy_ends_the_job() {
    let fail = json!({"onReasons": OWN, "action": "Fail"});
    let (restart, notes) = restart_of_job("");
    assert_eq!(restart, json!({"rules": [fail]}));
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].starts_with("spec.policies: restart no failed pod of t:"),
        "{notes:?}"
    );
    // Exit codes without a policy end the job.
    let (restart, notes) = restart_of_job("{exitCode: 75, action: RestartJob}");
    let code = json!({"onExitCodes": [75], "action": "Restart"});
    assert_eq!(restart, json!({"rules": [code, fail]}));
    assert_eq!(notes.len(), 1, "{notes:?}");
    // A policy on evictions does not change the effect of failures.
    let (restart, _) = restart_of_job("{event: PodEvicted, action: RestartJob}");
    assert_eq!(restart, json!({"rules": [fail]}));
}

#[test]
fn failed_task_without_a_policy_ends_the_job() {
    let text = job(
        "",
        &[
            (
                "t",
                "policies: [{event: PodFailed, action: RestartTask}],",
                NEVER,
            ),
            ("u", "", NEVER),
            ("v", "minAvailable: 0,", NEVER),
            ("w", "", "restartPolicy: OnFailure,"),
        ],
    );
    assert_eq!(
        restart_of_text(&text),
        json!({"rules": [
            {"groups": ["t"], "action": "RestartGroup"},
            {"onReasons": OWN, "groups": ["u"], "action": "Fail"},
        ]})
    );
}

/// The kubelet restarts these containers, so the pod does not fail.
#[test]
fn kubelet_restarts_need_no_restart_rule() {
    for restarts in ["", "restartPolicy: OnFailure,", "restartPolicy: Always,"] {
        let text = job("", &[("t", "", restarts)]);
        assert_eq!(restart_of_text(&text), Value::Null, "{restarts}");
        let notes = import_notes(&text);
        assert!(
            notes[0].starts_with("spec.policies: do not cover a failed pod of t,"),
            "{notes:?}"
        );
    }
}

/// A job that ends when a pod fails does not end when the cluster evicts a pod.
#[test]
fn eviction_does_not_end_a_job_that_ends_on_failure() {
    let fail = json!({"onReasons": OWN, "action": "Fail"});
    let (restart, notes) = restart_of_job("{event: PodFailed, action: TerminateJob}");
    assert_eq!(restart, json!({"rules": [fail]}));
    assert_eq!(notes, Vec::<String>::new());
    let (restart, notes) = restart_of_job(
        "{event: PodEvicted, action: RestartJob}, {event: PodFailed, action: TerminateJob}",
    );
    assert_eq!(restart, json!({"scope": "Gang", "rules": [fail]}));
    assert_eq!(notes, Vec::<String>::new());
    let (restart, _) = restart_of_job("{events: [PodEvicted, PodFailed], action: TerminateJob}");
    assert_eq!(restart, json!({"scope": "Never"}));
    // Only evictions restart the gang.
    let (restart, notes) = restart_of_job(
        "{event: PodEvicted, action: RestartJob}, {event: PodFailed, action: RestartTask}",
    );
    let group = json!({"onReasons": OWN, "action": "RestartGroup"});
    assert_eq!(restart, json!({"scope": "Gang", "rules": [group]}));
    assert_eq!(notes, Vec::<String>::new());
}

/// The action Restart follows the scope, so a job that needs gang restarts has the scope Gang.
#[test]
fn restart_action_sets_the_gang_scope() {
    let code = json!({"onExitCodes": [5], "action": "Restart"});
    let (restart, _) =
        restart_of_job("{exitCode: 5, action: RestartJob}, {event: PodFailed, action: RestartPod}");
    assert_eq!(
        restart,
        json!({"scope": "Gang", "rules": [code, {"action": "RestartPod"}]})
    );
    let (restart, _) = restart_of_job(
        "{exitCode: 5, action: RestartJob}, {events: [PodFailed, PodEvicted], action: AbortJob}",
    );
    let reasons = ["PodDisrupted", "NodeLost", "Preempted"];
    assert_eq!(
        restart,
        json!({"scope": "Gang", "rules": [
            {"onReasons": reasons, "action": "Fail"},
            code,
            {"onReasons": OWN, "action": "Fail"},
        ]})
    );
    let text = job(
        "{event: PodFailed, action: RestartTask}",
        &[(
            "t",
            "policies: [{event: PodEvicted, action: RestartJob}],",
            NEVER,
        )],
    );
    let reasons = json!({"onReasons": ["PodDisrupted"], "groups": ["t"], "action": "Restart"});
    assert_eq!(
        restart_of_text(&text),
        json!({"scope": "Gang", "rules": [reasons, {"action": "RestartGroup"}]})
    );
    assert_eq!(import_notes(&text), Vec::<String>::new());
    // Without a scope, an elastic group restarts single pods.
    let text = job(
        "{exitCode: 5, action: RestartJob}",
        &[("t", "replicas: 4, minAvailable: 2,", NEVER)],
    );
    assert_eq!(restart_of_text(&text)["scope"], "Gang");
}

#[test]
fn task_evictions_come_before_job_evictions() {
    let text = job(
        "{event: PodFailed, action: RestartJob}, {event: PodEvicted, action: RestartTask}",
        &[(
            "t",
            "policies: [{event: PodEvicted, action: RestartPod}],",
            NEVER,
        )],
    );
    let expected_rule = |action: &str| json!({"onReasons": ["PodDisrupted"], "action": action});
    let mut own = expected_rule("RestartPod");
    own["groups"] = json!(["t"]);
    assert_eq!(
        restart_of_text(&text),
        json!({"scope": "Gang", "rules": [own, expected_rule("RestartGroup")]})
    );
    let text = text.replace("RestartPod", "RestartJob");
    own["action"] = json!("Restart");
    assert_eq!(
        restart_of_text(&text),
        json!({"scope": "Gang", "rules": [own, expected_rule("RestartGroup")]})
    );
}

#[test]
fn every_event_is_noted() {
    let (restart, notes) = restart_of_job("{event: '*', action: RestartJob}");
    assert_eq!(restart, json!({"scope": "Gang"}));
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("covers every event"), "{notes:?}");
}

#[test]
fn shortest_startup_timeout_counts() {
    let pending =
        |time: &str| format!("{{event: PodPending, action: RestartJob, timeout: {time}}}");
    let of_task = |time: &str| format!("policies: [{}],", pending(time));
    let text = job(
        &pending("10m"),
        &[
            ("t", &of_task("5m"), NEVER),
            ("u", &of_task("20m"), NEVER),
            ("v", &of_task("5m"), NEVER),
        ],
    );
    assert_eq!(
        import_object(&text)["spec"]["deadlines"]["startupSeconds"],
        300
    );
    let notes = import_notes(&text);
    let times: Vec<_> = notes.iter().filter(|n| n.contains("timeout: ")).collect();
    assert_eq!(times.len(), 2, "{notes:?}");
    // With another event, the timeout delays the action.
    let text = job(
        "{events: [PodPending, PodFailed], action: RestartJob, timeout: 10m}",
        &[("t", "", NEVER)],
    );
    assert!(
        import_notes(&text)
            .iter()
            .any(|n| n.contains("timeout: \"10m\""))
    );
}

#[test]
fn zero_retries_use_the_default() {
    let text = job(
        "{event: PodFailed, action: RestartJob}",
        &[("t", "", NEVER)],
    )
    .replace("spec:\n  policies", "spec:\n  maxRetry: 0\n  policies");
    assert_eq!(restart_of_text(&text), json!({"scope": "Gang"}));
    assert_eq!(import_text(&text)[0].problems, []);
}

#[test]
fn second_success_policy_is_noted() {
    let ends = "policies: [{event: TaskCompleted, action: CompleteJob}],";
    let failed = "{event: PodFailed, action: RestartJob}";
    let text = job(failed, &[("t", ends, NEVER), ("u", "", NEVER)]);
    assert_eq!(import_object(&text)["spec"]["success"]["policy"], "Leader");
    let text = text.replace("spec:\n  policies", "spec:\n  minSuccess: 1\n  policies");
    assert_eq!(import_object(&text)["spec"]["success"]["policy"], "Any");
    let notes = import_notes(&text);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].starts_with("spec.tasks[0].policies[0]: "),
        "{notes:?}"
    );
}

/// An eviction is no failure of the pod: Kueue requeues the job.
#[test]
fn kubeflow_pods_without_restarts_end_the_job() {
    let text = |master: &str, worker: &str| {
        let import_policy = |policy: &str| {
            format!(
                "{{restartPolicy: {policy}, template: {{spec: {{containers: [{{name: pytorch, image: 'i:1', resources: {{limits: {{cpu: 1, memory: 1Gi}}}}}}]}}}}}}"
            )
        };
        format!(
            "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {{name: a}}\nspec: {{pytorchReplicaSpecs: {{Master: {}, Worker: {}}}}}\n",
            import_policy(master),
            import_policy(worker)
        )
    };
    assert_eq!(
        restart_of_text(&text("Never", "Never")),
        json!({"rules": [{"onReasons": OWN, "action": "Fail"}]})
    );
    assert_eq!(
        restart_of_text(&text("Never", "OnFailure")),
        json!({"rules": [{"onReasons": OWN, "groups": ["master"], "action": "Fail"}]})
    );
}

#[test]
fn lattice_policies_convert_as_in_volcano() {
    let text = |policy: &str| {
        format!(
            "apiVersion: lattice.dev/v1alpha1\nkind: LatticeJob\nmetadata: {{name: a}}\nspec: {{tasks: {{t: {{{policy} workload: {{containers: {{main: {{image: 'i:1', resources: {{limits: {{cpu: 1, memory: 1Gi}}}}}}}}}}}}}}}}\n"
        )
    };
    assert_eq!(
        restart_of_text(&text("restartPolicy: Never,")),
        json!({"rules": [{"onReasons": OWN, "action": "Fail"}]})
    );
    assert_eq!(restart_of_text(&text("")), Value::Null);
    assert_eq!(
        import_text(&text("restartPolicy: Maybe,"))[0]
            .problems
            .len(),
        1
    );
}
