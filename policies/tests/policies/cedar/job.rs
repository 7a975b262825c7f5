//! A whole job: each demand is decided once, and all denials are reported together.

use std::collections::BTreeMap;

use serde_json::{from_value, json};
use trellis_api::{QueueSpec, Reason};
use trellis_policies::ClusterFacts;
use trellis_policies::cedar::{
    self, JobDecision, NotAuthorized, Policies, PolicyRequest, SubmissionFacts,
};

use super::support::{ALLOW_ALL, cluster, loader, set};
use crate::authorize::compile_yaml;

const JOB: &str = "\
apiVersion: trellis.dev/v1alpha1
kind: TrainingJob
metadata: {name: llm, namespace: team-a}
spec:
  framework: PyTorch
  priorityClassName: high
  serviceAccountName: runner
  deadlines: {activeSeconds: 3600}
  network:
    egress: [{cidr: 10.20.0.0/16, ports: [{port: 443}]}]
    ingress: [{namespace: monitoring}]
  taskGroups:
  - name: master
    image: registry.example/train:1
    flavors: [a100]
    gpus: 8
    resources: {limits: {cpu: 1, memory: 1Gi}}
    env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: token, key: t}}}]
  - name: worker
    replicas: 3
    gpus: 8
    image: registry.example/train:1
    resources: {limits: {cpu: 1, memory: 1Gi}}
    mounts: [{claimName: data, path: /data}, {configMapName: settings, path: /etc/settings}]
";

fn authorize(policies: Option<&Policies>) -> (JobDecision, Result<(), NotAuthorized>) {
    authorize_job(policies, JOB)
}

fn authorize_job(
    policies: Option<&Policies>,
    yaml: &str,
) -> (JobDecision, Result<(), NotAuthorized>) {
    authorize_in_queue(policies, yaml, &[("cpu", &["h100"])])
}

/// Authorizes a job in a queue of these resource groups: a resource and its flavors.
fn authorize_in_queue(
    policies: Option<&Policies>,
    yaml: &str,
    offered: &[(&str, &[&str])],
) -> (JobDecision, Result<(), NotAuthorized>) {
    let offered = offered.iter().map(|(resource, flavors)| {
        let quota = json!([{"name": resource, "nominalQuota": "1"}]);
        let flavors = flavors
            .iter()
            .map(|name| json!({"name": name, "resources": quota}));
        let flavors: Vec<_> = flavors.collect();
        json!({"coveredResources": [resource], "flavors": flavors})
    });
    let offered: Vec<_> = offered.collect();
    let spec = json!({"namespaceSelector": {}, "resourceGroups": offered});
    let queue: QueueSpec = from_value(spec).unwrap();
    let none = BTreeMap::new();
    let facts = ClusterFacts {
        queue: "default",
        queue_spec: &queue,
        namespace: "team-a",
        namespace_labels: &none,
        priority_class: Some("high"),
    };
    let submission = SubmissionFacts {
        labels: &none,
        requester: None,
        attempt: 1,
    };
    let (decision, outcome) =
        cedar::authorize(policies, compile_yaml(yaml, 5, false), &facts, &submission);
    assert_eq!(
        outcome.is_ok(),
        decision.decisions.iter().all(|(_, d)| d.is_allowed())
    );
    (decision, outcome.map(drop))
}

#[test]
fn job_makes_one_request_for_each_demand() {
    let policies = set(vec![cluster("all", ALLOW_ALL)]);
    let (decision, outcome) = authorize(Some(&policies));
    assert_eq!(outcome, Ok(()));
    let asked: Vec<_> = decision
        .decisions
        .iter()
        .map(|(demanded, decision)| {
            assert_eq!(decision.policies, ["all/0"]);
            (
                demanded.request.action().as_str(),
                demanded.descriptions.join(", "),
            )
        })
        .collect();
    let asked: Vec<_> = asked
        .iter()
        .map(|(action, words)| (*action, words.as_str()))
        .collect();
    assert_eq!(
        asked,
        [
            ("Submit", "namespace \"team-a\" submits the job \"llm\""),
            ("UseQueue", "namespace \"team-a\" uses queue \"default\""),
            (
                "UsePriorityClass",
                "the job has the priority class \"high\""
            ),
            ("UseFlavor", "the job may be given the flavor \"a100\""),
            ("UseFlavor", "the job may be given the flavor \"h100\""),
            (
                "UseImage",
                "the job runs the image \"registry.example/train:1\""
            ),
            (
                "UseServiceAccount",
                "the job runs as the ServiceAccount \"runner\""
            ),
            ("UseSecret", "the job reads the Secret \"token\""),
            ("UseVolume", "the job mounts the claim \"data\""),
            ("UseVolume", "the job reads the ConfigMap \"settings\""),
            (
                "ConnectTo",
                "the job connects to network \"10.20.0.0/16\", port 443/TCP"
            ),
            (
                "AcceptFrom",
                "the job is reached from namespace \"monitoring\""
            ),
            (
                "UsePrivilege",
                "task group \"master\" uses the privilege \"RunAsRoot\" (spec.containers[0].securityContext.runAsNonRoot of its pods), \
                 task group \"worker\" uses the privilege \"RunAsRoot\" (spec.containers[0].securityContext.runAsNonRoot of its pods)"
            ),
        ]
    );
}

/// Returns the flavors of the requests of a job with these additional fields of its two groups.
fn requested_flavors(first: &str, second: &str, offered: &[(&str, &[&str])]) -> Vec<String> {
    let group = |name: &str, fields: &str| {
        format!(
            "  - {{name: {name}, gpus: 8, image: 'i', {fields}resources: {{limits: {{cpu: 8, memory: 1Gi}}}}}}\n"
        )
    };
    let yaml = format!(
        "apiVersion: trellis.dev/v1alpha1\nkind: TrainingJob\n\
         metadata: {{name: llm, namespace: team-a}}\nspec:\n  taskGroups:\n{}{}",
        group("first", first),
        group("second", second)
    );
    let policies = set(vec![cluster("all", ALLOW_ALL)]);
    let (decision, _) = authorize_in_queue(Some(&policies), &yaml, offered);
    let requests = decision
        .decisions
        .into_iter()
        .map(|(demanded, _)| demanded.request);
    let flavors = requests.filter_map(|request| match request {
        PolicyRequest::UseFlavor(name) => Some(name),
        _ => None,
    });
    flavors.collect()
}

#[test]
fn group_asks_for_all_flavors_of_resources_for_which_it_names_none() {
    let queue: [(&str, &[&str]); 2] = [("nvidia.com/gpu", &["h100", "a100"]), ("cpu", &["spot"])];
    let of = |fields: &str| requested_flavors(fields, fields, &queue);
    assert_eq!(of(""), ["a100", "h100", "spot"]);
    assert_eq!(of("flavors: [a100], "), ["a100", "spot"]);
    assert_eq!(of("flavors: [spot], "), ["a100", "h100", "spot"]);
    // The queue offers it no flavor, so it does not start.
    assert_eq!(of("flavors: [v100], "), ["v100"]);
}

#[test]
fn groups_of_the_same_flavor_ask_for_the_flavors_that_one_of_them_names() {
    let queue: [(&str, &[&str]); 1] = [("nvidia.com/gpu", &["h100", "a100"])];
    let named = requested_flavors("sameFlavorAs: second, ", "flavors: [a100], ", &queue);
    assert_eq!(named, ["a100"]);
    let naming = requested_flavors("sameFlavorAs: second, flavors: [a100], ", "", &queue);
    assert_eq!(naming, ["a100"]);
}

#[test]
fn request_context_has_the_facts_of_the_job() {
    let holds = "context.gpus == 32 && context.pods == 4 && context.framework == \"PyTorch\" && \
        context.priority == 5 && context has runtimeSeconds && context.runtimeSeconds == 3600 && \
        context.attempt == 1 && context.job.name == \"llm\" && context.job in principal && \
        principal.name == \"team-a\" && !(context has requester)";
    let text = format!("permit(principal, action, resource) when {{ {holds} }};");
    let (_, outcome) = authorize(Some(&set(vec![cluster("x", &text)])));
    assert_eq!(outcome, Ok(()));
}

#[test]
fn denial_lists_all_denied_demands() {
    let policies = set(vec![
        cluster(
            "most",
            "permit(principal, action, resource) \
            unless { action == Trellis::Action::\"UseFlavor\" && resource == Trellis::ResourceFlavor::\"h100\" };",
        ),
        cluster(
            "no",
            "@id(\"root\") forbid(principal, action == Trellis::Action::\"UsePrivilege\", resource);\
            forbid(principal, action == Trellis::Action::\"UsePrivilege\", resource);",
        ),
    ]);
    let (_, outcome) = authorize(Some(&policies));
    let not = outcome.unwrap_err();
    assert_eq!(not.reason(), Reason::PolicyDenied);
    assert_eq!(
        not.to_string(),
        "task group \"master\" uses the privilege \"RunAsRoot\" (spec.containers[0].securityContext.runAsNonRoot of its pods), which the policies \"no/1\", \"no/root\" forbid: \
         set runAsNonRoot to true, and no runAsUser of 0, or ask the owner of the policy; \
         task group \"worker\" uses the privilege \"RunAsRoot\" (spec.containers[0].securityContext.runAsNonRoot of its pods), which the policies \"no/1\", \"no/root\" forbid: \
         set runAsNonRoot to true, and no runAsUser of 0, or ask the owner of the policy; \
         the job may be given the flavor \"h100\", which no policy permits: \
         name others in taskGroups[].flavors, or ask for permit(principal == Trellis::Namespace::\"team-a\", \
         action == Trellis::Action::\"UseFlavor\", resource == Trellis::ResourceFlavor::\"h100\");"
    );
}

#[test]
fn job_is_undecided_before_the_policies_are_loaded() {
    let (decision, outcome) = authorize(None);
    let not = outcome.unwrap_err();
    assert_eq!(not.reason(), Reason::CacheNotReady);
    assert_eq!(not.to_string(), "the policies have not been read yet");
    assert_eq!(decision.set_hash, None);
    assert!(
        decision
            .decisions
            .iter()
            .all(|(_, decision)| !decision.is_allowed())
    );
}

#[test]
fn job_is_undecided_while_a_policy_is_invalid() {
    let (policies, _) = loader().load(
        None,
        vec![cluster("all", ALLOW_ALL), cluster("bad", "permit(")],
    );
    let (_, outcome) = authorize(Some(&policies));
    let not = outcome.unwrap_err();
    assert_eq!(not.reason(), Reason::PolicyNotEvaluated);
    assert_eq!(
        not.to_string(),
        "invalid, and never was valid: policy \"bad\"; its status says what is wrong"
    );
}

/// The job's status reports the decision.
#[test]
fn job_status_lists_deciding_policies_and_missing_permits() {
    use trellis_api::Enforcement;
    use trellis_api::job::PolicyDecision;

    use super::support::enforced;

    let of = |policies: Option<&Policies>| {
        let (decision, outcome) = authorize(policies);
        (
            decision.to_policy_verdict(&outcome),
            decision.forbidden_demands(),
        )
    };
    let no = |id: &str| {
        format!(
            "@id(\"{id}\") forbid(principal, action == Trellis::Action::\"UseSecret\", resource);"
        )
    };
    let warns = enforced(Enforcement::Warn, cluster("w", &no("soon")));
    let audits = enforced(Enforcement::Audit, cluster("a", &no("seen")));
    let policies = set(vec![cluster("all", ALLOW_ALL), warns, audits]);
    let (told, forbidden) = of(Some(&policies));
    assert_eq!(told.decision, Some(PolicyDecision::Allowed));
    assert_eq!(told.set_hash.as_deref(), Some(policies.hash()));
    assert_eq!(told.policies, ["all/0"]);
    assert_eq!(
        told.warnings,
        ["the job reads the Secret \"token\", which the policy \"w/soon\" is to forbid"]
    );
    let by: Vec<_> = forbidden
        .iter()
        .map(|(id, (e, _))| (id.as_str(), *e))
        .collect();
    assert_eq!(
        by,
        [
            ("a/seen", Enforcement::Audit),
            ("w/soon", Enforcement::Warn)
        ]
    );

    let policies = set(vec![cluster("all", ALLOW_ALL), cluster("n", &no("no"))]);
    let (told, forbidden) = of(Some(&policies));
    assert_eq!(told.decision, Some(PolicyDecision::Denied));
    assert_eq!(
        (told.policies, told.warnings.len()),
        (vec!["n/no".to_owned()], 0)
    );
    assert_eq!(forbidden["n/no"].0, Enforcement::Deny);

    let (told, _) = of(Some(&set(vec![])));
    assert_eq!(told.decision, Some(PolicyDecision::Denied));
    assert_eq!(told.missing_permits.len(), 13);
    assert!(
        told.missing_permits[0].starts_with("permit(principal == Trellis::Namespace::\"team-a\"")
    );

    let (told, _) = of(None);
    assert_eq!(told.decision, Some(PolicyDecision::Undecided));
    assert_eq!(told.errors, ["the policies have not been read yet"]);
    assert_eq!(told.set_hash, None);
}

/// The API server limits the size of the status that lists the denials.
#[test]
fn job_status_lists_only_the_first_denials() {
    let name = |n: usize| {
        format!(
            "{{name: E{n}, valueFrom: {{secretKeyRef: {{name: {}{n}, key: k}}}}}}",
            "s".repeat(200)
        )
    };
    let env: Vec<_> = (0..64).map(name).collect();
    let yaml = JOB.replace(
        "    env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: token, key: t}}}]\n",
        &format!("    env: [{}]\n", env.join(", ")),
    );
    assert_ne!(yaml, JOB);
    let texts: Vec<_> = (0..100)
        .map(|_| "forbid(principal, action == Trellis::Action::\"Submit\", resource);")
        .collect();
    let policies = set(vec![cluster("many", &texts.join("\n"))]);
    let (decision, outcome) = authorize_job(Some(&policies), &yaml);
    let said = outcome.as_ref().unwrap_err().to_string();
    assert!(said.ends_with("more"), "{said}");
    assert!(said.len() < 32_000, "{}", said.len());
    let told = decision.to_policy_verdict(&outcome);
    let all = told
        .policies
        .iter()
        .chain(&told.missing_permits)
        .map(String::len);
    assert!(all.sum::<usize>() < 32_000);
    assert_eq!(told.missing_permits.len(), 20);
    // As many objects that never were valid.
    let bad = |n: usize| cluster(&format!("bad-{n}"), "permit(");
    let (policies, _) = loader().load(None, (0..500).map(bad).collect());
    let said = authorize_job(Some(&policies), &yaml)
        .1
        .unwrap_err()
        .to_string();
    assert!(said.contains("and 480 more"), "{said}");
}
