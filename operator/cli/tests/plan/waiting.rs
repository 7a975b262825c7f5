//! Jobs that would wait: exit status 1, and the reason of their conditions.

use super::{Run, file, plan_with};

/// Plans a changed `job.yaml` with other objects.
fn with(change: impl Fn(String) -> String, objects: &str) -> Run {
    let input = format!("{}---\n{objects}", change(file("job.yaml")));
    plan_with(&["--nodes", "nodes.yaml", "-f", "-"], &input)
}

fn waits(run: &Run, reason: &str, words: &str) {
    is_not_run(run, "would wait", reason, words);
}

fn refused(run: &Run, reason: &str, words: &str) {
    is_not_run(run, "would be Refused", reason, words);
}

fn is_not_run(run: &Run, verdict: &str, reason: &str, words: &str) {
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
fn a_queue_that_does_not_exist() {
    waits(
        &with(in_queue, ""),
        "QueueNotFound",
        "queue \"research\" does not exist",
    );
    let other = queue("other", "{namespaceSelector: {}}");
    waits(
        &with(|j| j, &other),
        "QueueNotFound",
        "no queue is the default",
    );
}

#[test]
fn a_queue_that_does_not_select_the_namespace() {
    let team_b = queue("research", "{namespaceSelector: {matchLabels: {team: b}}}");
    let run = with(in_queue, &team_b);
    refused(
        &run,
        "PolicyDenied",
        "namespace \"team-a\" uses queue \"research\"",
    );
    // The Namespace may be the reason, because no file holds it: a note says so.
    assert_eq!(
        run.err,
        "note: namespace \"team-a\" is in no file: planned without labels, by which queues or \
         policies of the files select namespaces; add a file of `kubectl get namespace team-a -o yaml`\n"
    );
    // The objects of the job are shown all the same.
    assert!(run.out.contains("PodGroup llm"), "{}", run.out);
    let namespace =
        "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team-a, labels: {team: b}}\n";
    let run = with(in_queue, &format!("{team_b}{namespace}"));
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let by_name = "{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: team-a}}}";
    let run = with(in_queue, &queue("research", by_name));
    assert_eq!((run.code, run.err.as_str()), (0, ""));
}

/// Without policies in the files, those of a fresh install decide; otherwise only the files'.
#[test]
fn policies_of_files_decide() {
    let policy = |kind: &str, meta: &str, cedar: &str| {
        format!(
            "---\napiVersion: trellis.dev/v1alpha1\nkind: {kind}\nmetadata: {{{meta}}}\nspec: {{cedar: '{cedar}'}}\n"
        )
    };
    let cluster = |cedar: &str| policy("ClusterJobPolicy", "name: x", cedar);
    let all = cluster("permit(principal, action, resource);");
    assert_eq!(with(|j| j, "").code, 0);
    assert_eq!(with(|j| j, &all).code, 0);
    let nothing = cluster("permit(principal, action == Trellis::Action::\"UseSecret\", resource);");
    refused(
        &with(|j| j, &nothing),
        "PolicyDenied",
        "which no policy permits",
    );
    let no = "@id(\"no\") forbid(principal, action, resource);";
    let own = |namespace| {
        let meta = format!("name: own, namespace: {namespace}");
        format!("{all}{}", policy("JobPolicy", &meta, no))
    };
    refused(
        &with(|j| j, &own("team-a")),
        "PolicyDenied",
        "\"team-a/own/no\" forbids",
    );
    assert_eq!(with(|j| j, &own("team-b")).code, 0);
    let broken = cluster("permit(principal, action, resource) when { context.nope };");
    let run = with(|j| j, &broken);
    waits(&run, "PolicyNotEvaluated", "policy \"x\"");
    assert!(run.err.contains("spec.cedar:1:44"), "{}", run.err);
}

#[test]
fn a_queue_that_is_stopped_or_too_small() {
    let stopped = queue("research", "{namespaceSelector: {}, stopPolicy: Hold}");
    waits(&with(in_queue, &stopped), "QueueStopped", "");
    let small = "{namespaceSelector: {}, resourceGroups: [{coveredResources: [cpu, memory, nvidia.com/gpu], flavors: [{name: default, resources: [{name: cpu, nominalQuota: 1k}, {name: memory, nominalQuota: 10Ti}, {name: nvidia.com/gpu, nominalQuota: 16}]}]}]}";
    let run = with(in_queue, &queue("research", small));
    waits(&run, "ExceedsQuota", "32 nvidia.com/gpu");
}

/// A limit of a queue holds for the queues below it. A job that alone exceeds a limit, or whose
/// policy has `enforcement: Deny`, is Refused and counted apart from pending jobs.
#[test]
fn a_limit_of_the_queue_above() {
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
    let run = with(in_queue, &limits("{gpusPerJob: 8}"));
    refused(&run, "QuotaPolicyExceeded", "quota policy \"all\"");
    assert_eq!(with(in_queue, &limits("{gpusPerJob: 32}")).code, 0);
    let second = in_queue(file("job.yaml").replace("name: llm", "name: second"));
    let one = limits("{runningJobs: 1}");
    let run = with(in_queue, &format!("{second}{one}"));
    assert!(
        run.out.contains("1 would run, 1 would wait\n"),
        "{}",
        run.out
    );
    let deny = one.replace("spec: {subject", "spec: {enforcement: Deny, subject");
    let run = with(in_queue, &format!("{second}{deny}"));
    let sum = "1 would run, 0 would wait, 1 would be Refused\n";
    assert!(run.out.contains(sum), "{}", run.out);
}

/// A job waits if a broken quota policy might apply to it.
#[test]
fn a_quota_policy_that_takes_no_effect() {
    let policy = "---\napiVersion: trellis.dev/v1alpha1\nkind: QuotaPolicy\nmetadata: {name: odd}\nspec: {subject: {namespaceSelector: {matchExpressions: [{key: a, operator: Near}]}}, limits: {runningJobs: 1}}\n";
    let run = with(|j| j, policy);
    waits(&run, "PolicyNotEvaluated", "quota policy \"odd\"");
}

#[test]
fn more_than_there_is() {
    let run = with(|job| job.replace("replicas: 4", "replicas: 9"), "");
    waits(&run, "ExceedsCluster", "needs 72 nvidia.com/gpu");
    insta::assert_snapshot!("waits-exceeds-cluster", run.golden());
    let run = with(|job| job.replace("gpus: 8", "gpus: 9"), "");
    assert_eq!(run.code, 1);
}

#[test]
fn no_node_that_matches() {
    let run = with(|job| format!("{job}    nodeSelector: {{rack: r7}}\n"), "");
    waits(&run, "NoMatchingNodes", "");
    insta::assert_snapshot!("waits-no-matching-nodes", run.golden());
}

#[test]
fn the_second_of_two_jobs_that_do_not_fit_together() {
    let second = file("job.yaml").replace("name: llm", "name: second");
    let five = |job: String| job.replace("replicas: 4", "replicas: 5");
    let run = with(five, &five(second));
    assert_eq!(run.code, 1);
    insta::assert_snapshot!("waits-second", run.golden());
}

#[test]
fn priority_goes_first_whatever_the_order_of_the_files() {
    let class = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 100\n";
    let five = |job: String| job.replace("replicas: 4", "replicas: 5");
    let second = five(file("job.yaml"))
        .replace("name: llm", "name: second")
        .replace("spec:\n", "spec:\n  priorityClassName: high\n");
    let run = with(five, &format!("{second}{class}"));
    assert!(run.out.contains("team-a/llm would wait"), "{}", run.out);
    assert!(run.out.contains("team-a/second would run"), "{}", run.out);
    assert!(run.out.contains("priority 100"), "{}", run.out);
    let run = with(|j| j, &second);
    assert!(run.out.contains("PriorityClassNotFound: "), "{}", run.out);
}

#[test]
fn a_service_that_does_not_exist() {
    let named = |job: String| format!("{job}  network: {{egress: [{{service: store}}]}}\n");
    waits(&with(named, ""), "ServiceNotFound", "\"store\"");
    let service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: store, namespace: team-a}\nspec: {selector: {app: store}, ports: [{port: 443, targetPort: 8443}]}\n";
    assert_eq!(with(named, service).code, 0);
}

#[test]
fn a_suspended_job() {
    let run = with(|job| job.replace("spec:\n", "spec:\n  suspend: true\n"), "");
    waits(&run, "Suspended", "spec.suspend is true");
    let both = |job: String| in_queue(job.replace("spec:\n", "spec:\n  suspend: true\n"));
    waits(&with(both, ""), "Suspended", "spec.suspend is true");
}

#[test]
fn a_job_that_another_manager_sees_to() {
    let run = with(
        |job| job.replace("spec:\n", "spec:\n  managedBy: kueue.x-k8s.io/multikueue\n"),
        "",
    );
    waits(&run, "NotApplicable", "Trellis does nothing for the job");
    let ours = |job: String| job.replace("spec:\n", "spec:\n  managedBy: trellis.dev/operator\n");
    assert_eq!(with(ours, "").code, 0);
}

/// Objects go to standard output, so that they can be piped; the reason does not.
#[test]
fn the_objects_of_a_waiting_job_have_no_pods() {
    let input = file("job.yaml").replace("replicas: 4", "replicas: 9");
    let run = plan_with(&["--nodes", "nodes.yaml", "-f", "-", "-o", "yaml"], &input);
    assert_eq!(run.code, 1);
    assert!(run.out.contains("kind: PodGroup") && !run.out.contains("kind: Pod\n"));
    assert!(
        run.err
            .starts_with("TrainingJob team-a/llm would wait: ExceedsCluster: ")
    );
}

/// The catch-all queue is the default only for namespaces without a more specific one.
#[test]
fn the_queue_that_asks_for_most_is_the_default() {
    let all = queue("default", "{namespaceSelector: {}, defaultFor: {}}");
    let own = queue(
        "vision",
        "{namespaceSelector: {matchLabels: {team: b}}, defaultFor: {matchLabels: {team: b}}}",
    );
    let namespace =
        "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team-a, labels: {team: b}}\n";
    let run = with(|j| j, &format!("{all}{own}{namespace}"));
    assert!(run.out.contains("queue    vision, "), "{}", run.out);
    let run = with(|j| j, &format!("{all}{own}"));
    assert!(run.out.contains("queue    default, "), "{}", run.out);
}

#[test]
fn a_flavor_that_nobody_offers() {
    let named = |job: String| format!("{job}    flavors: [b200]\n");
    waits(&with(named, ""), "FlavorNotFound", "\"b200\"");
    let flavor = "---\napiVersion: trellis.dev/v1alpha1\nkind: ResourceFlavor\nmetadata: {name: b200}\nspec: {nodeLabels: {gpu: b200}}\n";
    waits(
        &with(named, flavor),
        "NoMatchingNodes",
        "without label \"gpu=b200\" of flavor \"b200\"",
    );
}

/// Root by number, where the namespace refuses it.
#[test]
fn a_namespace_that_refuses_root() {
    let root = |job: String| job.replace("spec:\n", "spec:\n  securityContext: {runAsUser: 0}\n");
    assert_eq!(with(root, "").code, 0);
    let namespace = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team-a, labels: {pod-security.kubernetes.io/enforce: restricted}}\n";
    waits(
        &with(root, namespace),
        "PodRefused",
        "spec.securityContext.runAsUser: 0 is root",
    );
}
