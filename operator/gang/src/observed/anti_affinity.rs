//! Required anti-affinity of pods of other schedulers. A term repels the pods that it selects: it
//! closes the topology domain of its own pod to them. Only pods with such a term are stored.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::PodAffinityTerm;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Serialize;
use trellis_policies::selects;
use trellis_scheduler::LabelDomain;

use super::pod_view::PodView;
use super::slim::SlimPod;
use crate::key::Key;

/// One term. Pods that the term selects may not run in the topology domains of the pods that have
/// the term. The API server has merged `matchLabelKeys` and `mismatchLabelKeys` into the selector.
#[derive(Serialize, Clone, Debug, PartialEq)]
pub struct AntiAffinityTerm {
    namespaces: BTreeSet<String>,
    namespace_selector: Option<LabelSelector>,
    selector: Option<LabelSelector>,
    topology_key: String,
}

/// A pod that terms may repel.
#[derive(Clone, Copy, Debug)]
pub struct TargetPod<'a> {
    /// Namespace of the pod.
    pub namespace: &'a str,
    /// Labels of that namespace.
    pub namespace_labels: &'a BTreeMap<String, String>,
    /// Labels of the pod.
    pub labels: &'a BTreeMap<String, String>,
}

impl AntiAffinityTerm {
    /// Returns a term of a pod in the namespace `pod_namespace`.
    fn new(term: &PodAffinityTerm, pod_namespace: &str) -> Self {
        let mut namespaces: BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.insert(pod_namespace.to_owned());
        }
        Self {
            namespaces,
            namespace_selector: term.namespace_selector.clone(),
            selector: term.label_selector.clone(),
            topology_key: term.topology_key.clone(),
        }
    }

    /// Returns the term as text. Equal terms have equal texts.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns true if the term may repel pods of that namespace, depending on their labels.
    #[must_use]
    pub fn can_repel_namespace(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        self.namespaces.contains(name) || selects(self.namespace_selector.as_ref(), labels)
    }

    /// Returns true if the term repels the pod (`AffinityTerm.Matches` of kube-scheduler).
    #[must_use]
    pub fn repels(&self, pod: TargetPod<'_>) -> bool {
        self.can_repel_namespace(pod.namespace, pod.namespace_labels)
            && selects(self.selector.as_ref(), pod.labels)
    }
}

/// A pod's node and terms.
#[derive(Debug, PartialEq)]
struct PodTerms {
    node: Arc<str>,
    terms: Vec<Arc<AntiAffinityTerm>>,
}

/// All terms, and the nodes of the pods that have them.
#[derive(Debug, Default)]
pub struct AntiAffinityIndex {
    pods: HashMap<Key, PodTerms>,
    /// Terms by their text. Pods of one Deployment share their terms.
    terms: BTreeMap<String, TermNodes>,
}

#[derive(Debug)]
struct TermNodes {
    repulsion: Arc<AntiAffinityTerm>,
    /// Number of pods by node.
    nodes: BTreeMap<Arc<str>, usize>,
}

impl AntiAffinityIndex {
    /// Stores a pod as the watch shows it. Returns the terms whose domains change.
    pub fn apply(&mut self, key: &Key, pod: &SlimPod) -> Vec<Arc<AntiAffinityTerm>> {
        let entry = pod_terms(pod);
        if self.pods.get(key) == entry.as_ref() {
            return Vec::new();
        }
        let mut changed = self.delete(key);
        if let Some(entry) = entry {
            changed.extend(self.insert(key, entry));
        }
        changed
    }

    /// Returns true if any term may repel pods of that namespace, depending on their labels.
    #[must_use]
    pub fn can_repel_namespace(&self, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
        let mut terms = self.terms.values();
        terms.any(|t| t.repulsion.can_repel_namespace(namespace, labels))
    }

    /// Returns the terms of the pods on a node. The labels of the node determine their domains.
    #[must_use]
    pub fn terms_on_node(&self, node: &str) -> Vec<Arc<AntiAffinityTerm>> {
        let there = self.terms.values().filter(|t| t.nodes.contains_key(node));
        there.map(|t| t.repulsion.clone()).collect()
    }

    /// Returns the domains that are closed to the pod. `label` returns the value of a node's label.
    #[must_use]
    pub fn closed_domains(
        &self,
        pod: TargetPod<'_>,
        label: impl Fn(&str, &str) -> Option<String>,
    ) -> BTreeSet<LabelDomain> {
        let mut domains = BTreeSet::new();
        for term in self.terms.values() {
            if !term.repulsion.repels(pod) {
                continue;
            }
            let key = &term.repulsion.topology_key;
            let values = term.nodes.keys().filter_map(|node| label(node, key));
            domains.extend(values.map(|value| LabelDomain {
                label: key.clone(),
                value,
            }));
        }
        domains
    }

    fn insert(&mut self, key: &Key, entry: PodTerms) -> Vec<Arc<AntiAffinityTerm>> {
        let mut changed = Vec::new();
        for repulsion in &entry.terms {
            let term = self
                .terms
                .entry(repulsion.to_text())
                .or_insert_with(|| TermNodes {
                    repulsion: repulsion.clone(),
                    nodes: BTreeMap::new(),
                });
            let pods = term.nodes.entry(entry.node.clone()).or_default();
            *pods = pods.saturating_add(1);
            if *pods == 1 {
                changed.push(repulsion.clone());
            }
        }
        self.pods.insert(key.clone(), entry);
        changed
    }

    /// Removes a pod. Returns the terms whose domains change.
    pub fn delete(&mut self, key: &Key) -> Vec<Arc<AntiAffinityTerm>> {
        let mut changed = Vec::new();
        let Some(entry) = self.pods.remove(key) else {
            return changed;
        };
        for repulsion in entry.terms {
            let words = repulsion.to_text();
            let Some(term) = self.terms.get_mut(&words) else {
                continue;
            };
            let Some(pods) = term.nodes.get_mut(&entry.node) else {
                continue;
            };
            *pods = pods.saturating_sub(1);
            if *pods == 0 {
                term.nodes.remove(&entry.node);
                if term.nodes.is_empty() {
                    self.terms.remove(&words);
                }
                changed.push(repulsion);
            }
        }
        changed
    }
}

/// Returns the node and the terms of a pod. Returns None if the pod has no such term or no node
/// yet, has ended, or belongs to a TrainingJob.
fn pod_terms(pod: &SlimPod) -> Option<PodTerms> {
    let required = &pod.spec.affinity.pod_anti_affinity.required;
    let has_ended = matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"));
    if required.is_empty() || has_ended || PodView::from_pod(pod).is_some() {
        return None;
    }
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let terms = required
        .iter()
        .map(|t| Arc::new(AntiAffinityTerm::new(t, namespace)));
    Some(PodTerms {
        node: pod.spec.node_name.as_deref()?.into(),
        terms: terms.collect(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(node: &str, terms: Value) -> SlimPod {
        serde_json::from_value(json!({
            "metadata": {"name": "db-0", "namespace": "db"},
            "spec": {"nodeName": node, "affinity": {"podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": terms,
                "preferredDuringSchedulingIgnoredDuringExecution": [],
            }}},
            "status": {"phase": "Running"},
        }))
        .unwrap()
    }

    fn training(app: &str) -> Value {
        json!({"matchLabels": {"app": app}})
    }

    fn domains(index: &AntiAffinityIndex, namespace: &str, app: &str) -> Vec<String> {
        let labels = BTreeMap::from([("app".to_owned(), app.to_owned())]);
        let namespace_labels = BTreeMap::from([("team".to_owned(), namespace.to_owned())]);
        let pod = TargetPod {
            namespace,
            namespace_labels: &namespace_labels,
            labels: &labels,
        };
        let label = |node: &str, key: &str| (key == "zone").then(|| format!("zone-of-{node}"));
        let domains = index.closed_domains(pod, label);
        domains
            .iter()
            .map(|d| format!("{}={}", d.label, d.value))
            .collect()
    }

    fn index_with(terms: Value) -> AntiAffinityIndex {
        let mut index = AntiAffinityIndex::default();
        assert!(
            !index
                .apply(&Key::new("db", "db-0"), &pod("n", terms))
                .is_empty()
        );
        index
    }

    #[test]
    fn anti_affinity_term_repels_pods_as_in_kubernetes() {
        let term = |more: Value| {
            let mut term = json!({"topologyKey": "zone", "labelSelector": training("llm")});
            term.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            json!([term])
        };
        for (more, namespace, app, kept_out) in [
            // A term without namespaces applies to the pod's own namespace.
            (json!({}), "db", "llm", true),
            (json!({}), "team-a", "llm", false),
            (json!({}), "db", "other", false),
            (json!({"namespaces": ["team-a"]}), "team-a", "llm", true),
            (json!({"namespaces": ["team-a"]}), "db", "llm", false),
            (json!({"namespaceSelector": {}}), "team-a", "llm", true),
            (
                json!({"namespaceSelector": {"matchLabels": {"team": "team-a"}}}),
                "team-a",
                "llm",
                true,
            ),
            (
                json!({"namespaceSelector": {"matchLabels": {"team": "team-a"}}}),
                "db",
                "llm",
                false,
            ),
            (
                json!({"namespaceSelector": {"matchLabels": {"team": "x"}}, "namespaces": ["db"]}),
                "db",
                "llm",
                true,
            ),
            (json!({"labelSelector": {}}), "db", "anything", true),
            (json!({"labelSelector": null}), "db", "llm", false),
            // The node has no label of that key.
            (json!({"topologyKey": "rack"}), "db", "llm", false),
        ] {
            let found = domains(&index_with(term(more.clone())), namespace, app);
            let expected: &[&str] = if kept_out { &["zone=zone-of-n"] } else { &[] };
            assert_eq!(found, expected, "{more} {namespace} {app}");
        }
    }

    #[test]
    fn only_first_and_last_pod_of_a_term_change_its_domains() {
        let term = json!([{"topologyKey": "zone", "labelSelector": training("llm")}]);
        let mut index = AntiAffinityIndex::default();
        let (a, b) = (Key::new("db", "db-0"), Key::new("db", "db-1"));
        assert_eq!(index.apply(&a, &pod("n", term.clone())).len(), 1);
        assert!(index.apply(&a, &pod("n", term.clone())).is_empty());
        assert!(index.apply(&b, &pod("n", term.clone())).is_empty());
        assert!(index.delete(&a).is_empty());
        assert_eq!(domains(&index, "db", "llm"), ["zone=zone-of-n"]);
        assert_eq!(index.terms_on_node("n").len(), 1);
        assert_eq!(
            index.apply(&b, &pod("m", term.clone())).len(),
            2,
            "one less, one more"
        );
        assert_eq!(domains(&index, "db", "llm"), ["zone=zone-of-m"]);
        let mut ended = pod("m", term);
        ended.status.phase = Some("Succeeded".to_owned());
        assert_eq!(index.apply(&b, &ended).len(), 1);
        assert!(domains(&index, "db", "llm").is_empty() && index.terms_on_node("m").is_empty());
        assert!(index.delete(&b).is_empty());
    }

    #[test]
    fn pods_without_terms_and_training_job_pods_are_not_stored() {
        let mut index = AntiAffinityIndex::default();
        let key = Key::new("db", "db-0");
        assert!(index.apply(&key, &pod("n", json!([]))).is_empty());
        let mut job_pod = pod("n", json!([{"topologyKey": "zone", "labelSelector": {}}]));
        job_pod.metadata.owner_references = serde_json::from_value(json!([{
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob", "name": "j", "uid": "j",
            "controller": true,
        }]))
        .unwrap();
        assert!(index.apply(&key, &job_pod).is_empty());
        assert!(index.pods.is_empty());
    }
}
