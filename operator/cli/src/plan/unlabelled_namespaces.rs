//! Namespaces that no file holds: their labels are taken for none, which is told where
//! anything goes by them.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use trellis_api::{TrainingJob, names};

use super::policy_facts;
use super::snapshot::ClusterSnapshot;

/// A note of the namespaces of these jobs that no file holds. None: all are there, or
/// nothing goes by their labels.
pub(crate) fn note_unlabelled(jobs: &[TrainingJob], snapshot: &ClusterSnapshot) -> Option<String> {
    format_note(&find_unlabelled(
        policy_facts::namespaces_of(jobs),
        snapshot,
    ))
}

/// Those of these namespaces whose labels something goes by and nobody knows.
pub(crate) fn find_unlabelled<'a>(
    namespaces: impl IntoIterator<Item = &'a str>,
    snapshot: &ClusterSnapshot,
) -> BTreeSet<&'a str> {
    let unknown = namespaces.into_iter();
    let unknown = unknown.filter(|name| !snapshot.namespaces.contains_key(*name));
    let unknown: BTreeSet<&str> = unknown.collect();
    if unknown.is_empty() || !needs_labels(snapshot) {
        return BTreeSet::new();
    }
    unknown
}

/// What is said of namespaces that no file holds. None: there are none.
pub(crate) fn format_note(namespaces: &BTreeSet<&str>) -> Option<String> {
    if namespaces.is_empty() {
        return None;
    }
    let quoted: Vec<_> = namespaces.iter().map(|name| format!("{name:?}")).collect();
    let names: Vec<_> = namespaces.iter().copied().collect();
    let (s, are) = if names.len() == 1 {
        ("", "is")
    } else {
        ("s", "are")
    };
    Some(format!(
        "namespace{s} {} {are} in no file: planned without labels, by which queues or policies of the files select namespaces; add a file of `kubectl get namespace {} -o yaml`",
        quoted.join(", "),
        names.join(" "),
    ))
}

/// True if what a queue, a policy or a quota policy of the files decides may hang on
/// labels of namespaces.
fn needs_labels(snapshot: &ClusterSnapshot) -> bool {
    let mut queues = snapshot.queues.iter().flatten().map(|(_, q)| &q.spec);
    let mut quotas = snapshot.quota_policies.values().map(|q| &q.spec.subject);
    let mut policies = snapshot.policies.objects();
    queues.any(|q| selects_labels(q.namespace_selector.as_ref()) || selects_labels(q.default_for.as_ref()))
        || quotas.any(|q| q.team.is_some() || selects_labels(q.namespace_selector.as_ref()))
        // Nobody can ask for them without one of these words.
        || policies.any(|object| {
            let cedar = object.cedar.to_lowercase();
            cedar.contains("namespace")
                || cedar.contains("team")
                || selects_labels(object.selector.as_ref())
        })
}

/// Whether a selector asks for a label that not every namespace has by its name.
fn selects_labels(selector: Option<&LabelSelector>) -> bool {
    let labels = selector
        .iter()
        .flat_map(|s| s.match_labels.iter().flatten());
    let labels = labels.map(|(key, _)| key.as_str());
    let expressions = selector
        .iter()
        .flat_map(|s| s.match_expressions.iter().flatten());
    let expressions = expressions.map(|e| e.key.as_str());
    let mut keys = labels.chain(expressions);
    keys.any(|key| key != names::NAMESPACE_NAME)
}
