//! Metrics that are counted where events happen, since the process began.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};
use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_gang::key::Key;

use super::facts::{self, Fact};
use crate::commands::WriteError;

/// Names and values.
pub type Labels = Vec<(&'static str, String)>;

type Named = HistogramWithExemplars<Labels>;

/// Longest text of an exemplar (OpenMetrics: 128 characters with its name).
const EXEMPLAR: usize = 120;

/// Counters and histograms of the operator.
#[derive(Clone, Debug)]
pub struct Counts {
    reconciles: Family<Labels, Counter>,
    reconcile: Histogram,
    cycle: Histogram,
    decisions: Family<Labels, Counter>,
    put_off: Family<Labels, Counter>,
    undone: Family<Labels, Counter>,
    wait: Family<Labels, Named, fn() -> Named>,
    start: Named,
    attempts: Family<Labels, Counter>,
    jobs: Family<Labels, Counter>,
    writes: Family<Labels, Counter>,
    write: Histogram,
}

/// From half a millisecond to a minute.
fn work() -> Histogram {
    Histogram::new(exponential_buckets(0.000_5, 2.0, 18))
}

/// From a hundredth of a second to some hours.
fn start() -> Named {
    Named::new(exponential_buckets(0.01, 2.0, 21))
}

/// From a hundredth of a second to some weeks.
fn wait() -> Named {
    Named::new(exponential_buckets(0.01, 4.0, 15))
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            reconciles: Family::default(),
            reconcile: work(),
            // From ten microseconds to some seconds.
            cycle: Histogram::new(exponential_buckets(0.000_01, 2.0, 20)),
            decisions: Family::default(),
            put_off: Family::default(),
            undone: Family::default(),
            wait: Family::new_with_constructor(wait),
            start: start(),
            attempts: Family::default(),
            jobs: Family::default(),
            writes: Family::default(),
            write: work(),
        }
    }
}

/// Result of a reconciliation of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// Nothing more is to do.
    Done,
    /// The job had changed meanwhile.
    Behind,
    /// The reconciliation failed.
    Failed,
}

impl Counts {
    /// Counts a reconciliation of a job.
    pub fn reconciled(&self, how: Looked, took: Duration) {
        let result = match how {
            Looked::Done => "done",
            Looked::Behind => "behind",
            Looked::Failed => "failed",
        };
        one(&self.reconciles, vec![("result", result.to_owned())]);
        self.reconcile.observe(took.as_secs_f64());
    }

    /// Counts a scheduling cycle.
    pub fn cycled(&self, took: Duration) {
        self.cycle.observe(took.as_secs_f64());
    }

    /// Counts a decision of the engine.
    pub fn decided(&self, decision: &'static str) {
        one(&self.decisions, vec![("decision", decision.to_owned())]);
    }

    /// Counts a gang whose pods have all been created, and its waiting time.
    pub fn placed(&self, job: &Key, queue: &str, waited: Duration) {
        let labels = vec![("queue", queue.to_owned())];
        let wait = self.wait.get_or_create(&labels);
        wait.observe(waited.as_secs_f64(), Some(exemplar(job)), None);
    }

    /// Counts a gang that could not take the place that was found for it.
    pub fn put_off(&self, reason: Reason) {
        one(&self.put_off, because(reason));
    }

    /// Counts a plan that is rolled back.
    pub fn undone(&self, reason: Reason) {
        one(&self.undone, because(reason));
    }

    /// Counts a gang whose pods all run, and the time since their creation.
    pub fn started(&self, job: &Key, took: Duration) {
        self.start
            .observe(took.as_secs_f64(), Some(exemplar(job)), None);
    }

    /// Counts an attempt that has ended and is followed by another.
    pub fn attempt_ended(&self, reason: &str) {
        // Another version of Trellis may have written the reason, so an unknown one becomes a fixed
        // label.
        let known = Reason::ALL.iter().find(|known| known.as_str() == reason);
        let reason = known.copied().unwrap_or(Reason::Unrecognized);
        one(&self.attempts, because(reason));
    }

    /// Counts a job that has ended for good.
    pub fn ended(&self, phase: JobPhase, reason: Reason) {
        let mut labels = because(reason);
        labels.insert(0, ("phase", phase.as_str().to_owned()));
        one(&self.jobs, labels);
    }

    /// Counts a write that has ended.
    pub fn wrote(&self, outcome: Result<(), &WriteError>, took: Duration) {
        let outcome = outcome.err().map_or("ok", WriteError::word);
        one(&self.writes, vec![("outcome", outcome.to_owned())]);
        self.write.observe(took.as_secs_f64());
    }

    /// Registers all metrics.
    pub fn register(&self, registry: &mut Registry) {
        add(registry, facts::RECONCILES, self.reconciles.clone());
        add(registry, facts::RECONCILE_SECONDS, self.reconcile.clone());
        add(registry, facts::CYCLE_SECONDS, self.cycle.clone());
        add(registry, facts::DECISIONS, self.decisions.clone());
        add(registry, facts::PUT_OFF, self.put_off.clone());
        add(registry, facts::UNDONE, self.undone.clone());
        add(registry, facts::WAIT_SECONDS, self.wait.clone());
        add(registry, facts::START_SECONDS, self.start.clone());
        add(registry, facts::ATTEMPTS_ENDED, self.attempts.clone());
        add(registry, facts::JOBS_ENDED, self.jobs.clone());
        add(registry, facts::WRITES, self.writes.clone());
        add(registry, facts::WRITE_SECONDS, self.write.clone());
    }
}

/// Registers a metric under the name and the help text of its fact.
pub fn add(registry: &mut Registry, fact: Fact, metric: impl Metric) {
    registry.register(fact.name, fact.help, metric);
}

fn one(family: &Family<Labels, Counter>, labels: Labels) {
    family.get_or_create_owned(&labels).inc();
}

fn because(reason: Reason) -> Labels {
    vec![("reason", reason.as_str().to_owned())]
}

fn exemplar(job: &Key) -> Labels {
    let job = job.to_string().chars().take(EXEMPLAR).collect();
    vec![("job", job)]
}
