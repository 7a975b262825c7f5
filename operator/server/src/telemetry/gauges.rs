//! Gauges, computed on request.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use kube::{Resource as _, ResourceExt as _};
use parking_lot::RwLock;
use prometheus_client::encoding::text;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::oneshot;
use trellis_api::job::JobPhase;
use trellis_api::{Reason, TrainingJob};
use trellis_cache::Cache;
use trellis_cache::policy::Guard;
use trellis_dispatch::commands::Commands;
use trellis_dispatch::context::Context;
use trellis_dispatch::metric_catalog::MetricSpec;
use trellis_dispatch::metrics::{MetricLabels, register_metric};
use trellis_dispatch::{SchedulerEvent, metric_catalog};
use trellis_gang::key::Key;
use trellis_machine::{clock, threads};

use crate::serve::Identity;
use crate::webhook::Readiness;

/// Longest wait for the scheduler. After it, the answer omits the scheduler's gauges.
const MAX_SCHEDULER_WAIT: Duration = Duration::from_secs(2);

/// Content type of the metrics.
pub const OPENMETRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// State of the leader in this process, once it leads.
pub type LeaderSlot = Arc<RwLock<Option<ActiveLeader>>>;

/// State of a leading process.
#[derive(Clone)]
pub struct ActiveLeader {
    /// The cluster as the process knows it.
    pub context: Arc<Context>,
    /// Client for writes.
    pub commands: Commands,
}

/// Returns all metrics, in the OpenMetrics format. `leading` is None on a standby replica. The only
/// watches of a standby replica are those of its webhook, if it has one.
///
/// # Errors
/// If computing the gauges has panicked.
pub async fn render_metrics(
    leading: Option<&ActiveLeader>,
    webhook: Option<&Readiness>,
    endpoint: &Identity,
) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("trellis");
    let mut gauges = Gauges::default();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    gauges.set_labelled(metric_catalog::BUILD_INFO, vec![("version", version)], 1.0);
    let epoch = leading.and_then(|leading| leading.commands.epoch().ok());
    gauges.set(metric_catalog::LEADER, bool_value(epoch.is_some()));
    let epoch = epoch.map_or(0.0, |epoch| to_f64(i128::from(epoch.0)));
    gauges.set(metric_catalog::LEADER_EPOCH, epoch);
    let ends = endpoint.expiry().map_or(0, |ends| ends.as_second());
    gauges.set(metric_catalog::CERTIFICATE_EXPIRY, to_f64(i128::from(ends)));
    let is_degraded = bool_value(endpoint.is_degraded());
    gauges.set(metric_catalog::CERTIFICATE_DEGRADED, is_degraded);
    if let Some(leading) = leading.cloned() {
        let context = leading.context.clone();
        context.metrics.register(&mut registry);
        // Iterating ten thousand jobs and nodes takes long, so this runs on a blocking thread.
        let gathering = threads::spawn_blocking(move || {
            let ActiveLeader { context, commands } = leading;
            add_process_gauges(&mut gauges, &context, &commands);
            add_job_gauges(&mut gauges, &context);
            add_node_gauges(&mut gauges, &context.cache);
            add_flavor_gauges(&mut gauges, &context.cache);
            gauges
        });
        gauges = gathering.await.map_err(|_| fmt::Error)?;
        add_scheduler_gauges(&mut gauges, &context).await;
    } else if let Some(webhook) = webhook {
        add_watch_ages(&mut gauges, webhook.watch_ages());
    }
    gauges.register(&mut registry);
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}

type GaugeValue = Gauge<f64, AtomicU64>;

/// Gauges, in the order in which they were first set.
#[derive(Default)]
struct Gauges {
    families: Vec<(MetricSpec, Family<MetricLabels, GaugeValue>)>,
    plain: Vec<(MetricSpec, GaugeValue)>,
}

impl Gauges {
    fn set(&mut self, fact: MetricSpec, value: f64) {
        let gauge = GaugeValue::default();
        gauge.set(value);
        self.plain.push((fact, gauge));
    }

    fn set_labelled(&mut self, fact: MetricSpec, labels: MetricLabels, value: f64) {
        let mut families = self.families.iter();
        let family = match families.find(|(families, _)| families.name == fact.name) {
            Some((_, family)) => family.clone(),
            None => {
                let family = Family::default();
                self.families.push((fact, family.clone()));
                family
            }
        };
        family.get_or_create_owned(&labels).set(value);
    }

    fn register(self, registry: &mut Registry) {
        for (fact, gauge) in self.plain {
            register_metric(registry, fact, gauge);
        }
        for (fact, family) in self.families {
            register_metric(registry, fact, family);
        }
    }
}

fn bool_value(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// A gauge need not be exact above 2^53.
#[expect(
    clippy::cast_precision_loss,
    reason = "metrics are numbers of that kind"
)]
fn to_f64(amount: i128) -> f64 {
    amount as f64
}

fn count_value(amount: usize) -> f64 {
    to_f64(i128::try_from(amount).unwrap_or(i128::MAX))
}

fn add_watch_ages(gauges: &mut Gauges, ages: BTreeMap<String, Duration>) {
    for (resource, age) in ages {
        let labels = vec![("resource", resource)];
        gauges.set_labelled(metric_catalog::WATCH_AGE, labels, age.as_secs_f64());
    }
}

fn add_process_gauges(gauges: &mut Gauges, context: &Context, commands: &Commands) {
    gauges.set(
        metric_catalog::CACHES_SYNCED,
        bool_value(context.cache.is_synced()),
    );
    add_watch_ages(gauges, context.cache.watch_ages());
    add_guard_gauges(gauges, &context.cache);
    let (due, oldest) = context.work_queue.load();
    gauges.set(metric_catalog::RECONCILES_DUE, count_value(due));
    let oldest = oldest.unwrap_or_default().as_secs_f64();
    gauges.set(metric_catalog::RECONCILE_OLDEST, oldest);
    let (in_flight, limit) = commands.in_flight();
    gauges.set(metric_catalog::WRITES_IN_FLIGHT, count_value(in_flight));
    gauges.set(metric_catalog::WRITES_LIMIT, count_value(limit));
}

fn add_guard_gauges(gauges: &mut Gauges, cache: &Cache) {
    let guards = Guard::ALL.map(|guard| (guard.name(), cache.guards.is_in_force(guard)));
    let stamping = ("trellis-requested-by", cache.stamping.is_in_force());
    for (policy, is_in_force) in guards.into_iter().chain([stamping]) {
        let labels = vec![("policy", policy.to_owned())];
        gauges.set_labelled(
            metric_catalog::ADMISSION_POLICY,
            labels,
            bool_value(is_in_force),
        );
    }
    let external_pods = cache
        .external_pods
        .filter(|_, pod| pod.judged_spec.is_changed())
        .len();
    let changed = cache
        .pods
        .count_changed_specs()
        .saturating_add(external_pods);
    gauges.set(metric_catalog::CHANGED_PODS, count_value(changed));
}

/// Labels of one job.
type JobLabels = (String, JobPhase);

fn add_job_gauges(gauges: &mut Gauges, context: &Context) {
    let cache = &context.cache;
    let now = clock::now();
    let mut phases: BTreeMap<JobLabels, usize> = BTreeMap::new();
    let mut waits: BTreeMap<(String, &'static str), usize> = BTreeMap::new();
    let mut fragmented: BTreeMap<String, usize> = BTreeMap::new();
    let mut oldest: BTreeMap<String, i64> = BTreeMap::new();
    let mut longest_by_phase: BTreeMap<JobPhase, i64> =
        [(JobPhase::Waiting, 0), (JobPhase::Blocked, 0)].into();
    for job in cache.jobs.all() {
        let queue = existing_queue(cache, &job);
        let Some(status) = &job.status else { continue };
        let Some(phase) = status.phase else { continue };
        let counted = phases.entry((queue.clone(), phase)).or_default();
        *counted = counted.saturating_add(1);
        if let Some(longest) = longest_by_phase.get_mut(&phase) {
            let since = status.waiting_or_blocked_since().unwrap_or(now);
            *longest = now.duration_since(since).as_secs().max(*longest);
        }
        if phase != JobPhase::Queued {
            continue;
        }
        if let Some(reason) = status.reason {
            let counted = waits.entry((queue.clone(), reason.as_str())).or_default();
            *counted = counted.saturating_add(1);
            if matches!(reason, Reason::Fragmented | Reason::TopologyFragmented) {
                let counted = fragmented.entry(queue.clone()).or_default();
                *counted = counted.saturating_add(1);
            }
        }
        let since = status.pending_since().unwrap_or(now);
        let waited = now.duration_since(since).as_secs().max(0);
        let longest = oldest.entry(queue).or_default();
        *longest = waited.max(*longest);
    }
    context.metrics.record_fragmented_jobs(fragmented);
    for (phase, seconds) in longest_by_phase {
        let labels = vec![("phase", phase.as_str().to_owned())];
        let seconds = to_f64(i128::from(seconds));
        gauges.set_labelled(metric_catalog::HELD_OLDEST, labels, seconds);
    }
    for ((queue, phase), jobs) in phases {
        let labels = vec![("queue", queue), ("phase", phase.as_str().to_owned())];
        gauges.set_labelled(metric_catalog::JOBS, labels, count_value(jobs));
    }
    for ((queue, reason), jobs) in waits {
        let labels = vec![("queue", queue), ("reason", reason.to_owned())];
        gauges.set_labelled(metric_catalog::WAITING, labels, count_value(jobs));
    }
    for (queue, seconds) in oldest {
        let seconds = to_f64(i128::from(seconds));
        gauges.set_labelled(metric_catalog::OLDEST_WAIT, vec![("queue", queue)], seconds);
    }
}

/// Returns the queue of a job, if it exists. A user could invent any other name, which must not
/// become a label value.
fn existing_queue(cache: &Cache, job: &TrainingJob) -> String {
    let queue = job
        .status
        .as_ref()
        .and_then(|status| status.queue.as_deref());
    let queue = queue.filter(|queue| cache.queues.get(&Key::new("", queue)).is_some());
    queue.unwrap_or_default().to_owned()
}

fn add_node_gauges(gauges: &mut Gauges, cache: &Cache) {
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    for state in ["ready", "unschedulable", "unhealthy", "lost"] {
        states.insert(state, 0);
    }
    for node in cache.nodes.all() {
        let name = node.meta().name.as_deref().unwrap_or_default();
        let state = match (
            cache.is_lost(name),
            cache.unhealthy_rules.unhealthy_reason(&node),
        ) {
            (true, _) => "lost",
            (false, Some(_)) => "unhealthy",
            (false, None) if cache.is_open(name) => "ready",
            (false, None) => "unschedulable",
        };
        let counted = states.entry(state).or_default();
        *counted = counted.saturating_add(1);
    }
    let is_deleted = |node: &str| cache.nodes.get(&Key::new("", node)).is_none();
    let deleted = cache.pods.filter_nodes(is_deleted).len();
    let lost = states.entry("lost").or_default();
    *lost = lost.saturating_add(deleted);
    for (state, nodes) in states {
        gauges.set_labelled(
            metric_catalog::NODES,
            vec![("state", state.to_owned())],
            count_value(nodes),
        );
    }
}

fn add_flavor_gauges(gauges: &mut Gauges, cache: &Cache) {
    for flavor in cache.flavors.all() {
        if let Some(is_suitable) = flavor.is_autoscaler_suitable() {
            let labels = vec![("flavor", flavor.name_any())];
            let value = bool_value(is_suitable);
            gauges.set_labelled(metric_catalog::AUTOSCALER_SUITABLE, labels, value);
        }
    }
}

/// Converts an amount to base units: the engine counts cpu in thousandths of a core.
fn base_units(resource: &str, amount: i128) -> f64 {
    match resource {
        "cpu" => to_f64(amount) / 1_000.0,
        _ => to_f64(amount),
    }
}

async fn add_scheduler_gauges(gauges: &mut Gauges, context: &Context) {
    let (queues, totals) = (oneshot::channel(), oneshot::channel());
    context.send_event(SchedulerEvent::AskQueues(queues.0));
    context.send_event(SchedulerEvent::AskTotals(totals.0));
    let answers = tokio::time::timeout(MAX_SCHEDULER_WAIT, async {
        tokio::join!(queues.1, totals.1)
    });
    let Ok((Ok(queues), Ok(totals))) = answers.await else {
        return;
    };
    for (name, report) in queues {
        let queue = || ("queue", name.as_str().to_owned());
        let Some(standing) = report.usage else {
            continue;
        };
        gauges.set_labelled(metric_catalog::QUEUE_SHARE, vec![queue()], standing.share);
        for line in standing.lines {
            let resource = line.resource.as_str();
            let labels = || {
                let flavor = line.flavor.as_str().to_owned();
                vec![
                    queue(),
                    ("flavor", flavor),
                    ("resource", resource.to_owned()),
                ]
            };
            for (fact, amount) in [
                (metric_catalog::QUEUE_NOMINAL, line.nominal),
                (metric_catalog::QUEUE_USED, line.usage),
                (metric_catalog::QUEUE_BORROWED, line.borrowed),
            ] {
                gauges.set_labelled(fact, labels(), base_units(resource, amount));
            }
        }
    }
    // Devices are extended resources, whose names contain a domain.
    let devices = totals.by_resource.into_iter();
    for (resource, devices) in devices.filter(|(name, _)| name.as_str().contains('/')) {
        let free = devices.allocatable.saturating_sub(devices.placed_gangs);
        let free = free.saturating_sub(devices.external_pods).max(0);
        for (state, amount) in [
            ("allocatable", devices.allocatable),
            ("held", devices.placed_gangs),
            ("others", devices.external_pods),
            ("free", free),
        ] {
            let resource = resource.as_str().to_owned();
            let labels = vec![("resource", resource), ("state", state.to_owned())];
            gauges.set_labelled(metric_catalog::DEVICES, labels, to_f64(amount));
        }
    }
    for domains in totals.domains {
        for (state, count) in [("free", domains.free), ("used", domains.used)] {
            let labels = vec![
                ("topology", domains.topology.as_str().to_owned()),
                ("level", domains.level.clone()),
                ("state", state.to_owned()),
            ];
            gauges.set_labelled(metric_catalog::DOMAINS, labels, count_value(count));
        }
    }
    let wrong = count_value(totals.wrong_limits);
    gauges.set(metric_catalog::LEDGER_WRONG, wrong);
}
