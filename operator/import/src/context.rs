//! Facts that all documents together supply.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use trellis_api::document::Document;

use crate::queue_tree::QueueTree;
use crate::{ConversionOptions, kai, kueue, volcano};

/// Content of queues, topologies and priority classes that the import of other documents needs.
#[derive(Default)]
pub(crate) struct ImportContext {
    pub(crate) options: ConversionOptions,
    /// The ClusterQueue of each LocalQueue, by namespace and name of the LocalQueue.
    cluster_queues: BTreeMap<(String, String), String>,
    /// Cohorts of Kueue, also if a document only refers to them.
    cohorts: BTreeSet<String>,
    /// WorkloadPriorityClasses of Kueue.
    priority_classes: BTreeSet<String>,
    pub(crate) kai_queues: QueueTree,
    pub(crate) volcano_queues: QueueTree,
    pub(crate) kai_topologies: kai::KaiTopologies,
    /// Names of Volcano's tiers, by number. None: HyperNodes give a tier several names.
    tiers: BTreeMap<i64, Option<String>>,
    /// True if a configuration of Kueue enables fair sharing.
    pub(crate) has_fair_sharing: bool,
    /// True if a configuration of Kueue splits pods evenly over domains of a preferred level.
    pub(crate) is_balanced: bool,
}

impl ImportContext {
    pub(crate) fn from_documents(
        documents: &[Document],
        values: &[Value],
        options: &ConversionOptions,
    ) -> Self {
        let mut context = Self {
            options: options.clone(),
            ..Self::default()
        };
        for (document, value) in documents.iter().zip(values) {
            let group = document.api_version.split('/').next().unwrap_or_default();
            // A configuration need not have a name.
            if (group, document.kind.as_str()) == ("config.kueue.x-k8s.io", "Configuration") {
                context.has_fair_sharing |= kueue::enables_fair_sharing(value);
                context.is_balanced |= kueue::enables_balanced_placement(value);
            }
            let Some(name) = text_at(value, "metadata", "name") else {
                continue;
            };
            match (group, document.kind.as_str()) {
                ("kueue.x-k8s.io", "LocalQueue") => {
                    let namespace = text_at(value, "metadata", "namespace").unwrap_or("default");
                    let Some(queue) = text_at(value, "spec", "clusterQueue") else {
                        continue;
                    };
                    let key = (namespace.to_owned(), name.to_owned());
                    context.cluster_queues.insert(key, queue.to_owned());
                }
                ("kueue.x-k8s.io", "ClusterQueue" | "Cohort") => {
                    let own = (document.kind == "Cohort").then_some(name);
                    let keys = ["cohort", "cohortName", "parent", "parentName"];
                    let above = keys.iter().filter_map(|key| text_at(value, "spec", key));
                    context.cohorts.extend(above.chain(own).map(str::to_owned));
                }
                ("kueue.x-k8s.io", "WorkloadPriorityClass") => {
                    context.priority_classes.insert(name.to_owned());
                }
                ("scheduling.run.ai", "Queue") => {
                    kai::insert_queue(&mut context.kai_queues, name, value);
                }
                ("scheduling.volcano.sh", "Queue") => {
                    volcano::insert_queue(&mut context.volcano_queues, name, value);
                }
                ("kai.scheduler", "Topology") => context.kai_topologies.insert(name, value),
                ("topology.volcano.sh", "HyperNode") => context.add_tier(value),
                _ => {}
            }
        }
        context
    }

    fn add_tier(&mut self, hyper_node: &Value) {
        let tier = hyper_node.pointer("/spec/tier").and_then(Value::as_i64);
        let Some((tier, name)) = tier.zip(text_at(hyper_node, "spec", "tierName")) else {
            return;
        };
        let entry = self.tiers.entry(tier);
        let known = entry.or_insert_with(|| Some(name.to_owned()));
        if known.as_deref() != Some(name) {
            *known = None;
        }
    }

    /// Returns the name of one of Volcano's tiers. None: the HyperNodes give it no single name.
    pub(crate) fn tier_name(&self, tier: i64) -> Option<&str> {
        self.tiers.get(&tier)?.as_deref()
    }

    /// Returns the number of the only tier of Volcano with this name.
    pub(crate) fn tier_number(&self, name: &str) -> Option<i64> {
        let tiers = self.tiers.iter();
        let mut numbers = tiers.filter(|(_, known)| known.as_deref() == Some(name));
        let (number, _) = numbers.next()?;
        numbers.next().is_none().then_some(*number)
    }

    /// Returns the ClusterQueue of a LocalQueue.
    pub(crate) fn cluster_queue(&self, namespace: &str, local: &str) -> Option<&str> {
        let key = (namespace.to_owned(), local.to_owned());
        self.cluster_queues.get(&key).map(String::as_str)
    }

    /// Returns the namespaces that have a LocalQueue of this ClusterQueue. `name`: only LocalQueues
    /// with this name.
    pub(crate) fn namespaces(&self, cluster_queue: &str, name: Option<&str>) -> Vec<String> {
        let local_queues = self.cluster_queues.iter().filter(|((_, local), queue)| {
            *queue == cluster_queue && name.is_none_or(|name| name == local)
        });
        let namespaces: BTreeSet<_> = local_queues
            .map(|((namespace, _), _)| namespace.clone())
            .collect();
        namespaces.into_iter().collect()
    }

    /// Returns true if a document is a WorkloadPriorityClass of this name.
    pub(crate) fn has_priority_class(&self, name: &str) -> bool {
        self.priority_classes.contains(name)
    }

    /// Returns true if a cohort has this name.
    pub(crate) fn is_cohort(&self, name: &str) -> bool {
        self.cohorts.contains(name)
    }
}

fn text_at<'a>(value: &'a Value, part: &str, key: &str) -> Option<&'a str> {
    let word = value.get(part)?.get(key)?.as_str()?;
    Some(word).filter(|word| !word.is_empty())
}
