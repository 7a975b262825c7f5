//! A core Job that Kueue or KAI queues.

use serde_json::{Value, json};
use trellis_api::job::{Framework, RestartScope, SuccessPolicy};

use super::failure_policy;
use crate::context::ImportContext;
use crate::draft::JobDraft;
use crate::fields::Fields;
use crate::imported_object::ImportedObject;
use crate::kai;
use crate::metadata;
use crate::pod::command_scan::ProvidedVariables;
use crate::pod::{self, PodHints, ValueWithPath};

const MIN_PARALLELISM: &str = "kueue.x-k8s.io/job-min-parallelism";
/// Default of a Job's `backoffLimit`.
const DEFAULT_BACKOFF_LIMIT: i64 = 6;

/// Converts a Job with the label of Kueue or KAI.
pub(crate) fn convert_job(root: &Fields<'_>, context: &ImportContext) -> Vec<ImportedObject> {
    let log = root.log();
    let mut draft = JobDraft::new(Default::default(), Framework::None);
    let in_kueue = super::read_labels(root, context, &mut draft);
    let in_kai = kai::read_job(root, context, &mut draft);
    if !in_kueue && !in_kai {
        log.add_problem(
            "metadata.labels",
            "must have the label kueue.x-k8s.io/queue-name or kai.scheduler/queue: a Job without it is not imported, because most Jobs are not training jobs; add it with the name of the queue for the TrainingJob",
        );
        return Vec::new();
    }
    let annotations = root
        .object("metadata")
        .and_then(|m| m.object("annotations"));
    let read_count = |key: &str| read_pod_count(annotations.as_ref()?, key);
    let of_kueue = read_count(MIN_PARALLELISM);
    let of_kai = in_kai.then(|| read_count(kai::MIN_MEMBER)).flatten();
    if let Some(annotations) = &annotations {
        if of_kueue.is_some() && of_kai.is_some() {
            annotations.note_at(
                kai::MIN_MEMBER,
                "is a second minimum, and kueue.x-k8s.io/job-min-parallelism is used",
                "write the minimum that you want into minReplicas",
            );
        }
        annotations.ignore(&["kueue.x-k8s.io/job-completions-equal-parallelism"]);
    }
    let Some(metadata) = metadata::read_metadata(root, true) else {
        return Vec::new();
    };
    draft.metadata = metadata;
    let Some(spec) = root.object("spec") else {
        log.add_problem("spec", "is required: add the spec of the Job");
        return Vec::new();
    };
    let mode = spec.one_of("completionMode", &["NonIndexed", "Indexed"]);
    let indexed = mode.as_deref() == Some("Indexed");
    let hints = PodHints {
        context,
        framework: Framework::None,
        main: "",
        own_ports: &[],
        index_variables: if indexed {
            &["JOB_COMPLETION_INDEX"]
        } else {
            &[]
        },
        provided_variables: ProvidedVariables::default(),
    };
    let Some(mut pods) = pod::read_template(&spec, "template", &hints) else {
        return Vec::new();
    };
    pods.group.name = "worker".to_owned();
    pods.group.replicas = read_replicas(&spec, indexed).filter(|count| *count != 1);
    // Without Kueue, KAI starts each pod of a Job by itself, unless the annotation says more.
    let is_split = !in_kueue && pods.group.replicas.is_some();
    pods.group.min_replicas = is_split.then_some(1);
    if let Some(minimum) = of_kueue.or(of_kai) {
        pods.group.min_replicas = Some(minimum.value);
        pods.origins.push(("minReplicas", minimum.path));
    }
    // With every restart policy, only the failed pod restarts, and the failure counts.
    pods.restart_policy = None;
    draft.pods.push(pods);
    read_failures(&spec, &mut draft);
    read_success(&spec, &mut draft);
    if let Some(value) = spec.integer("activeDeadlineSeconds") {
        let path = spec.field_path("activeDeadlineSeconds");
        draft.set_active_deadline(ValueWithPath { value, path }, log);
    }
    draft.set_ttl(spec.integer("ttlSecondsAfterFinished"));
    // Kueue suspends jobs that it has not admitted: a suspended job is pending, not stopped.
    if in_kueue {
        spec.ignore(&["suspend"]);
    }
    draft.spec.suspend = spec
        .boolean("suspend")
        .filter(|suspend| *suspend && !in_kueue);
    // Trellis creates a pod again after the previous pod with its name is gone.
    spec.one_of("podReplacementPolicy", &["TerminatingOrFailed", "Failed"]);
    if spec.value().get("manualSelector") != Some(&json!(true)) {
        spec.ignore(&["selector", "manualSelector"]);
    }
    spec.note_at(
        "managedBy",
        "leaves the job to another cluster, and Trellis schedules one cluster",
        "leave it out",
    );
    draft.finish(log)
}

/// Reads the number of pods in an annotation.
fn read_pod_count(annotations: &Fields<'_>, key: &str) -> Option<ValueWithPath<i64>> {
    let text = annotations.text(key)?;
    let path = annotations.field_path(key);
    match text.parse() {
        Ok(value) => Some(ValueWithPath { value, path }),
        Err(_) => {
            let message = "must be a number of pods: write digits only";
            annotations.log().add_problem(&path, message);
            None
        }
    }
}

/// Returns the number of pods that run at the same time.
fn read_replicas(spec: &Fields<'_>, indexed: bool) -> Option<i64> {
    let parallelism = spec.integer("parallelism").unwrap_or(1);
    let Some(completions) = spec.get("completions") else {
        if parallelism > 1 {
            let reason = "pods share one work queue: in Kubernetes the Job is complete when one pod has succeeded and all have ended";
            let value = json!(parallelism);
            let path = spec.field_path("parallelism");
            let instead =
                "in Trellis all pods must succeed; set spec.success.policy to Any to require one";
            spec.log().note(&path, Some(&value), reason, instead);
        }
        return Some(parallelism);
    };
    let count = spec.integer("completions")?;
    if count > parallelism {
        let (reason, instead) = if indexed {
            (
                "is more than parallelism: Kubernetes runs some indexes after others, and Trellis runs all at once",
                "check that the queue has quota for all pods, or split the work into several jobs",
            )
        } else {
            (
                "is more than parallelism: Kubernetes starts some pods after others, and Trellis starts all at once",
                "check that the queue has quota for all pods, or let each pod do more",
            )
        };
        completions.note(reason, instead);
    }
    // Parallelism beyond the number of completions has no effect.
    Some(count)
}

/// Reads the effects of failures. A failed pod restarts alone until the Job's limit is used up.
fn read_failures(spec: &Fields<'_>, draft: &mut JobDraft) {
    let limit = spec.integer("backoffLimit");
    let per_index = spec.get("backoffLimitPerIndex").is_some();
    spec.note_at(
        "backoffLimitPerIndex",
        "counts failures for each index, and Trellis counts them for the job",
        "set spec.restart.limit to the failures that all indexes may have together",
    );
    spec.note_at(
        "maxFailedIndexes",
        "lets some indexes fail, and in Trellis a job is complete when all pods are",
        "use action Ignore in spec.restart.rules to let pods fail with some exit codes",
    );
    let restart = draft.restart_mut();
    restart.scope = Some(RestartScope::Pod);
    restart.limit = limit.or_else(|| (!per_index).then_some(DEFAULT_BACKOFF_LIMIT));
    if let Some(policy) = spec.object("podFailurePolicy") {
        restart.rules = failure_policy::read_rules(&policy);
    }
}

/// Reads which pods complete the job.
fn read_success(spec: &Fields<'_>, draft: &mut JobDraft) {
    let Some(policy) = spec.object("successPolicy") else {
        return;
    };
    let rules = policy.objects("rules");
    let says = |rule: &Fields<'_>, value: Value| *rule.value() == value;
    match rules.as_slice() {
        [rule]
            if says(rule, json!({"succeededIndexes": "0"}))
                || says(rule, json!({"succeededIndexes": "0", "succeededCount": 1})) =>
        {
            rule.mark_read();
            draft.set_success(SuccessPolicy::Leader);
        }
        [rule] if says(rule, json!({"succeededCount": 1})) => {
            rule.mark_read();
            draft.set_success(SuccessPolicy::Any);
        }
        rules => {
            for rule in rules {
                rule.note(
                    "has no equivalent: a TrainingJob is complete when all pods, any pod, or rank 0 has succeeded",
                    "choose one of these in spec.success.policy",
                );
            }
        }
    }
}
