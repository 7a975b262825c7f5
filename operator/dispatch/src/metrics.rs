//! Metrics that the operator counts at each event, since the start of the process.

mod wait_integral;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};
use tokio::time::Instant;
use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_gang::key::Key;

use wait_integral::WaitIntegral;

use super::metric_catalog::{self, MetricSpec};
use crate::commands::WriteError;

/// Names and values.
pub type MetricLabels = Vec<(&'static str, String)>;

type ExemplarHistogram = HistogramWithExemplars<MetricLabels>;

/// Longest text of an exemplar (OpenMetrics: 128 characters with its name).
const MAX_EXEMPLAR_LENGTH: usize = 120;

/// Counters and histograms of the operator.
#[derive(Clone, Debug)]
pub struct OperatorMetrics {
    reconciles: Family<MetricLabels, Counter>,
    reconcile: Histogram,
    cycle: Histogram,
    decisions: Family<MetricLabels, Counter>,
    put_off: Family<MetricLabels, Counter>,
    rolled_back: Family<MetricLabels, Counter>,
    wait: Family<MetricLabels, ExemplarHistogram, fn() -> ExemplarHistogram>,
    start: ExemplarHistogram,
    node_orders: Family<MetricLabels, Counter>,
    node_order_failures: Family<MetricLabels, Gauge>,
    node_order: Histogram,
    idle_nodes: Counter<f64, AtomicU64>,
    nodes_on_order: Family<MetricLabels, Gauge>,
    fragmentation: Family<MetricLabels, Counter<f64, AtomicU64>>,
    fragmented_jobs: Arc<Mutex<WaitIntegral>>,
    attempts: Family<MetricLabels, Counter>,
    jobs: Family<MetricLabels, Counter>,
    writes: Family<MetricLabels, Counter>,
    write: Histogram,
}

/// Returns a histogram from half a millisecond to a minute.
fn work_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.000_5, 2.0, 18))
}

/// Returns a histogram from a hundredth of a second to some hours.
fn start_histogram() -> ExemplarHistogram {
    ExemplarHistogram::new(exponential_buckets(0.01, 2.0, 21))
}

/// Returns a histogram from a hundredth of a second to some weeks.
fn wait_histogram() -> ExemplarHistogram {
    ExemplarHistogram::new(exponential_buckets(0.01, 4.0, 15))
}

impl Default for OperatorMetrics {
    fn default() -> Self {
        Self {
            reconciles: Family::default(),
            reconcile: work_histogram(),
            // From ten microseconds to some seconds.
            cycle: Histogram::new(exponential_buckets(0.000_01, 2.0, 20)),
            decisions: Family::default(),
            put_off: Family::default(),
            rolled_back: Family::default(),
            wait: Family::new_with_constructor(wait_histogram),
            start: start_histogram(),
            node_orders: Family::default(),
            node_order_failures: Family::default(),
            // From ten seconds to some hours.
            node_order: Histogram::new(exponential_buckets(10.0, 2.0, 12)),
            idle_nodes: Counter::default(),
            nodes_on_order: Family::default(),
            fragmentation: Family::default(),
            fragmented_jobs: Arc::default(),
            attempts: Family::default(),
            jobs: Family::default(),
            writes: Family::default(),
            write: work_histogram(),
        }
    }
}

/// Result of a reconciliation of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileResult {
    /// There is nothing more to do.
    Done,
    /// The job changed during the reconciliation.
    Behind,
    /// The reconciliation failed.
    Failed,
}

/// How an order of new nodes ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NodeOrderEnd {
    /// Its gang starts.
    Used,
    /// The nodes did not come in time.
    Late,
    /// Its gang no longer wants the nodes, or its queue no longer lets it have them.
    Withdrawn,
}

impl NodeOrderEnd {
    fn label(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::Late => "late",
            Self::Withdrawn => "withdrawn",
        }
    }
}

impl OperatorMetrics {
    /// Counts a reconciliation of a job.
    pub fn count_reconcile(&self, how: ReconcileResult, took: Duration) {
        let result = match how {
            ReconcileResult::Done => "done",
            ReconcileResult::Behind => "behind",
            ReconcileResult::Failed => "failed",
        };
        increment(&self.reconciles, vec![("result", result.to_owned())]);
        self.reconcile.observe(took.as_secs_f64());
    }

    /// Counts a scheduling cycle.
    pub fn observe_cycle(&self, took: Duration) {
        self.cycle.observe(took.as_secs_f64());
    }

    /// Counts a decision of the engine.
    pub fn count_decision(&self, decision: &'static str) {
        increment(&self.decisions, vec![("decision", decision.to_owned())]);
    }

    /// Counts a gang whose pods have all been created, and its waiting time.
    pub fn count_placement(&self, job: &Key, queue: &str, waited: Duration) {
        let labels = vec![("queue", queue.to_owned())];
        let wait = self.wait.get_or_create(&labels);
        wait.observe(waited.as_secs_f64(), Some(exemplar_labels(job)), None);
    }

    /// Counts a gang that could not take the place that was found for it.
    pub fn count_put_off(&self, reason: Reason) {
        increment(&self.put_off, reason_labels(reason));
    }

    /// Counts a plan that is rolled back.
    pub fn count_rollback(&self, reason: Reason) {
        increment(&self.rolled_back, reason_labels(reason));
    }

    /// Counts a gang whose pods all run, and the time since their creation.
    pub fn observe_start(&self, job: &Key, took: Duration) {
        self.start
            .observe(took.as_secs_f64(), Some(exemplar_labels(job)), None);
    }

    /// Exports the metrics of a flavor before its first order ends, because Prometheus sees no increase
    /// in a new counter.
    pub fn export_node_orders(&self, flavor: &str) {
        self.node_order_failures
            .get_or_create_owned(&flavor_label(flavor));
        for end in [
            NodeOrderEnd::Used,
            NodeOrderEnd::Late,
            NodeOrderEnd::Withdrawn,
        ] {
            self.node_orders
                .get_or_create_owned(&node_order_labels(flavor, end));
        }
    }

    /// Counts an order of new nodes that has ended, for one of its flavors.
    pub fn count_node_order(&self, flavor: &str, end: NodeOrderEnd) {
        increment(&self.node_orders, node_order_labels(flavor, end));
        let failures = self
            .node_order_failures
            .get_or_create_owned(&flavor_label(flavor));
        match end {
            NodeOrderEnd::Used => failures.set(0),
            NodeOrderEnd::Late => failures.inc(),
            NodeOrderEnd::Withdrawn => 0,
        };
    }

    /// Counts the time from an order of new nodes to the start of its gang.
    pub fn observe_node_order(&self, took: Duration) {
        self.node_order.observe(took.as_secs_f64());
    }

    /// Records the new nodes on order. `elapsed` is the time since the last call.
    pub fn record_nodes_on_order(&self, arrived: u32, missing: u32, elapsed: Duration) {
        for (state, nodes) in [("arrived", arrived), ("missing", missing)] {
            let labels = vec![("state", state.to_owned())];
            let gauge = self.nodes_on_order.get_or_create_owned(&labels);
            gauge.set(i64::from(nodes));
        }
        self.idle_nodes
            .inc_by(f64::from(arrived) * elapsed.as_secs_f64());
    }

    /// Records the number of jobs that wait now because the free capacity is fragmented, by queue.
    pub fn record_fragmented_jobs(&self, jobs: BTreeMap<String, usize>) {
        let counter = |queue: &str| {
            let labels = vec![("queue", queue.to_owned())];
            self.fragmentation.get_or_create_owned(&labels)
        };
        // Prometheus misses the first increase of a new counter, so each counter starts at 0.
        for queue in jobs.keys() {
            counter(queue);
        }
        let waited = self.fragmented_jobs.lock().advance(Instant::now(), jobs);
        for (queue, seconds) in waited {
            counter(&queue).inc_by(seconds);
        }
    }

    /// Counts an attempt that has ended, with another attempt to follow.
    pub fn count_ended_attempt(&self, reason: &str) {
        // Another version of Trellis may have written the reason, so an unknown one becomes a fixed
        // label.
        let known = Reason::ALL.iter().find(|known| known.as_str() == reason);
        let reason = known.copied().unwrap_or(Reason::Unrecognized);
        increment(&self.attempts, reason_labels(reason));
    }

    /// Counts a job that has ended for good.
    pub fn count_ended_job(&self, phase: JobPhase, reason: Reason) {
        let mut labels = reason_labels(reason);
        labels.insert(0, ("phase", phase.as_str().to_owned()));
        increment(&self.jobs, labels);
    }

    /// Counts a write that has ended.
    pub fn count_write(&self, outcome: Result<(), &WriteError>, took: Duration) {
        let outcome = outcome.err().map_or("ok", WriteError::label);
        increment(&self.writes, vec![("outcome", outcome.to_owned())]);
        self.write.observe(took.as_secs_f64());
    }

    /// Registers all metrics.
    pub fn register(&self, registry: &mut Registry) {
        register_metric(
            registry,
            metric_catalog::RECONCILES,
            self.reconciles.clone(),
        );
        register_metric(
            registry,
            metric_catalog::RECONCILE_SECONDS,
            self.reconcile.clone(),
        );
        register_metric(registry, metric_catalog::CYCLE_SECONDS, self.cycle.clone());
        register_metric(registry, metric_catalog::DECISIONS, self.decisions.clone());
        register_metric(registry, metric_catalog::PUT_OFF, self.put_off.clone());
        register_metric(registry, metric_catalog::UNDONE, self.rolled_back.clone());
        register_metric(registry, metric_catalog::WAIT_SECONDS, self.wait.clone());
        register_metric(registry, metric_catalog::START_SECONDS, self.start.clone());
        register_metric(
            registry,
            metric_catalog::NODE_ORDERS,
            self.node_orders.clone(),
        );
        register_metric(
            registry,
            metric_catalog::NODE_ORDER_FAILURES,
            self.node_order_failures.clone(),
        );
        register_metric(
            registry,
            metric_catalog::NODE_ORDER_SECONDS,
            self.node_order.clone(),
        );
        register_metric(
            registry,
            metric_catalog::NODES_ON_ORDER,
            self.nodes_on_order.clone(),
        );
        register_metric(
            registry,
            metric_catalog::IDLE_NODE_SECONDS,
            self.idle_nodes.clone(),
        );
        register_metric(
            registry,
            metric_catalog::FRAGMENTATION_WAIT,
            self.fragmentation.clone(),
        );
        register_metric(
            registry,
            metric_catalog::ATTEMPTS_ENDED,
            self.attempts.clone(),
        );
        register_metric(registry, metric_catalog::JOBS_ENDED, self.jobs.clone());
        register_metric(registry, metric_catalog::WRITES, self.writes.clone());
        register_metric(registry, metric_catalog::WRITE_SECONDS, self.write.clone());
    }
}

/// Registers a metric with the name and the help text of its catalog entry.
pub fn register_metric(registry: &mut Registry, fact: MetricSpec, metric: impl Metric) {
    registry.register(fact.name, fact.help, metric);
}

fn increment(family: &Family<MetricLabels, Counter>, labels: MetricLabels) {
    family.get_or_create_owned(&labels).inc();
}

fn flavor_label(flavor: &str) -> MetricLabels {
    vec![("flavor", flavor.to_owned())]
}

fn node_order_labels(flavor: &str, end: NodeOrderEnd) -> MetricLabels {
    vec![
        ("flavor", flavor.to_owned()),
        ("outcome", end.label().to_owned()),
    ]
}

fn reason_labels(reason: Reason) -> MetricLabels {
    vec![("reason", reason.as_str().to_owned())]
}

fn exemplar_labels(job: &Key) -> MetricLabels {
    let job = job.to_string().chars().take(MAX_EXEMPLAR_LENGTH).collect();
    vec![("job", job)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_are_counted_from_scrape_to_scrape() {
        let metrics = OperatorMetrics::default();
        metrics.record_fragmented_jobs([("vision".to_owned(), 2)].into());
        tokio::time::advance(Duration::from_secs(10)).await;
        metrics.record_fragmented_jobs(BTreeMap::new());
        tokio::time::advance(Duration::from_secs(10)).await;
        metrics.record_fragmented_jobs(BTreeMap::new());
        let labels = vec![("queue", "vision".to_owned())];
        assert_eq!(
            metrics.fragmentation.get_or_create_owned(&labels).get(),
            20.0
        );
    }
}
