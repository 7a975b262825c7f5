//! Fields with a fixed set of values, and fields with the same meaning.

use serde_json::json;

use super::{import_notes, import_object, import_text};

const POD: &str = "template: {spec: {containers: [{name: pytorch, image: 'i:1', resources: {limits: {cpu: 1, memory: 1Gi}}}]}}";

fn pytorch(labels: &str, run: &str, worker: &str) -> String {
    format!(
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {{name: a, labels: {{{labels}}}}}\nspec: {{{run}, pytorchReplicaSpecs: {{Worker: {{replicas: 4, {worker} {POD}}}}}}}\n"
    )
}

fn kueue(labels: &str, spec: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: a, labels: {{kueue.x-k8s.io/queue-name: q, {labels}}}}}\nspec: {{{spec} {POD}}}\n"
    )
}

fn volcano(task: &str) -> String {
    format!(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: a}}\nspec: {{tasks: [{{name: s, {POD}}}, {{name: t, {task} {POD}}}]}}\n"
    )
}

fn flavor(taint: &str) -> String {
    format!(
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {{name: a}}\nspec: {{nodeTaints: [{taint}]}}\n"
    )
}

#[test]
fn unknown_enum_values_are_errors() {
    let policy = |word: &str| POD.replace("spec: {", &format!("spec: {{restartPolicy: {word}, "));
    for (text, expected) in [
        (
            pytorch("", "runPolicy: {cleanPodPolicy: Wrong}", ""),
            "spec.runPolicy.cleanPodPolicy: must be All, Running or None: write one of them",
        ),
        (
            pytorch("", "runPolicy: {}", "restartPolicy: Sometimes,"),
            "spec.pytorchReplicaSpecs.Worker.restartPolicy: must be Always, OnFailure, Never or ExitCode: write one of them",
        ),
        (
            kueue("", "completionMode: indexed,"),
            "spec.completionMode: must be NonIndexed or Indexed: write one of them",
        ),
        (
            kueue("", "podReplacementPolicy: Soon,"),
            "spec.podReplacementPolicy: must be TerminatingOrFailed or Failed: write one of them",
        ),
        (
            kueue("", "").replace(POD, &policy("never")),
            "spec.template.spec.restartPolicy: must be Always, OnFailure or Never: write one of them",
        ),
        (
            volcano("dependsOn: {name: [s], iteration: some},"),
            "spec.tasks[1].dependsOn.iteration: must be any or all: write one of them",
        ),
        (
            flavor("{key: spot}"),
            "spec.nodeTaints[0].effect: is required: write NoSchedule, PreferNoSchedule or NoExecute",
        ),
        (
            flavor("{key: spot, effect: Never}"),
            "spec.nodeTaints[0].effect: must be NoSchedule, PreferNoSchedule or NoExecute: write one of them",
        ),
    ] {
        let imported = import_text(&text);
        let problems = imported[0].problems.iter();
        let messages: Vec<_> = problems
            .map(|p| format!("{}: {}", p.field, p.message))
            .collect();
        assert_eq!(messages, [expected], "{text}");
        assert_eq!(imported[0].objects, []);
    }
}

#[test]
fn known_enum_values_are_accepted() {
    for word in ["All", "Running", "None", "\"\""] {
        let text = pytorch("", &format!("runPolicy: {{cleanPodPolicy: {word}}}"), "");
        assert_eq!(import_text(&text)[0].problems, [], "{word}");
    }
}

#[test]
fn shorter_of_two_deadlines_counts_and_the_other_is_noted() {
    let label = |seconds: u32| format!("kueue.x-k8s.io/max-exec-time-seconds: '{seconds}'");
    let field = |seconds: u32| format!("activeDeadlineSeconds: {seconds}");
    for (of_label, of_field, expected, expected_note) in [
        (600, 900, 600, Some("eDeadlineSeconds: 900 is longer than")),
        (
            900,
            600,
            600,
            Some("max-exec-time-seconds: 900 is longer than"),
        ),
        (600, 600, 600, None),
    ] {
        for text in [
            kueue(&label(of_label), &format!("{},", field(of_field))),
            pytorch(
                &label(of_label),
                &format!("runPolicy: {{{}}}", field(of_field)),
                "",
            ),
        ] {
            let object = import_object(&text);
            assert_eq!(
                object["spec"]["deadlines"]["activeSeconds"], expected,
                "{text}"
            );
            let notes = import_notes(&text);
            let is_about_length = |note: &&String| note.contains("is longer than");
            let found: Vec<_> = notes.iter().filter(is_about_length).collect();
            match expected_note {
                None => assert!(found.is_empty(), "{notes:?}"),
                Some(words) => {
                    assert_eq!(found.len(), 1, "{notes:?}");
                    assert!(found[0].contains(words), "{notes:?}");
                }
            }
        }
    }
}

#[test]
fn invalid_elastic_limits_are_noted() {
    for (policy, expected) in [
        ("minReplicas: 1, maxReplicas: 2", "maxReplicas: 2 is less"),
        ("minReplicas: 9, maxReplicas: 8", "minReplicas: 9 is more"),
    ] {
        let text = pytorch("", &format!("elasticPolicy: {{{policy}}}"), "");
        let notes = import_notes(&text);
        assert!(notes.iter().any(|n| n.contains(expected)), "{notes:?}");
    }
}

#[test]
fn queue_weight_is_carried_over() {
    let text = |weight: &str| {
        format!(
            "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\nmetadata: {{name: a}}\nspec: {{fairSharing: {{weight: {weight}}}}}\n"
        )
    };
    assert_eq!(import_notes(&text("2500m")), Vec::<String>::new());
    assert_eq!(import_object(&text("2500m"))["spec"]["weight"], "2500m");
    assert!(import_notes(&text("300u"))[0].contains("rounded up to thousandths"));
    // In both systems, an absent weight is 1.
    assert_eq!(import_object(&text("1"))["spec"]["weight"], json!(null));
}

#[test]
fn differing_service_account_fields_are_noted() {
    let text = |old: &str| {
        let pods = format!("spec: {{serviceAccountName: a, serviceAccount: {old}, ");
        kueue("", "").replace(POD, &POD.replace("spec: {", &pods))
    };
    let is_noted = |old: &str| {
        let notes = import_notes(&text(old));
        notes.iter().any(|note| note.contains("serviceAccount: "))
    };
    assert!(!is_noted("a"));
    assert!(is_noted("b"));
    assert_eq!(import_object(&text("b"))["spec"]["serviceAccountName"], "a");
}
