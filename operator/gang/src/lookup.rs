//! Finds the objects that a job names: its queue, its priority and its profile. The controller and
//! `trellis plan` share the rules and the messages.

mod profile;
mod queue_resources;

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use trellis_api::{Reason, TrainingJobSpec, TrainingQueue, names};
use trellis_policies::selects;

use crate::JobHold;

pub use profile::{CachedProfile, describe_several_defaults, find_profile};
pub use queue_resources::{find_queue_resources, placed_resources};

/// Number of queues that a message suggests.
const MAX_SUGGESTED_QUEUES: usize = 5;

/// Keeps a job waiting while the watch has not shown its namespace, whose labels are then unknown.
#[must_use]
pub fn unknown_namespace(namespace: &str) -> JobHold {
    let message =
        format!("namespace {namespace:?} has not been read yet, and policies go by its labels");
    JobHold::waiting(Reason::CacheNotReady, message)
}

/// Returns the queue that the job names, else the default queue of its namespace.
///
/// If several defaults match the namespace's labels, the selector with most requirements wins, so
/// `{}` is the last resort. The first queue by name wins among equal selectors, so the result does
/// not depend on the order of `all`.
///
/// # Errors
/// - The job names a queue that does not exist.
/// - The job names a queue that has queues below it and does not select the namespace.
/// - The job names no queue, and the namespace has no default.
pub fn resolve_queue<Q: Borrow<TrainingQueue>>(
    name: Option<&str>,
    namespace_labels: &BTreeMap<String, String>,
    get: impl FnOnce(&str) -> Option<Q>,
    all: impl FnOnce() -> Vec<Q>,
) -> Result<Q, JobHold> {
    let missing = |message: String| JobHold::waiting(Reason::QueueNotFound, message);
    if let Some(name) = name {
        let Some(queue) = get(name) else {
            return Err(missing(format!(
                "spec.queueName: queue {name:?} does not exist: create it or name another{}",
                list_usable_queues(&all(), namespace_labels)
            )));
        };
        if selects(
            queue.borrow().spec.namespace_selector.as_ref(),
            namespace_labels,
        ) {
            return Ok(queue);
        }
        // Policies deny a queue that does not select the namespace. The message of a queue with
        // queues below it must not suggest to change its selector, because jobs go to the queues
        // below it.
        let all = all();
        let is_parent = |q: &Q| q.borrow().spec.parent_name.as_deref() == Some(name);
        if !all.iter().any(is_parent) {
            return Ok(queue);
        }
        let message = format!(
            "spec.queueName: queue {name:?} has queues below it, and jobs go to those: name another{}",
            list_usable_queues(&all, namespace_labels)
        );
        return Err(JobHold::waiting(Reason::QueueMisconfigured, message));
    }
    let is_default =
        |queue: &Q| selects(queue.borrow().spec.default_for.as_ref(), namespace_labels);
    let rank = |queue: &Q| {
        let queue = queue.borrow();
        (
            Reverse(count_requirements(queue.spec.default_for.as_ref())),
            queue.metadata.name.clone(),
        )
    };
    let defaults = all().into_iter().filter(is_default);
    defaults
        .min_by_key(rank)
        .ok_or_else(|| {
            missing(
                "spec.queueName: none is given and no queue is the default for this namespace: name a queue"
                    .to_owned(),
            )
        })
}

/// Returns the first queues that jobs of a namespace may name: ` (this namespace may use "a",
/// "b")`.
fn list_usable_queues<Q: Borrow<TrainingQueue>>(
    all: &[Q],
    namespace_labels: &BTreeMap<String, String>,
) -> String {
    let queues = || all.iter().map(Borrow::borrow);
    let parents: BTreeSet<&str> = queues()
        .filter_map(|q| q.spec.parent_name.as_deref())
        .collect();
    let mut names: Vec<&str> = queues()
        .filter(|q| selects(q.spec.namespace_selector.as_ref(), namespace_labels))
        .filter_map(|q| q.metadata.name.as_deref())
        .filter(|name| !parents.contains(name))
        .collect();
    names.sort_unstable();
    let shown: Vec<_> = names
        .iter()
        .take(MAX_SUGGESTED_QUEUES)
        .map(|n| format!("{n:?}"))
        .collect();
    match names.len().saturating_sub(MAX_SUGGESTED_QUEUES) {
        0 if shown.is_empty() => " (none selects this namespace)".to_owned(),
        0 => format!(" (this namespace may use {})", shown.join(", ")),
        more => format!(
            " (this namespace may use {} and {more} more)",
            shown.join(", ")
        ),
    }
}

/// Returns the number of requirements of a selector: 0 for `{}`.
pub fn count_requirements(selector: Option<&LabelSelector>) -> usize {
    selector.map_or(0, |selector| {
        let labels = selector.match_labels.as_ref().map_or(0, BTreeMap::len);
        let expressions = selector.match_expressions.as_ref().map_or(0, Vec::len);
        labels.saturating_add(expressions)
    })
}

fn priority_value(class: &PriorityClass) -> i32 {
    class.value.unwrap_or(0)
}

/// Returns true if gangs of that class do not preempt gangs of lower priority.
#[must_use]
pub fn never_preempts(class: &PriorityClass) -> bool {
    class.preemption_policy.as_deref() == Some("Never")
}

/// Returns true if the job's PriorityClass exists and forbids preemption.
pub fn job_never_preempts<C: Borrow<PriorityClass>>(
    job: &TrainingJobSpec,
    get: impl FnOnce(&str) -> Option<C>,
    all: impl FnOnce() -> Vec<C>,
) -> bool {
    let class = find_priority_class(job, get, all).ok().flatten();
    class.is_some_and(|class| never_preempts(class.borrow()))
}

/// Returns the PriorityClass of the job: the one that it names, else the cluster's default, if
/// there is one. If there are several defaults, the lowest wins, as in Kubernetes.
///
/// # Errors
/// If the job names a class that does not exist.
fn find_priority_class<C: Borrow<PriorityClass>>(
    job: &TrainingJobSpec,
    get: impl FnOnce(&str) -> Option<C>,
    all: impl FnOnce() -> Vec<C>,
) -> Result<Option<C>, JobHold> {
    if let Some(name) = &job.priority_class_name {
        let missing = || {
            let message = format!(
                "spec.priorityClassName: PriorityClass {name:?} does not exist: create it or name another"
            );
            JobHold::waiting(Reason::PriorityClassNotFound, message)
        };
        return get(name).map(Some).ok_or_else(missing);
    }
    let default = all()
        .into_iter()
        .filter(|c| c.borrow().global_default == Some(true))
        // Equal values are ordered by name, so that the order of the list does not matter.
        .min_by(|a, b| {
            let order_key = |c: &C| (priority_value(c.borrow()), c.borrow().metadata.name.clone());
            order_key(a).cmp(&order_key(b))
        });
    Ok(default)
}

/// Returns the name of the class and the priority, which is 0 without a class.
///
/// # Errors
/// If the job names a class that does not exist.
pub fn find_priority<C: Borrow<PriorityClass>>(
    job: &TrainingJobSpec,
    get: impl FnOnce(&str) -> Option<C>,
    all: impl FnOnce() -> Vec<C>,
) -> Result<(Option<String>, i32), JobHold> {
    let class = find_priority_class(job, get, all)?;
    Ok(class.map_or((None, 0), |c| {
        (c.borrow().metadata.name.clone(), priority_value(c.borrow()))
    }))
}

/// Returns the Services of its namespace that the job's network rules name.
pub fn network_rule_services(job: &TrainingJobSpec) -> impl Iterator<Item = &str> {
    job.network.iter().flat_map(|network| {
        let rules = network.egress.iter().chain(&network.ingress);
        rules.filter_map(|rule| rule.service.as_deref())
    })
}

/// Returns true if the namespace enforces Pod Security "restricted".
#[must_use]
pub fn enforces_restricted(namespace_labels: &BTreeMap<String, String>) -> bool {
    namespace_labels
        .get(names::POD_SECURITY_ENFORCE)
        .is_some_and(|level| level == "restricted")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(fields: Value) -> TrainingJobSpec {
        let mut spec = json!({"taskGroups": []});
        spec.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        serde_json::from_value(spec).unwrap()
    }

    fn queues(defaults: &[(&str, Value)]) -> Vec<TrainingQueue> {
        let queue = |(name, default_for): &(&str, Value)| {
            serde_json::from_value(json!({
                "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
                "metadata": {"name": name}, "spec": {"defaultFor": default_for}
            }))
            .unwrap()
        };
        defaults.iter().map(queue).collect()
    }

    fn find_queue(job: &TrainingJobSpec, queues: &[TrainingQueue]) -> Result<String, JobHold> {
        let labels = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
        let get = |name: &str| {
            queues
                .iter()
                .find(|q| q.metadata.name.as_deref() == Some(name))
        };
        resolve_queue(job.queue_name.as_deref(), &labels, get, || {
            queues.iter().collect()
        })
        .map(|q| q.metadata.name.clone().unwrap())
    }

    #[test]
    fn job_waits_when_its_named_queue_does_not_exist() {
        let queues_a_and_b = queues(&[("a", json!({})), ("b", Value::Null)]);
        let find_named =
            |name: &str| find_queue(&spec(json!({"queueName": name})), &queues_a_and_b);
        assert_eq!(find_named("b").unwrap(), "b");
        let missing = find_named("c").unwrap_err();
        assert_eq!(missing.reason, Reason::QueueNotFound);
        assert!(missing.message.contains("spec.queueName") && missing.message.contains("\"c\""));
    }

    #[test]
    fn message_for_a_wrong_queue_lists_usable_queues() {
        let mut known = queues(&[("lab", Value::Null), ("a", Value::Null), ("b", Value::Null)]);
        let message_for = |name: &str, known: &[TrainingQueue]| {
            find_queue(&spec(json!({"queueName": name})), known)
                .unwrap_err()
                .message
        };
        let without_usable = message_for("nope", &known);
        assert!(
            without_usable.ends_with("(none selects this namespace)"),
            "{without_usable}"
        );
        known[1].spec.parent_name = Some("lab".to_owned());
        for queue in &mut known {
            queue.spec.namespace_selector = Some(Default::default());
        }
        let with_usable = message_for("nope", &known);
        assert!(
            with_usable.ends_with("(this namespace may use \"a\", \"b\")"),
            "{with_usable}"
        );
        // The message for a queue with queues below it does not suggest to change its selector.
        known[0].spec.namespace_selector = None;
        let for_parent = message_for("lab", &known);
        assert!(for_parent.contains("has queues below it"), "{for_parent}");
        assert!(
            for_parent.ends_with("(this namespace may use \"a\", \"b\")"),
            "{for_parent}"
        );
        // A queue without queues below it is found even if it does not select the namespace,
        // because policies deny the job.
        known[2].spec.namespace_selector = None;
        assert_eq!(
            find_queue(&spec(json!({"queueName": "b"})), &known).unwrap(),
            "b"
        );
    }

    #[test]
    fn default_queue_with_most_selector_requirements_wins() {
        let unnamed = spec(json!({}));
        let team = |team: &str| json!({"matchLabels": {"team": team}});
        let two_requirements = json!({"matchLabels": {"team": "a"}, "matchExpressions": [{"key": "team", "operator": "Exists"}]});
        let default_of = |queues: &[TrainingQueue]| find_queue(&unnamed, queues).unwrap();
        let catch_all = ("default", json!({}));
        assert_eq!(
            default_of(&queues(&[catch_all.clone(), ("vision", team("a"))])),
            "vision"
        );
        assert_eq!(
            default_of(&queues(&[catch_all.clone(), ("vision", team("b"))])),
            "default"
        );
        assert_eq!(
            default_of(&queues(&[("z", team("a")), ("b", team("a")), catch_all])),
            "b"
        );
        assert_eq!(
            default_of(&queues(&[("b", team("a")), ("z", two_requirements)])),
            "z"
        );
        let known = queues(&[("z", json!({})), ("b", team("b")), ("m", team("a"))]);
        assert_eq!(find_queue(&unnamed, &known).unwrap(), "m");
        let missing = find_queue(&unnamed, &queues(&[("b", team("b"))])).unwrap_err();
        assert_eq!(missing.reason, Reason::QueueNotFound);
    }

    #[test]
    fn priority_falls_back_to_the_cluster_default_then_to_0() {
        let class = |name: &str, value: i32, default: bool| PriorityClass {
            metadata: kube::api::ObjectMeta {
                name: Some(name.to_owned()),
                ..Default::default()
            },
            value: Some(value),
            global_default: Some(default),
            ..PriorityClass::default()
        };
        let classes = [
            class("high", 9, true),
            class("low", 1, true),
            class("named", 5, false),
        ];
        let find = |job: &TrainingJobSpec, classes: &[PriorityClass]| {
            let get = |name: &str| {
                classes
                    .iter()
                    .find(|c| c.metadata.name.as_deref() == Some(name))
                    .cloned()
            };
            find_priority(job, get, || classes.to_vec())
        };
        let with_class = spec(json!({"priorityClassName": "named"}));
        let without_class = spec(json!({}));
        assert_eq!(
            find(&with_class, &classes).unwrap(),
            (Some("named".to_owned()), 5)
        );
        assert_eq!(
            find(&without_class, &classes).unwrap(),
            (Some("low".to_owned()), 1)
        );
        assert_eq!(find(&without_class, &[]).unwrap(), (None, 0));
        let missing = find(&with_class, &[]).unwrap_err();
        assert_eq!(missing.reason, Reason::PriorityClassNotFound);
        let mut never_preempting = class("never", 5, false);
        assert!(!never_preempts(&never_preempting));
        for (policy, never) in [("PreemptLowerPriority", false), ("Never", true)] {
            never_preempting.preemption_policy = Some(policy.to_owned());
            assert_eq!(never_preempts(&never_preempting), never, "{policy}");
        }
    }
}
