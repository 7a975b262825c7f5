//! The table of all metrics, with their names, help texts and labels.
//!
//! Names follow the conventions of Prometheus: base units, and `_total` for counters. No label has
//! a value that users choose, except for the names of queues, which are cluster-wide objects.

use std::fmt::Write as _;

/// Prometheus type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Rises from the start of the process.
    Counter,
    /// Shows a current value.
    Gauge,
    /// Shows how often something took how long.
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
    /// Name under which Prometheus scrapes it.
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
    LEADER: Gauge "leader" [] "1: this process leads; 0: it stands by";
    LEADER_EPOCH: Gauge "leader_epoch" [] "Term of this leader, which rises with each change; 0: it does not lead";
    CACHES_SYNCED: Gauge "caches_synced" [] "1: all that is watched has been listed since this process leads";
    WATCH_AGE: Gauge "watch_age_seconds" ["resource"] "Time since the watch of that resource last showed that it lives, of one that stands by too if it has the webhook; from 180 s on nothing new is decided";

    CERTIFICATE_EXPIRY: Gauge "endpoint_certificate_expiry_timestamp_seconds" [] "When the certificate of the endpoint ends, in seconds since 1970; 0: there is none";
    CERTIFICATE_DEGRADED: Gauge "endpoint_certificate_degraded" [] "1: that certificate cannot be renewed, or the API server not be told of it";

    RECONCILES: Counter "reconciles" ["result"] "Looks at a TrainingJob that have ended: done, behind (something had changed meanwhile: tried again) or failed";
    RECONCILE_SECONDS: Histogram "reconcile_duration_seconds" [] "Time that a look at a TrainingJob took, its writes included";
    RECONCILES_DUE: Gauge "reconciles_due" [] "TrainingJobs that are due to be looked at";
    RECONCILE_OLDEST: Gauge "reconcile_oldest_seconds" [] "How long the longest look that is under way has taken";

    CYCLE_SECONDS: Histogram "scheduling_cycle_duration_seconds" [] "Time in which the scheduler decided about all that was due";
    DECISIONS: Counter "scheduling_decisions" ["decision"] "What the scheduler has decided of gangs: Place, Wait, Preempt, Drain or Reserve";
    PUT_OFF: Counter "gangs_put_off" ["reason"] "Gangs that had found a place and could not take it, before any pod was created";
    UNDONE: Counter "gangs_undone" ["reason"] "Plans that failed and were undone, with what pods they had";
    WAIT_SECONDS: Histogram "queue_wait_duration_seconds" ["queue"] "From when an attempt was queued to when all of its pods were created, or bound; the exemplar names the job";
    START_SECONDS: Histogram "gang_start_duration_seconds" [] "From when all pods of a gang were created to when all run; the exemplar names the job";

    ATTEMPTS_ENDED: Counter "attempts_ended" ["reason"] "Attempts that others followed, by why";
    JOBS_ENDED: Counter "jobs_ended" ["phase", "reason"] "TrainingJobs that have ended for good";

    WRITES: Counter "writes" ["outcome"] "Writes to the API server, without dry runs: ok, or what came of them";
    WRITE_SECONDS: Histogram "write_duration_seconds" [] "Time that a write took from when it was sent";
    WRITES_IN_FLIGHT: Gauge "writes_in_flight" [] "Writes that are under way";
    WRITES_LIMIT: Gauge "writes_in_flight_limit" [] "Writes that may be under way at once, as the API server bears them";

    JOBS: Gauge "jobs" ["queue", "phase"] "TrainingJobs; the queue is empty where none is known";
    WAITING: Gauge "jobs_waiting" ["queue", "reason"] "TrainingJobs that wait for a place, by why";
    HELD_OLDEST: Gauge "jobs_held_oldest_seconds" ["phase"] "How long the TrainingJob has been Waiting (for something that it names) or Blocked that has been so longest; 0: none is";
    OLDEST_WAIT: Gauge "queue_oldest_wait_seconds" ["queue"] "How long the one has waited for a place that has waited longest";
    QUEUE_NOMINAL: Gauge "queue_nominal" ["queue", "flavor", "resource"] "Quota of the queue's own, in base units (cores, bytes, devices)";
    QUEUE_USED: Gauge "queue_used" ["queue", "flavor", "resource"] "What is held of it, in base units";
    QUEUE_BORROWED: Gauge "queue_borrowed" ["queue", "flavor", "resource"] "How much of that is more than its own, in base units";
    QUEUE_SHARE: Gauge "queue_share" ["queue"] "What the queue has had of late for its weight: the smallest has the next turn";

    DEVICES: Gauge "devices" ["resource", "state"] "Devices of nodes that take pods: allocatable, and of those held (by gangs), others (by other pods) and free";
    NODES: Gauge "nodes" ["state"] "Nodes: ready, unschedulable, unhealthy or lost (not ready for long, or deleted with pods of jobs still there)";
    ADMISSION_POLICY: Gauge "admission_policy_in_force" ["policy"] "1: the admission policy of that name and its binding are as this version ships them; 0: one is missing or differs, and what rests on it is not believed";
    CHANGED_PODS: Gauge "changed_pods" [] "Pods that Trellis has placed and whose images, tolerations or resources were changed after policies had judged them, as far as this process has seen it";
    LEDGER_WRONG: Gauge "ledger_wrong_limits" [] "Limits of QuotaPolicies of which the ledger says something else than a recount, for some seconds at least";

    WEBHOOK_REQUESTS: Counter "webhook_requests" ["kind", "decision"] "Reviews that were answered, by the kind of the object (Other: none that is looked at, or not known in time) and what was decided: Allowed, Refused, Passed (nothing to look at) or Undecided";
    WEBHOOK_UNANSWERED: Counter "webhook_unanswered" ["code"] "Requests that were no review, too large or too slow, by HTTP status";
    WEBHOOK_SECONDS: Histogram "webhook_duration_seconds" [] "Time from the end of a request's head to its answer";
    WEBHOOK_IN_FLIGHT: Gauge "webhook_in_flight" [] "Reviews that are being answered";
    WEBHOOK_CERTIFICATE_EXPIRY: Gauge "webhook_certificate_expiry_timestamp_seconds" [] "When the certificate of the webhook ends, in seconds since 1970; 0: there is none";
    WEBHOOK_CERTIFICATE_DEGRADED: Gauge "webhook_certificate_degraded" [] "1: that certificate cannot be renewed, or the API server not be told of it; the log says why";
}

/// Text before the table.
const HEAD: &str = "\
# Metrics

Counts are those of the process since it began, and only of the one that leads; how things stand \
is looked up when somebody asks. No label bears a word that a user makes up but the names of \
queues: there are as many series as queues, flavors and resources make, however many jobs come \
and go. The exemplar of a duration names the job.

`/metrics` of the [endpoint](endpoint.md) serves these, but for those of `trellis_webhook_`: the \
[admission webhook](webhook.md) serves them on its own port, also where the process stands by.

";

/// The documentation: `docs/metrics.md`.
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
