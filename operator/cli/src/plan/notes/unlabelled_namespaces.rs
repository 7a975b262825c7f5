//! Finds namespaces that no file contains.
//! They are treated as having no labels, and a note tells the user if a decision depends on these
//! labels.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use trellis_api::{TrainingJob, names};

use crate::files::job::namespaces_of;
use crate::plan::snapshot::ClusterSnapshot;

/// Returns a note about namespaces of these jobs that no file contains.
/// None: all are known, or no decision depends on their labels.
pub(crate) fn note_unlabelled(jobs: &[TrainingJob], snapshot: &ClusterSnapshot) -> Option<String> {
    format_note(&find_unlabelled(namespaces_of(jobs), snapshot))
}

/// Returns the unknown namespaces, if a decision depends on their labels.
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

/// Formats the note. None: there is no such namespace.
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
        "namespace{s} {} {are} in no file: planned without labels, although queues or policies of the files select namespaces by label; add the output of `kubectl get namespace {} -o yaml`",
        quoted.join(", "),
        names.join(" "),
    ))
}

/// Returns true if a decision may depend on labels of namespaces.
/// The decision may be one of a queue, a policy or a quota policy of the files.
fn needs_labels(snapshot: &ClusterSnapshot) -> bool {
    let mut queues = snapshot.queues.iter().flatten().map(|(_, q)| &q.spec);
    let mut quotas = snapshot.quota_policies.values().map(|q| &q.spec.subject);
    let mut policies = snapshot.policies.objects();
    queues.any(|q| selects_labels(q.namespace_selector.as_ref()) || selects_labels(q.default_for.as_ref()))
        || quotas.any(|q| q.team.is_some() || selects_labels(q.namespace_selector.as_ref()))
        // A policy cannot use labels of namespaces without one of these words.
        || policies.any(|object| {
            let cedar = object.cedar.to_lowercase();
            cedar.contains("namespace")
                || cedar.contains("team")
                || selects_labels(object.selector.as_ref())
        })
}

/// Returns true if a selector uses any label other than the namespace's name.
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
