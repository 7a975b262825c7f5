//! Topology domains that anti-affinity of other schedulers' pods closes to a gang's pods. Pure.

use std::collections::{BTreeMap, BTreeSet};

use trellis_compiler::CompiledJob;
use trellis_scheduler::LabelDomain;

use crate::admitted_pod::AdmittedPod;
use crate::observed::{AntiAffinityIndex, AntiAffinityTerm, TargetPod};

type LabelMap = BTreeMap<String, String>;

/// The properties of a gang that other pods' anti-affinity depends on.
#[derive(Clone, Copy, Debug)]
pub struct TargetGang<'a> {
    job: &'a CompiledJob,
    namespace_labels: &'a LabelMap,
    admitted_pods: &'a BTreeMap<String, AdmittedPod>,
}

impl<'a> TargetGang<'a> {
    /// Returns the gang of a job. `actual` holds the pods after admission, by group, where they are
    /// known.
    #[must_use]
    pub fn new(
        job: &'a CompiledJob,
        namespace_labels: &'a LabelMap,
        actual: &'a BTreeMap<String, AdmittedPod>,
    ) -> Self {
        Self {
            job,
            namespace_labels,
            admitted_pods: actual,
        }
    }

    /// Returns the domains that are closed to each group. `label` returns the value of a node's
    /// label.
    #[must_use]
    pub fn closed_domains(
        &self,
        repulsions: &AntiAffinityIndex,
        label: impl Fn(&str, &str) -> Option<String>,
    ) -> BTreeMap<String, BTreeSet<LabelDomain>> {
        // Usually no term applies to the namespace: then no pod is checked.
        if !repulsions.can_repel_namespace(self.job.job().namespace(), self.namespace_labels) {
            return BTreeMap::new();
        }
        let groups = self.group_labels().map(|(group, labels)| {
            let domains = repulsions.closed_domains(self.target_pod(&labels), &label);
            (group.to_owned(), domains)
        });
        groups.filter(|(_, domains)| !domains.is_empty()).collect()
    }

    /// Returns true if the term keeps one of the groups out of a domain.
    #[must_use]
    pub fn is_repelled_by(&self, repulsion: &AntiAffinityTerm) -> bool {
        repulsion.can_repel_namespace(self.job.job().namespace(), self.namespace_labels)
            && self
                .group_labels()
                .any(|(_, labels)| repulsion.repels(self.target_pod(&labels)))
    }

    fn target_pod<'s>(&'s self, labels: &'s LabelMap) -> TargetPod<'s> {
        TargetPod {
            namespace: self.job.job().namespace(),
            namespace_labels: self.namespace_labels,
            labels,
        }
    }

    /// Returns the labels of each group's pods, including those that admission adds.
    fn group_labels(&self) -> impl Iterator<Item = (&'a str, LabelMap)> {
        let actual = self.admitted_pods;
        self.job.groups().iter().map(move |group| {
            let mut labels = group.labels();
            let added = actual.get(group.name()).map(|a| a.labels.clone());
            labels.extend(added.unwrap_or_default());
            (group.name(), labels)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trellis_api::names;

    use super::*;
    use crate::fixtures::desired_run;
    use crate::key::Key;

    #[test]
    fn anti_affinity_repels_a_gang_by_its_own_and_admission_labels() {
        let mut index = AntiAffinityIndex::default();
        let repelling_pod = |label: &str, value: &str| {
            serde_json::from_value(json!({
                "metadata": {"name": "db-0", "namespace": "db"},
                "spec": {"nodeName": "n", "affinity": {"podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [{
                        "topologyKey": "zone",
                        "namespaces": ["team-a"],
                        "labelSelector": {"matchLabels": {label: value}},
                    }],
                }}},
            }))
            .unwrap()
        };
        let desired = desired_run(1);
        let job = desired.attempt().unwrap().job.compiled();
        let no_labels = LabelMap::new();
        let key = Key::new("db", "db-0");
        let closed_domains = |index: &AntiAffinityIndex, actual: &BTreeMap<String, AdmittedPod>| {
            let gang = TargetGang::new(job, &no_labels, actual);
            let label = |_: &str, _: &str| Some("a".to_owned());
            let domains = gang.closed_domains(index, label);
            domains
                .into_iter()
                .map(|(group, domains)| (group, domains.len()))
                .collect::<Vec<_>>()
        };
        let worker = vec![("worker".to_owned(), 1)];
        let not_admitted = BTreeMap::new();
        assert_eq!(closed_domains(&index, &not_admitted), []);
        let terms = index.apply(&key, &repelling_pod(names::JOB, "llm"));
        assert_eq!(closed_domains(&index, &not_admitted), worker);
        assert!(TargetGang::new(job, &no_labels, &not_admitted).is_repelled_by(&terms[0]));
        index.apply(&key, &repelling_pod("mesh", "on"));
        assert_eq!(closed_domains(&index, &not_admitted), []);
        let admitted = AdmittedPod {
            labels: [("mesh".to_owned(), "on".to_owned())].into(),
            ..AdmittedPod::default()
        };
        let admitted = [("worker".to_owned(), admitted)].into();
        assert_eq!(closed_domains(&index, &admitted), worker);
    }
}
