//! The table of all metrics, with their names, help texts and labels.
//!
//! Names follow the conventions of Prometheus: base units, and `_total` for counters. No label has
//! a value that users choose, except for the names of queues and topologies, which are cluster-wide
//! objects.

use std::fmt::Write as _;

/// Prometheus type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Rises from the start of the process.
    Counter,
    /// Shows a current value.
    Gauge,
    /// Shows a distribution of durations.
    Histogram,
}

impl MetricKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct MetricSpec {
    /// Name without `trellis_` and `_total`.
    pub name: &'static str,
    /// Prometheus type.
    pub kind: MetricKind,
    /// Names of the labels.
    pub labels: &'static [&'static str],
    /// Help text, in one sentence.
    pub help: &'static str,
}

impl MetricSpec {
    /// Returns the name under which Prometheus scrapes it.
    fn full_name(&self) -> String {
        let total = match self.kind {
            MetricKind::Counter => "_total",
            MetricKind::Gauge | MetricKind::Histogram => "",
        };
        format!("trellis_{}{total}", self.name)
    }
}

macro_rules! facts {
    ($($id:ident: $kind:ident $name:literal [$($label:literal),*] $help:literal;)+) => {
        $(#[doc = $help]
        pub const $id: MetricSpec = MetricSpec {
            name: $name,
            kind: MetricKind::$kind,
            labels: &[$($label),*],
            help: $help,
        };)+
        /// All metrics.
        const ALL: &[MetricSpec] = &[$($id),+];
    };
}

facts! {
    BUILD_INFO: Gauge "build_info" ["version"] "1, with the version of this process";
    LEADER: Gauge "leader" [] "1: this process leads; 0: it is on standby";
    LEADER_EPOCH: Gauge "leader_epoch" [] "Epoch of this leader, which rises with each change of leader; 0: this process does not lead";
    CACHES_SYNCED: Gauge "caches_synced" [] "1: this leader has listed all watched objects";
    WATCH_AGE: Gauge "watch_age_seconds" ["resource"] "Seconds since the watch of that resource last showed a sign of life, on standby replicas with a webhook too; from 180 s on the operator decides nothing new";

    CERTIFICATE_EXPIRY: Gauge "endpoint_certificate_expiry_timestamp_seconds" [] "End of the endpoint's certificate, in seconds since 1970; 0: no certificate";
    CERTIFICATE_DEGRADED: Gauge "endpoint_certificate_degraded" [] "1: the endpoint's certificate cannot be renewed, or its CA cannot be published to the API server";

    RECONCILES: Counter "reconciles" ["result"] "Finished reconciliations of TrainingJobs: done, behind (an object changed meanwhile, retried) or failed";
    RECONCILE_SECONDS: Histogram "reconcile_duration_seconds" [] "Duration of a reconciliation of a TrainingJob, with its writes";
    RECONCILES_DUE: Gauge "reconciles_due" [] "TrainingJobs that wait for a reconciliation";
    RECONCILE_OLDEST: Gauge "reconcile_oldest_seconds" [] "Duration of the longest reconciliation in progress";

    CYCLE_SECONDS: Histogram "scheduling_cycle_duration_seconds" [] "Duration of a scheduling cycle";
    DECISIONS: Counter "scheduling_decisions" ["decision"] "Decisions of the scheduler: Place, Wait, Preempt, Drain, Reserve, Provision or EndProvisioning";
    PUT_OFF: Counter "gangs_put_off" ["reason"] "Gangs that had a place and could not take it, before any pod was created";
    UNDONE: Counter "gangs_undone" ["reason"] "Plans that failed and were rolled back";
    WAIT_SECONDS: Histogram "queue_wait_duration_seconds" ["queue"] "Time from when an attempt is queued to when all its pods are created or bound; the exemplar names the job";
    START_SECONDS: Histogram "gang_start_duration_seconds" [] "Time from when all pods of a gang are created to when all run; the exemplar names the job";

    NODE_ORDERS: Counter "node_orders" ["flavor", "outcome"] "Ended orders of new nodes: used (the gang started), late (the nodes did not come in time) or withdrawn";
    NODE_ORDER_FAILURES: Gauge "node_order_failures" ["flavor"] "Late orders of the flavor since its last used order";
    NODE_ORDER_SECONDS: Histogram "node_order_duration_seconds" [] "Time from an order of new nodes to the start of its gang";
    NODES_ON_ORDER: Gauge "nodes_on_order" ["state"] "New nodes on order: missing, or arrived (they wait for the other nodes of their gang)";
    IDLE_NODE_SECONDS: Counter "ordered_node_idle_seconds" [] "Node-seconds in which new nodes waited for the other nodes of their gang";

    ATTEMPTS_ENDED: Counter "attempts_ended" ["reason"] "Attempts that ended and were followed by another, by reason";
    JOBS_ENDED: Counter "jobs_ended" ["phase", "reason"] "TrainingJobs that ended";

    WRITES: Counter "writes" ["outcome"] "Writes to the API server without dry runs, by outcome: ok or the failure";
    WRITE_SECONDS: Histogram "write_duration_seconds" [] "Duration of a write from its sending";
    WRITES_IN_FLIGHT: Gauge "writes_in_flight" [] "Writes in flight";
    WRITES_LIMIT: Gauge "writes_in_flight_limit" [] "Limit of writes in flight, adapted to the API server";

    JOBS: Gauge "jobs" ["queue", "phase"] "TrainingJobs; the queue is empty if none is known";
    WAITING: Gauge "jobs_waiting" ["queue", "reason"] "TrainingJobs that wait for a place, by reason";
    FRAGMENTATION_WAIT: Counter "fragmentation_wait_seconds" ["queue"] "Job-seconds in which TrainingJobs waited although enough capacity was free, but fragmented (reasons Fragmented and TopologyFragmented), added up at each scrape (at most 2 minutes between two scrapes count)";
    HELD_OLDEST: Gauge "jobs_held_oldest_seconds" ["phase"] "Age of the oldest TrainingJob that is Waiting (for an object that it names) or Blocked; 0: none";
    OLDEST_WAIT: Gauge "queue_oldest_wait_seconds" ["queue"] "Age of the oldest pending job of the queue";
    QUEUE_NOMINAL: Gauge "queue_nominal" ["queue", "flavor", "resource"] "Nominal quota of the queue, in base units (cores, bytes, devices)";
    QUEUE_USED: Gauge "queue_used" ["queue", "flavor", "resource"] "Used quota of the queue, in base units";
    QUEUE_BORROWED: Gauge "queue_borrowed" ["queue", "flavor", "resource"] "Borrowed quota of the queue, in base units";
    QUEUE_SHARE: Gauge "queue_share" ["queue"] "Decayed usage of the queue divided by its weight: the smallest has the next turn";

    DEVICES: Gauge "devices" ["resource", "state"] "Devices of nodes that accept pods: allocatable, held (by gangs), others (by other pods) and free";
    NODES: Gauge "nodes" ["state"] "Nodes: ready, unschedulable, unhealthy or lost (not ready for long, or deleted while pods of jobs remain)";
    DOMAINS: Gauge "domains" ["topology", "level", "state"] "Domains of a topology that have devices: free (all nodes with devices accept pods, run no gang, and have all devices free) or used";
    ADMISSION_POLICY: Gauge "admission_policy_in_force" ["policy"] "1: the admission policy of that name and its binding match this version; 0: one is missing or differs, and the operator does not trust the fields that the policy protects";
    AUTOSCALER_SUITABLE: Gauge "autoscaler_suitable" ["flavor"] "1: the settings of the flavor's autoscaler suit gangs; 0: they do not (condition AutoscalerSuitable); no sample: they are unknown or not checked yet, or the flavor gets no new nodes";
    CHANGED_PODS: Gauge "changed_pods" [] "Placed pods whose images, tolerations or resources were changed after policies had judged them, as observed by this process";
    LEDGER_WRONG: Gauge "ledger_wrong_limits" [] "Limits of QuotaPolicies whose ledger has differed from a recount for some seconds";

    WEBHOOK_REQUESTS: Counter "webhook_requests" ["kind", "decision"] "Answered reviews, by kind of the object (Other: not checked, or not known in time) and decision: Allowed, Refused, Passed (nothing to check), Undecided or Stamped (requester annotation corrected)";
    WEBHOOK_UNANSWERED: Counter "webhook_unanswered" ["code"] "Requests that were no review, too large or too slow, by HTTP status";
    WEBHOOK_SECONDS: Histogram "webhook_duration_seconds" [] "Time from the end of a request's head to its answer";
    WEBHOOK_IN_FLIGHT: Gauge "webhook_in_flight" [] "Reviews in progress";
    WEBHOOK_CERTIFICATE_EXPIRY: Gauge "webhook_certificate_expiry_timestamp_seconds" [] "End of the webhook's certificate, in seconds since 1970; 0: no certificate";
    WEBHOOK_CERTIFICATE_DEGRADED: Gauge "webhook_certificate_degraded" [] "1: the webhook's certificate cannot be renewed, or its CA cannot be published to the API server; the log has the reason";
}

/// Text before the table.
const HEAD: &str = "\
# Metrics

This page lists the metrics of Trellis. \
`/metrics` of the [endpoint](endpoint.md) serves them. `/metrics` of the \
[admission webhook](webhook.md) serves those of `trellis_webhook_`, on standby replicas too.

- Counters start at zero with the process, and count on the leader only.
- Gauges are computed at each scrape.
- Labels have no values of users except the names of queues, topologies and levels, so the number \
of series depends on queues, flavors, topologies and resources, not on jobs.

";

/// Returns the documentation: `docs/metrics.md`.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from(HEAD);
    text.push_str("| metric | type | labels | what it says |\n|---|---|---|---|\n");
    for fact in ALL {
        let labels = fact.labels.iter().map(|label| format!("`{label}`"));
        let labels = labels.collect::<Vec<_>>().join(", ");
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "| `{}` | {} | {labels} | {} |",
            fact.full_name(),
            fact.kind.as_str(),
            fact.help
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn metric_names_are_unique_and_follow_the_conventions() {
        let mut names = BTreeSet::new();
        for fact in ALL {
            assert!(names.insert(fact.name), "{} stands twice", fact.name);
            let fits = fact
                .name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c == '_');
            assert!(fits && !fact.name.ends_with("_total"), "{}", fact.name);
            assert!(
                !fact.help.ends_with('.') && !fact.help.contains('|'),
                "{}",
                fact.help
            );
            let seconds = fact.kind == MetricKind::Histogram;
            assert!(!seconds || fact.name.ends_with("_seconds"), "{}", fact.name);
        }
    }
}
