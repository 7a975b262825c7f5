//! Authorization: which jobs pass, and the refusals of the others.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, from_value, json};
use trellis_api::document::split;
use trellis_api::{QueueResources, QueueSpec, ResolvedJob, TrainingJob, ValidatedJob};
use trellis_compiler::{CompileContext, CompileFacts, CompiledJob, compile};
use trellis_policies::cedar::{NotAuthorized, SubmissionFacts, authorize};
use trellis_policies::{AuthorizedJob, ClusterFacts, Denial, DenialSource, FixedRule};

use crate::cedar::starter;

const JOB: &str = "\
apiVersion: trellis.dev/v1alpha1
kind: TrainingJob
metadata: {name: llm, namespace: team-a}
spec:
  taskGroups: [{name: worker, image: i, resources: {limits: {cpu: 1, memory: 1Gi}}}]
";

pub fn compile_yaml(yaml: &str, priority: i32, restricted: bool) -> CompiledJob {
    let documents = split(yaml).unwrap();
    let job = documents.iter().find(|d| d.kind == "TrainingJob").unwrap();
    let job: TrainingJob = job.decode_valid().unwrap_or_else(|e| panic!("{e}"));
    let job = ValidatedJob::try_from(job).unwrap();
    let job = ResolvedJob::new(job, None, "default", QueueResources::default()).unwrap();
    let services = BTreeMap::new();
    let found = CompileFacts {
        queue: "default",
        priority,
        namespace_enforces_restricted: restricted,
        services: &services,
    };
    let surroundings = CompileContext::resolve(job.job(), found).unwrap();
    compile(job, surroundings, &Arc::default())
}

fn queue(selector: Value) -> QueueSpec {
    from_value(json!({"namespaceSelector": selector})).unwrap()
}

fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([(
        "kubernetes.io/metadata.name".to_owned(),
        "team-a".to_owned(),
    )])
}

/// Goes through the door under the starter set.
fn authorize_with_starter_set(
    job: CompiledJob,
    facts: &ClusterFacts<'_>,
) -> Result<AuthorizedJob, Denial> {
    let none = BTreeMap::new();
    let submission = SubmissionFacts {
        labels: &none,
        requester: None,
        attempt: 1,
    };
    let starter = starter::policies();
    let (decision, outcome) = authorize(Some(&starter), job, facts, &submission);
    assert_eq!(decision.set_hash.as_deref(), Some(starter.hash()));
    outcome.map_err(|not| match not {
        NotAuthorized::Denied(denial) => denial,
        undecided => panic!("{undecided}"),
    })
}

/// The refusals of `job`; empty if it may run. `change` edits facts that allow it.
fn refusals(
    job: CompiledJob,
    change: impl FnOnce(&mut ClusterFacts<'_>),
) -> Vec<(DenialSource, String)> {
    let (queue, labels) = (queue(json!({})), labels());
    let mut facts = ClusterFacts {
        queue: "default",
        queue_spec: &queue,
        namespace: "team-a",
        namespace_labels: &labels,
        priority_class: None,
    };
    change(&mut facts);
    match authorize_with_starter_set(job, &facts) {
        Ok(job) => {
            assert_eq!(job.compiled().queue(), "default");
            Vec::new()
        }
        Err(denial) => {
            assert!(!denial.refusals().is_empty());
            let all: Vec<_> = denial.refusals().iter().map(ToString::to_string).collect();
            assert_eq!(denial.to_string(), all.join("; "));
            let by = denial.refusals().iter().map(|r| r.source.clone());
            by.zip(all).collect()
        }
    }
}

const UNSELECTED_NAMESPACE: &str = "namespace \"team-a\" uses queue \"default\", which no policy permits: \
    name a queue that selects the namespace, or have the namespaceSelector of queue \"default\" \
    select it, or ask for permit(principal == Trellis::Namespace::\"team-a\", \
    action == Trellis::Action::\"UseQueue\", resource == Trellis::Queue::\"default\");";

const FOREIGN_FACTS: &str = "namespace \"team-a\" uses queue \"default\", which the rule \
    facts-of-the-job denies: this is a fault of Trellis: report it";

#[test]
fn job_is_denied_unless_its_queue_selects_the_namespace() {
    for (spec, allowed) in [
        (queue(json!({})), true),
        (QueueSpec::default(), false),
        (
            queue(json!({"matchLabels": {"kubernetes.io/metadata.name": "team-a"}})),
            true,
        ),
        (
            queue(json!({"matchLabels": {"kubernetes.io/metadata.name": "team-b"}})),
            false,
        ),
        (
            queue(json!({"matchExpressions": [{"key": "team", "operator": "Exists"}]})),
            false,
        ),
    ] {
        let said = {
            let labels = labels();
            let facts = ClusterFacts {
                queue: "default",
                queue_spec: &spec,
                namespace: "team-a",
                namespace_labels: &labels,
                priority_class: None,
            };
            authorize_with_starter_set(compile_yaml(JOB, 0, false), &facts)
                .err()
                .map(|denial| denial.to_string())
        };
        assert_eq!(
            said.as_deref(),
            (!allowed).then_some(UNSELECTED_NAMESPACE),
            "{spec:?}"
        );
    }
}

#[test]
fn job_is_denied_with_facts_of_another_queue_or_namespace() {
    let denied = [(
        DenialSource::Rule(FixedRule::FactsOfTheJob),
        FOREIGN_FACTS.to_owned(),
    )];
    let job = || compile_yaml(JOB, 0, false);
    assert_eq!(refusals(job(), |_| {}), []);
    assert_eq!(refusals(job(), |facts| facts.queue = "other"), denied);
    assert_eq!(refusals(job(), |facts| facts.namespace = "team-b"), denied);
}

#[test]
fn job_is_denied_with_a_system_priority() {
    let class = |name: &str| {
        format!(
            "the job has the priority class {name:?}, which the rule user-priority denies: \
             name one that does not start with system-, or none"
        )
    };
    let named = JOB.replace("spec:\n", "spec:\n  priorityClassName: high\n");
    for (yaml, priority, fact, expected) in [
        (JOB, 0, None, None),
        (JOB, 0, Some("default-class"), None),
        (&named, 100, Some("high"), None),
        (JOB, 1_000_000_000, Some("high"), None),
        (
            JOB,
            0,
            Some("system-node-critical"),
            Some(class("system-node-critical")),
        ),
        (
            JOB,
            1_000_000_001,
            Some("high"),
            Some(
                "the job has the priority 1000000001, which the rule user-priority denies: \
                 use a priority class of at most 1000000000"
                    .to_owned(),
            ),
        ),
    ] {
        let said = refusals(compile_yaml(yaml, priority, false), |facts| {
            facts.priority_class = fact;
        });
        let expected: Vec<_> = expected
            .into_iter()
            .map(|text| (DenialSource::Rule(FixedRule::UserPriority), text))
            .collect();
        assert_eq!(said, expected, "{priority} {fact:?}");
    }
}

#[test]
fn denial_lists_all_broken_rules() {
    let said = refusals(compile_yaml(JOB, 2_000_000_000, false), |facts| {
        facts.namespace = "team-b";
        facts.priority_class = Some("system-cluster-critical");
    });
    let rules: Vec<_> = said.into_iter().map(|(by, _)| by).collect();
    assert_eq!(
        rules,
        [
            FixedRule::FactsOfTheJob,
            FixedRule::UserPriority,
            FixedRule::UserPriority
        ]
        .map(DenialSource::Rule)
    );
}

/// All that the compiler makes is within Pod Security, and root is granted.
#[test]
fn example_jobs_are_allowed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "yaml") {
            continue;
        }
        let yaml = std::fs::read_to_string(path).unwrap();
        for restricted in [false, true] {
            let job = compile_yaml(&yaml, 0, restricted);
            assert_eq!(refusals(job, |facts| facts.namespace = "default"), []);
        }
        seen += 1;
    }
    assert!(seen >= 5);
}

#[test]
fn pod_runs_as_root_only_where_no_user_is_set() {
    let of = |yaml: &str, restricted| {
        let job = compile_yaml(yaml, 0, restricted);
        let pod = job.groups()[0].pod(
            0,
            &trellis_compiler::PodPlacement {
                attempt: 1,
                ..trellis_compiler::PodPlacement::UNPLACED
            },
        );
        let privileges = trellis_policies::privileges(&pod);
        privileges
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let with = |context: &str| format!("{JOB}  securityContext: {{{context}}}\n");
    assert_eq!(of(JOB, false), ["RunAsRoot"]);
    assert_eq!(of(JOB, true), Vec::<String>::new());
    assert_eq!(of(&with("runAsUser: 1000"), false), Vec::<String>::new());
    assert_eq!(of(&with("runAsUser: 0"), false), ["RunAsRoot"]);
    assert_eq!(of(&with("runAsUser: 0"), true), ["RunAsRoot"]);
}
