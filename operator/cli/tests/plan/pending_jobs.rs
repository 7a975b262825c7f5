//! Jobs that would wait: exit status 1, and the reason of their conditions.

use super::{Run, file, plan_with};

/// Plans a changed `job.yaml` with other objects.
fn plan_changed_job(change: impl Fn(String) -> String, objects: &str) -> Run {
    let input = format!("{}---\n{objects}", change(file("job.yaml")));
    plan_with(&["--nodes", "nodes.yaml", "-f", "-"], &input)
}

fn assert_waits(run: &Run, reason: &str, words: &str) {
    assert_not_run(run, "would wait", reason, words);
}

fn assert_refused(run: &Run, reason: &str, words: &str) {
    assert_not_run(run, "would be Refused", reason, words);
}

fn assert_not_run(run: &Run, verdict: &str, reason: &str, words: &str) {
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.out.contains(verdict), "{}", run.out);
    let line = run
        .out
        .lines()
        .find_map(|l| l.trim().strip_prefix("reason"));
    let line = line.map(str::trim).unwrap_or_default();
    assert!(line.starts_with(&format!("{reason}: ")), "{line}");
    assert!(line.contains(words), "{line}");
}

fn queue(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: trellis.dev/v1alpha1\nkind: TrainingQueue\nmetadata: {{name: {name}}}\nspec: {spec}\n"
    )
}

fn in_queue(job: String) -> String {
    job.replace("spec:\n", "spec:\n  queueName: research\n")
}

#[test]
fn job_waits_for_a_missing_queue() {
    assert_waits(
        &plan_changed_job(in_queue, ""),
        "QueueNotFound",
        "queue \"research\" does not exist",
    );
    let other = queue("other", "{namespaceSelector: {}}");
    assert_waits(
        &plan_changed_job(|j| j, &other),
        "QueueNotFound",
        "no queue is the default",
    );
}

#[test]
fn queue_that_does_not_select_the_namespace_refuses_the_job() {
    let team_b = queue("research", "{namespaceSelector: {matchLabels: {team: b}}}");
    let run = plan_changed_job(in_queue, &team_b);
    assert_refused(
        &run,
        "PolicyDenied",
        "namespace \"team-a\" uses queue \"research\"",
    );
    // The Namespace may be the reason, because no file holds it: a note says so.
    assert_eq!(
        run.err,
        "note: namespace \"team-a\" is in no file: planned without labels, although queues \
         or policies of the files select namespaces by label; add the output of `kubectl get namespace team-a -o yaml`\n"
    );
    // The plan still shows the objects of the job.
    assert!(run.out.contains("PodGroup llm"), "{}", run.out);
    let namespace =
        "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team-a, labels: {team: b}}\n";
    let run = plan_changed_job(in_queue, &format!("{team_b}{namespace}"));
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let by_name = "{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: team-a}}}";
    let run = plan_changed_job(in_queue, &queue("research", by_name));
    assert_eq!((run.code, run.err.as_str()), (0, ""));
}

/// Without policies in the files, the policies of a fresh install decide.
/// Otherwise only the policies of the files decide.
#[test]
fn policies_in_the_files_replace_the_defaults() {
    let policy = |kind: &str, meta: &str, cedar: &str| {
        format!(
            "---\napiVersion: trellis.dev/v1alpha1\nkind: {kind}\nmetadata: {{{meta}}}\nspec: {{cedar: '{cedar}'}}\n"
        )
    };
    let cluster = |cedar: &str| policy("ClusterJobPolicy", "name: x", cedar);
    let all = cluster("permit(principal, action, resource);");
    assert_eq!(plan_changed_job(|j| j, "").code, 0);
    assert_eq!(plan_changed_job(|j| j, &all).code, 0);
    let nothing = cluster("permit(principal, action == Trellis::Action::\"UseSecret\", resource);");
    assert_refused(
        &plan_changed_job(|j| j, &nothing),
        "PolicyDenied",
        "which no policy permits",
    );
    let no = "@id(\"no\") forbid(principal, action, resource);";
    let own = |namespace| {
        let meta = format!("name: own, namespace: {namespace}");
        format!("{all}{}", policy("JobPolicy", &meta, no))
    };
    assert_refused(
        &plan_changed_job(|j| j, &own("team-a")),
        "PolicyDenied",
        "\"team-a/own/no\" forbids",
    );
    assert_eq!(plan_changed_job(|j| j, &own("team-b")).code, 0);
    let broken = cluster("permit(principal, action, resource) when { context.nope };");
    let run = plan_changed_job(|j| j, &broken);
    assert_waits(&run, "PolicyNotEvaluated", "policy \"x\"");
    assert!(run.err.contains("spec.cedar:1:44"), "{}", run.err);
}

#[test]
fn job_waits_for_a_stopped_or_small_queue() {
    let stopped = queue("research", "{namespaceSelector: {}, stopPolicy: Hold}");
    assert_waits(&plan_changed_job(in_queue, &stopped), "QueueStopped", "");
    let small = "{namespaceSelector: {}, resourceGroups: [{coveredResources: [cpu, memory, nvidia.com/gpu], flavors: [{name: default, resources: [{name: cpu, nominalQuota: 1k}, {name: memory, nominalQuota: 10Ti}, {name: nvidia.com/gpu, nominalQuota: 16}]}]}]}";
    let run = plan_changed_job(in_queue, &queue("research", small));
    assert_waits(&run, "ExceedsQuota", "32 nvidia.com/gpu");
}

/// A limit of a queue also applies to its child queues.
/// A job is Refused if it exceeds a limit by itself, or if the policy has `enforcement: Deny`.
/// Refused jobs are not counted as pending.
#[test]
fn limit_of_a_parent_queue_applies() {
    let tree = [
        queue("all", "{}"),
        queue("research", "{parentName: all, namespaceSelector: {}}"),
    ]
    .concat();
    let limits = |limits: &str| {
        format!(
            "{tree}---\napiVersion: trellis.dev/v1alpha1\nkind: QuotaPolicy\nmetadata: {{name: all}}\nspec: {{subject: {{queueName: all}}, limits: {limits}}}\n"
        )
    };
    let run = plan_changed_job(in_queue, &limits("{gpusPerJob: 8}"));
    assert_refused(&run, "QuotaPolicyExceeded", "quota policy \"all\"");
    assert_eq!(
        plan_changed_job(in_queue, &limits("{gpusPerJob: 32}")).code,
        0
    );
    let second = in_queue(file("job.yaml").replace("name: llm", "name: second"));
    let limit = limits("{runningJobs: 1}");
    let run = plan_changed_job(in_queue, &format!("{second}{limit}"));
    assert!(
        run.out.contains("1 would run, 1 would wait\n"),
        "{}",
        run.out
    );
    let deny = limit.replace("spec: {subject", "spec: {enforcement: Deny, subject");
    let run = plan_changed_job(in_queue, &format!("{second}{deny}"));
    let sum = "1 would run, 0 would wait, 1 would be Refused\n";
    assert!(run.out.contains(sum), "{}", run.out);
}

/// A job waits if a broken quota policy might apply to it.
#[test]
fn job_waits_for_an_invalid_quota_policy() {
    let policy = "---\napiVersion: trellis.dev/v1alpha1\nkind: QuotaPolicy\nmetadata: {name: odd}\nspec: {subject: {namespaceSelector: {matchExpressions: [{key: a, operator: Near}]}}, limits: {runningJobs: 1}}\n";
    let run = plan_changed_job(|j| j, policy);
    assert_waits(&run, "PolicyNotEvaluated", "quota policy \"odd\"");
}

#[test]
fn job_larger_than_the_cluster_waits() {
    let run = plan_changed_job(|job| job.replace("replicas: 4", "replicas: 9"), "");
    assert_waits(&run, "ExceedsCluster", "needs 72 nvidia.com/gpu");
    insta::assert_snapshot!("waits-exceeds-cluster", run.golden());
    let run = plan_changed_job(|job| job.replace("gpus: 8", "gpus: 9"), "");
    assert_eq!(run.code, 1);
}

#[test]
fn job_without_matching_nodes_waits() {
    let run = plan_changed_job(|job| format!("{job}    nodeSelector: {{rack: r7}}\n"), "");
    assert_waits(&run, "NoMatchingNodes", "");
    insta::assert_snapshot!("waits-no-matching-nodes", run.golden());
}

#[test]
fn second_job_waits_if_both_do_not_fit() {
    let second = file("job.yaml").replace("name: llm", "name: second");
    let five = |job: String| job.replace("replicas: 4", "replicas: 5");
    let run = plan_changed_job(five, &five(second));
    assert_eq!(run.code, 1);
    insta::assert_snapshot!("waits-second", run.golden());
}

#[test]
fn higher_priority_goes_first_in_any_file_order() {
    let class = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 100\n";
    let five = |job: String| job.replace("replicas: 4", "replicas: 5");
    let second = five(file("job.yaml"))
        .replace("name: llm", "name: second")
        .replace("spec:\n", "spec:\n  priorityClassName: high\n");
    let run = plan_changed_job(five, &format!("{second}{class}"));
    assert!(run.out.contains("team-a/llm would wait"), "{}", run.out);
    assert!(run.out.contains("team-a/second would run"), "{}", run.out);
    assert!(run.out.contains("priority 100"), "{}", run.out);
    let run = plan_changed_job(|j| j, &second);
    assert!(run.out.contains("PriorityClassNotFound: "), "{}", run.out);
}

#[test]
fn job_waits_for_a_missing_service() {
    let named = |job: String| format!("{job}  network: {{egress: [{{service: store}}]}}\n");
    assert_waits(&plan_changed_job(named, ""), "ServiceNotFound", "\"store\"");
    let service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: store, namespace: team-a}\nspec: {selector: {app: store}, ports: [{port: 443, targetPort: 8443}]}\n";
    assert_eq!(plan_changed_job(named, service).code, 0);
}

#[test]
fn suspended_job_waits() {
    let run = plan_changed_job(|job| job.replace("spec:\n", "spec:\n  suspend: true\n"), "");
    assert_waits(&run, "Suspended", "spec.suspend is true");
    let suspended_in_queue =
        |job: String| in_queue(job.replace("spec:\n", "spec:\n  suspend: true\n"));
    assert_waits(
        &plan_changed_job(suspended_in_queue, ""),
        "Suspended",
        "spec.suspend is true",
    );
}

#[test]
fn job_of_another_manager_is_not_run() {
    let run = plan_changed_job(
        |job| job.replace("spec:\n", "spec:\n  managedBy: kueue.x-k8s.io/multikueue\n"),
        "",
    );
    assert_waits(&run, "NotApplicable", "Trellis does not run the job");
    let managed_by_trellis =
        |job: String| job.replace("spec:\n", "spec:\n  managedBy: trellis.dev/operator\n");
    assert_eq!(plan_changed_job(managed_by_trellis, "").code, 0);
}

/// Objects go to standard output, so that users can pipe them.
/// The reason goes to standard error.
#[test]
fn objects_of_a_waiting_job_have_no_pods() {
    let input = file("job.yaml").replace("replicas: 4", "replicas: 9");
    let run = plan_with(&["--nodes", "nodes.yaml", "-f", "-", "-o", "yaml"], &input);
    assert_eq!(run.code, 1);
    assert!(run.out.contains("kind: PodGroup") && !run.out.contains("kind: Pod\n"));
    assert!(
        run.err
            .starts_with("TrainingJob team-a/llm would wait: ExceedsCluster: ")
    );
}

/// A catch-all queue is the default only if no more specific queue matches.
#[test]
fn most_specific_queue_is_the_default() {
    let all = queue("default", "{namespaceSelector: {}, defaultFor: {}}");
    let own = queue(
        "vision",
        "{namespaceSelector: {matchLabels: {team: b}}, defaultFor: {matchLabels: {team: b}}}",
    );
    let namespace =
        "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team-a, labels: {team: b}}\n";
    let run = plan_changed_job(|j| j, &format!("{all}{own}{namespace}"));
    assert!(run.out.contains("queue    vision, "), "{}", run.out);
    let run = plan_changed_job(|j| j, &format!("{all}{own}"));
    assert!(run.out.contains("queue    default, "), "{}", run.out);
}

#[test]
fn job_with_an_unknown_flavor_waits() {
    let named = |job: String| format!("{job}    flavors: [b200]\n");
    assert_waits(&plan_changed_job(named, ""), "FlavorNotFound", "\"b200\"");
    let flavor = "---\napiVersion: trellis.dev/v1alpha1\nkind: ResourceFlavor\nmetadata: {name: b200}\nspec: {nodeLabels: {gpu: b200}}\n";
    assert_waits(
        &plan_changed_job(named, flavor),
        "NoMatchingNodes",
        "without label \"gpu=b200\" of flavor \"b200\"",
    );
}

/// User id 0 is root, and the namespace forbids root.
#[test]
fn namespace_that_forbids_root_refuses_the_job() {
    let root = |job: String| job.replace("spec:\n", "spec:\n  securityContext: {runAsUser: 0}\n");
    assert_eq!(plan_changed_job(root, "").code, 0);
    let namespace = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team-a, labels: {pod-security.kubernetes.io/enforce: restricted}}\n";
    assert_waits(
        &plan_changed_job(root, namespace),
        "PodRefused",
        "spec.securityContext.runAsUser: 0 is root",
    );
}
