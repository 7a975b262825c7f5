//! The flags of Cluster Autoscaler (`cluster-autoscaler/config/flags` in kubernetes/autoscaler), and
//! the rules for them.

use std::time::Duration;

use k8s_openapi::api::core::v1::PodSpec;
use trellis_api::resource_flavor::{FlavorProvisioning, ProvisioningMethod};
use trellis_api::{ResourceFlavorSpec, names};
use trellis_scheduler::Taint;

use super::new_nodes::TaintsOfNewNodes;

/// Shortest safe time until an empty node is removed. Between the end of an order and the first
/// pods of its gang, the nodes look empty.
const SHORTEST_REMOVAL: Duration = Duration::from_secs(30);
/// Default of `--scale-down-unneeded-time` and `--scale-down-delay-after-add`.
const DEFAULT_REMOVAL: &str = "10m";

/// Cluster Autoscaler, as far as it is visible in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClusterAutoscaler {
    /// It has no Lease.
    #[default]
    Absent,
    /// It has a Lease, and no pod has the name of its holder.
    Hidden,
    /// It runs with these flags.
    Visible(ClusterAutoscalerFlags),
}

/// The command line of Cluster Autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterAutoscalerFlags(Vec<String>);

impl ClusterAutoscalerFlags {
    /// Reads the command line of the pod.
    #[must_use]
    pub fn read(pod: &PodSpec) -> Self {
        let words = pod.containers.iter().flat_map(|container| {
            let command = container.command.iter().flatten();
            command.chain(container.args.iter().flatten()).cloned()
        });
        Self(words.collect())
    }

    /// Returns the values of a flag, in order: `--flag=value` or `--flag value`.
    fn values(&self, flag: &str) -> impl Iterator<Item = &str> {
        let next = self.0.iter().skip(1).map(Some).chain([None]);
        self.0.iter().zip(next).filter_map(move |(word, next)| {
            let word = word.trim_start_matches('-').strip_prefix(flag)?;
            match word.strip_prefix('=') {
                Some(value) => Some(value),
                None if !word.is_empty() => None,
                None => Some(next.filter(|n| !n.starts_with('-')).map_or("true", |n| n)),
            }
        })
    }

    fn value(&self, flag: &str) -> Option<&str> {
        self.values(flag).last()
    }

    /// Returns one sentence for each broken rule.
    pub(super) fn find_problems(
        &self,
        flavor: &ResourceFlavorSpec,
        provisioning: &FlavorProvisioning,
        new_nodes: &TaintsOfNewNodes,
    ) -> Vec<String> {
        let method = match provisioning.by {
            ProvisioningMethod::Placeholders => [self.check_schedulers(), self.check_priority()],
            ProvisioningMethod::ProvisioningRequest => [self.check_requests(), None],
        };
        let own = method.into_iter().chain([self.check_removal()]);
        let unlisted = new_nodes.unlisted(flavor, provisioning, |taint| self.is_listed(taint));
        own.flatten()
            .map(|problem| format!("Cluster Autoscaler {problem}"))
            .chain(unlisted.map(|(taint, node)| {
                format!(
                    "Cluster Autoscaler does not know the taint \"{taint}\" of new node {node:?}: \
                     while the taint exists, Cluster Autoscaler buys another node; add \
                     --startup-taint={}",
                    taint.key
                )
            }))
            .collect()
    }

    fn check_schedulers(&self) -> Option<String> {
        let mut allowed = self.values("allowed-scheduler-names").peekable();
        allowed.peek()?;
        let placeholders = names::PLACEHOLDER_SCHEDULER;
        let mut allowed = allowed.flat_map(|names| names.split(','));
        (!allowed.any(|name| name == placeholders)).then(|| {
            format!("ignores placeholders: add {placeholders} to --allowed-scheduler-names")
        })
    }

    fn check_priority(&self) -> Option<String> {
        let cutoff: i64 = self
            .value("expendable-pods-priority-cutoff")?
            .parse()
            .ok()?;
        (cutoff > 0).then(|| {
            format!(
                "has --expendable-pods-priority-cutoff={cutoff}: it ignores placeholders, whose \
                 priority is 0; set it to 0 or less"
            )
        })
    }

    fn check_requests(&self) -> Option<String> {
        let is_on = self.value("enable-provisioning-requests") == Some("true");
        (!is_on).then(|| {
            "reads no ProvisioningRequests: start it with --enable-provisioning-requests".to_owned()
        })
    }

    /// A node is removed when both times are over.
    fn check_removal(&self) -> Option<String> {
        let flags = ["scale-down-unneeded-time", "scale-down-delay-after-add"];
        let times = flags.map(|flag| self.value(flag).unwrap_or(DEFAULT_REMOVAL));
        let is_short = |time: &str| {
            let time: Result<kube::core::Duration, _> = time.parse();
            time.is_ok_and(|time| time < SHORTEST_REMOVAL)
        };
        times.iter().all(|time| is_short(time)).then(|| {
            format!(
                "has --{}={} and --{}={}: it may remove new nodes just before the gang starts; set \
                 one of them to 1m or more",
                flags[0], times[0], flags[1], times[1]
            )
        })
    }

    fn is_listed(&self, taint: &Taint) -> bool {
        let flags = ["startup-taint", "status-taint", "ignore-taint"];
        let mut keys = flags.iter().flat_map(|flag| self.values(flag));
        keys.any(|key| key == taint.key)
    }
}
