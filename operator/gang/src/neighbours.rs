//! Topology domains that anti-affinity of other schedulers' pods closes to a gang's pods. Pure.

use std::collections::{BTreeMap, BTreeSet};

use trellis_compiler::CompiledJob;
use trellis_scheduler::LabelDomain;

use super::admitted::Admitted;
use crate::observed::{Repelled, Repulsion, Repulsions};

type Labels = BTreeMap<String, String>;

/// A gang, as other pods' anti-affinity sees it.
#[derive(Clone, Copy, Debug)]
pub struct Neighbour<'a> {
    job: &'a CompiledJob,
    namespace_labels: &'a Labels,
    actual: &'a BTreeMap<String, Admitted>,
}

impl<'a> Neighbour<'a> {
    /// The gang of a job. `actual` holds the pods after admission, by group, where they are known.
    #[must_use]
    pub fn new(
        job: &'a CompiledJob,
        namespace_labels: &'a Labels,
        actual: &'a BTreeMap<String, Admitted>,
    ) -> Self {
        Self {
            job,
            namespace_labels,
            actual,
        }
    }

    /// Domains that are closed to each group. `label` returns the value of a node's label.
    #[must_use]
    pub fn kept_out(
        &self,
        repulsions: &Repulsions,
        label: impl Fn(&str, &str) -> Option<String>,
    ) -> BTreeMap<String, BTreeSet<LabelDomain>> {
        // Usually no term applies to the namespace: then no pod is checked.
        if !repulsions.concern(self.job.job().namespace(), self.namespace_labels) {
            return BTreeMap::new();
        }
        let groups = self.groups().map(|(group, labels)| {
            let domains = repulsions.domains(self.repelled(&labels), &label);
            (group.to_owned(), domains)
        });
        groups.filter(|(_, domains)| !domains.is_empty()).collect()
    }

    /// True if the term keeps one of the groups out of a domain.
    #[must_use]
    pub fn is_kept_out_by(&self, repulsion: &Repulsion) -> bool {
        repulsion.is_of_namespace(self.job.job().namespace(), self.namespace_labels)
            && self
                .groups()
                .any(|(_, labels)| repulsion.keeps_out(self.repelled(&labels)))
    }

    fn repelled<'s>(&'s self, labels: &'s Labels) -> Repelled<'s> {
        Repelled {
            namespace: self.job.job().namespace(),
            namespace_labels: self.namespace_labels,
            labels,
        }
    }

    /// The labels of each group's pods, including those that admission adds.
    fn groups(&self) -> impl Iterator<Item = (&'a str, Labels)> {
        let actual = self.actual;
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
    use crate::fixtures::run;
    use crate::key::Key;

    #[test]
    fn a_gang_is_kept_out_by_the_labels_of_its_pods_and_those_that_admission_adds() {
        let repulsions = Repulsions::default();
        let foreign = |label: &str, value: &str| {
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
        let wish = run(1);
        let job = wish.run().unwrap().job.compiled();
        let none = Labels::new();
        let key = Key::new("db", "db-0");
        let kept_out = |actual: &BTreeMap<String, Admitted>| {
            let gang = Neighbour::new(job, &none, actual);
            let label = |_: &str, _: &str| Some("a".to_owned());
            let out = gang.kept_out(&repulsions, label);
            out.into_iter()
                .map(|(group, out)| (group, out.len()))
                .collect::<Vec<_>>()
        };
        let worker = vec![("worker".to_owned(), 1)];
        let sent = BTreeMap::new();
        assert_eq!(kept_out(&sent), []);
        let terms = repulsions.apply(&key, &foreign(names::JOB, "llm"));
        assert_eq!(kept_out(&sent), worker);
        assert!(Neighbour::new(job, &none, &sent).is_kept_out_by(&terms[0]));
        repulsions.apply(&key, &foreign("mesh", "on"));
        assert_eq!(kept_out(&sent), []);
        let added = Admitted {
            labels: [("mesh".to_owned(), "on".to_owned())].into(),
            ..Admitted::default()
        };
        assert_eq!(kept_out(&[("worker".to_owned(), added)].into()), worker);
    }
}
