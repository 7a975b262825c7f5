//! The task that owns the engine. `cycle` shows a scheduling cycle from top to bottom.
//!
//! It handles events (`event_handling`), takes each gang's next step (`steps`), keeps the places in
//! the engine (`places`), carries out the engine's decisions (`decisions`), makes victims leave
//! (`victims`), and handles the results of tasks (`task_results`). `external` does the same for
//! external gangs.

mod alarms;
mod broken_watch;
mod cycle;
mod decisions;
mod device_classes;
mod event_handling;
mod external;
mod limits;
mod message_renewal;
mod places;
mod pods_of_gone_jobs;
mod provisioning;
mod provisioning_times;
mod reason_pace;
mod run_time_prediction;
mod steps;
mod surplus;
mod takeover;
#[cfg(test)]
mod tests;
mod victims;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use tokio::sync::oneshot;
use tokio::time::Instant;
use trellis_api::pod_group::ElasticGroup;
use trellis_gang::admitted_pod::AdmittedPod;
use trellis_gang::gang_step::deletions::Deletions;
use trellis_gang::key::Key;
use trellis_gang::quota::namespace_quota::QuotaDemand;
use trellis_gang::quota::{GpuHourUsage, JobLimits};
use trellis_gang::requirements::flavors::FlavorTolerations;
use trellis_gang::{AuthorizedAttempt, DesiredGang};
use trellis_policies::quota::LimitId;
use trellis_scheduler::{Engine, LimitName, RuntimePredictor, Snapshot};

use super::EventReceiver;
use super::commit::Committer;
use alarms::Alarms;
use external::ExternalGangs;
use limits::wrong_limits::WrongLimits;
use message_renewal::MessageRenewal;
use places::avoided_nodes::AvoidedNodes;
use pods_of_gone_jobs::OrphanedPods;
use provisioning::OrderFailure;
use provisioning_times::ProvisioningTimes;
use reason_pace::ReasonPace;
use steps::pause::RetryPause;
use steps::task::GangTask;
use surplus::JobSurplus;
use takeover::inheritance::Inheritance;
use victims::LeavingGang;

/// State of a gang in the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EngineState {
    #[default]
    Absent,
    Waiting,
    /// Nominated: it gets its place once its victims have left.
    Nominated,
    Placed,
    /// It restarts, and keeps its old place for a while.
    Restarting,
}

#[derive(Debug, Default)]
struct TrackedGang {
    /// None: the controller has not sent one yet, or the job is gone.
    desired: Option<DesiredGang>,
    /// Uid of the job, if its pods on lost nodes may be deleted by force.
    forcible_job: Option<String>,
    engine_state: EngineState,
    /// Until when the gang keeps its place while it restarts. None: it does not restart.
    kept_until: Option<Timestamp>,
    /// True if the engine knows the gang only from its journal, and not yet from its job.
    is_from_journal: bool,
    /// The pods as admission leaves them, by group, for one compiled job.
    admitted: BTreeMap<String, AdmittedPod>,
    compiled: String,
    /// Number of places in a row that were given up because admission changed the pods.
    replans: u32,
    /// Limits that the gang draws on. None: it has not been judged yet.
    limits: Option<Arc<JobLimits>>,
    task: Option<GangTask>,
    pause: RetryPause,
    /// When its job may get another reason.
    reason_pace: ReasonPace,
    /// The order whose objects this replica has created.
    order: Option<String>,
    /// The last failure of an order.
    order_failure: Option<OrderFailure>,
    /// Why its last task failed.
    last_failure: Option<String>,
    /// Nodes on which its pods were refused.
    avoided: AvoidedNodes,
    /// True if the gang may use the nodes on which its ranks failed, because the other nodes could
    /// never hold it.
    are_suspects_allowed: bool,
    deletions: Deletions,
    /// Surplus pods of the gang.
    surplus: JobSurplus,
    /// The elastic groups of the plan whose place the engine has.
    elastic_groups: Vec<ElasticGroup>,
}

impl TrackedGang {
    fn run(&self) -> Option<&Arc<AuthorizedAttempt>> {
        self.desired.as_ref().and_then(DesiredGang::attempt)
    }

    /// Returns the pods as admission leaves them, where known, by group.
    fn admitted_pods(&self, run: &AuthorizedAttempt) -> BTreeMap<String, AdmittedPod> {
        let groups = run.job.compiled().groups().iter();
        groups
            .map(|group| {
                let known = self.admitted.get(group.name()).cloned();
                let admitted = known.unwrap_or_else(|| AdmittedPod::from_group(group));
                (group.name().to_owned(), admitted)
            })
            .collect()
    }
}

/// The owner of the engine.
pub struct Driver {
    engine: Engine,
    /// Predicts run times from earlier runs.
    predictor: RuntimePredictor,
    /// Uid of each complete job whose run the predictor knows.
    learned_runs: BTreeMap<Key, String>,
    committer: Committer,
    events: EventReceiver,
    gangs: BTreeMap<Key, TrackedGang>,
    /// Gangs of external pods.
    external_pods: ExternalGangs,
    /// Gangs that the engine counts as leaving, and that still hold their place.
    leaving: BTreeMap<Key, LeavingGang>,
    alarms: Alarms,
    renewal: MessageRenewal,
    /// Pods of deleted jobs.
    orphans: BTreeMap<Key, OrphanedPods>,
    /// Requests of gangs that were put off because a ResourceQuota of their namespace had no room.
    over_quota: BTreeMap<Key, QuotaDemand>,
    /// Tolerations of the flavors that the engine knows.
    flavors: FlavorTolerations,
    /// Used GPU-hours of QuotaPolicies.
    hours: GpuHourUsage,
    /// Version of the QuotaPolicies by which the hours are counted.
    hours_version: u64,
    /// Limits of GPU-hours that gangs draw on, by the engine's names.
    hour_limits: BTreeMap<LimitName, LimitId>,
    wrong_limits: WrongLimits,
    /// Uid of each pod that the engine counts.
    pods: BTreeMap<Key, Box<str>>,
    inheritance: Inheritance,
    provisioning_times: ProvisioningTimes,
    /// When the nodes on order were last recorded.
    orders_recorded_at: Option<Instant>,
    /// True if nodes or DeviceClasses have changed, so that the advertised devices may have
    /// changed.
    devices_changed: bool,
    /// Gangs that were enqueued since the last decision with their suspects excluded.
    avoiding_suspects: BTreeSet<Key>,
    /// A kind whose watch has been silent for too long.
    broken_watch: Option<String>,
    /// Callers that wait for a snapshot of the engine.
    snapshot_requests: Vec<oneshot::Sender<Arc<Snapshot>>>,
}

impl Driver {
    /// Creates a driver that handles the events of `heard`.
    #[must_use]
    pub fn new(committer: Committer, heard: EventReceiver) -> Self {
        Self {
            engine: Engine::new(),
            predictor: RuntimePredictor::new(),
            learned_runs: BTreeMap::new(),
            committer,
            events: heard,
            gangs: BTreeMap::new(),
            external_pods: ExternalGangs::default(),
            leaving: BTreeMap::new(),
            alarms: Alarms::default(),
            renewal: MessageRenewal::default(),
            orphans: BTreeMap::new(),
            over_quota: BTreeMap::new(),
            flavors: FlavorTolerations::default(),
            hours: GpuHourUsage::default(),
            hours_version: 0,
            hour_limits: BTreeMap::new(),
            wrong_limits: WrongLimits::default(),
            pods: BTreeMap::new(),
            inheritance: Inheritance::default(),
            provisioning_times: ProvisioningTimes::default(),
            orders_recorded_at: None,
            devices_changed: false,
            avoiding_suspects: BTreeSet::new(),
            broken_watch: None,
            snapshot_requests: Vec::new(),
        }
    }
}
