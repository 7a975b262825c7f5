//! Tests of the requester of the jobs.
//! It is the user of `--as`, or a note tells the assumed one.

use super::{Run, file, plan, plan_with};

/// Permits only members of the group `ml` to submit.
const ONLY_ML: &str = "\
---
apiVersion: trellis.dev/v1alpha1
kind: ClusterJobPolicy
metadata: {name: all}
spec: {cedar: 'permit(principal, action, resource);'}
---
apiVersion: trellis.dev/v1alpha1
kind: ClusterJobPolicy
metadata: {name: ml}
spec:
  cedar: |
    @id(\"only\")
    forbid(principal, action == Trellis::Action::\"Submit\", resource)
    unless { context has requester && context.requester.groups.contains(\"ml\") };
";

/// A job of the user ada may have at most 8 GPUs.
const ADA_LIMIT: &str = "\
---
apiVersion: trellis.dev/v1alpha1
kind: QuotaPolicy
metadata: {name: ada}
spec:
  subject: {requester: ada}
  limits: {gpusPerJob: 8}
";

const UNKNOWN_REQUESTER_NOTE: &str = "note: policies or quota policies depend on the user who submits a job: \
                      assumed unknown; name the user with --as\n";

/// Plans `job.yaml` with other objects.
fn plan_with_objects(objects: &str, options: &[&str]) -> Run {
    let input = format!("{}{objects}", file("job.yaml"));
    plan_with(
        &[&["--nodes", "nodes.yaml", "-f", "-"], options].concat(),
        &input,
    )
}

#[test]
fn policies_decide_for_the_named_requester() {
    let ada = plan_with_objects(
        ONLY_ML,
        &["--as", "ada", "--as-group", "all", "--as-group", "ml"],
    );
    assert_eq!((ada.code, ada.err.as_str()), (0, ""), "{}", ada.out);
    let bob = plan_with_objects(ONLY_ML, &["--as", "bob", "--as-group", "ops"]);
    assert_eq!((bob.code, bob.err.as_str()), (1, ""));
    assert!(bob.out.contains("PolicyDenied: "), "{}", bob.out);
    assert!(bob.out.contains("\"ml/only\" forbids"), "{}", bob.out);
    // An unnamed requester is in no group either, and a note reports this assumption.
    let unnamed = plan_with_objects(ONLY_ML, &[]);
    assert_eq!(
        (unnamed.code, unnamed.err.as_str()),
        (1, UNKNOWN_REQUESTER_NOTE)
    );
    assert_eq!(unnamed.out, bob.out);
}

#[test]
fn quotas_apply_to_the_named_requester() {
    let ada = plan_with_objects(ADA_LIMIT, &["--as", "ada"]);
    assert_eq!((ada.code, ada.err.as_str()), (1, ""));
    assert!(ada.out.contains("QuotaPolicyExceeded: "), "{}", ada.out);
    let bob = plan_with_objects(ADA_LIMIT, &["--as", "bob"]);
    assert_eq!((bob.code, bob.err.as_str()), (0, ""), "{}", bob.out);
    let unnamed = plan_with_objects(ADA_LIMIT, &[]);
    assert_eq!(
        (unnamed.code, unnamed.err.as_str()),
        (1, UNKNOWN_REQUESTER_NOTE)
    );
    let each = ADA_LIMIT.replace("{requester: ada}", "{}\n  each: Requester");
    assert_eq!(plan_with_objects(&each, &[]).err, UNKNOWN_REQUESTER_NOTE);
    // If no policy depends on the requester, there is no note.
    let without_requester = ADA_LIMIT.replace("{requester: ada}", "{}");
    assert_eq!(plan_with_objects(&without_requester, &[]).err, "");
}

/// A job that is applied without a change is not submitted again.
#[test]
fn unchanged_job_keeps_its_requester() {
    let folder = tempfile::tempdir().unwrap();
    let existing = |stamped: &str, known: &str| {
        let stamp = format!(
            "metadata: {{name: llm, namespace: team-a, annotations: {{trellis.dev/requested-by: \
             '{{\"user\": \"{stamped}\", \"groups\": [\"ml\"]}}'}}}}"
        );
        let job = file("job.yaml");
        let job = job.replace("metadata: {name: llm, namespace: team-a}", &stamp);
        let text = format!("{job}status: {{phase: Queued, policy: {{{known}}}}}\n");
        let path = folder.path().join("there.yaml");
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let known = existing("ada", "requester: ada");
    let options = ["--nodes", known.as_str()];
    assert_eq!(plan_with_objects(ONLY_ML, &options).code, 0);
    assert_eq!(
        plan_with_objects(ONLY_ML, &[&options[..], &["--as", "bob"]].concat()).code,
        1
    );
    let changed = ONLY_ML.replacen("---", "  preemptibility: ProtectedWithinQuota\n---", 1);
    assert_eq!(
        plan_with_objects(&changed, &options).code,
        1,
        "the job has a new requester"
    );
    let doubted = existing("ada", "requesterUnknown: forged");
    assert_eq!(plan_with_objects(ONLY_ML, &["--nodes", &doubted]).code, 1);
}

#[test]
fn group_without_a_user_is_refused() {
    let group = plan(&[
        "--nodes",
        "nodes.yaml",
        "-f",
        "job.yaml",
        "--as-group",
        "ml",
    ]);
    assert_eq!(group.code, 2);
    assert!(group.err.contains("--as <USER>"), "{}", group.err);
}
