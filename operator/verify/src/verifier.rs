//! Feeds each change to each rule.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::clock::{Health, HealthyClock, Moment};
use crate::cluster::{Cluster, JobUid, Previous, owner_uid};
use crate::finding::{Finding, ObjectRef, Rule};
use crate::history::{Change, ObjectName, ObjectVersion, UnreadObject, Version};
use crate::pods::PodFacts as _;
use crate::rules::{self, Judge};

/// Time in which a new leader reads the cluster before it acts.
const TAKEOVER_TIME: SignedDuration = SignedDuration::from_secs(30);
/// Time for which a source may withhold a renewal of the Lease.
const SOURCE_DELAY: SignedDuration = SignedDuration::from_secs(3);

/// Judges a history while it is fed.
pub struct Verifier {
    cluster: Cluster,
    clock: HealthyClock,
    leader: Option<Leader>,
    rules: Vec<Box<dyn Judge + Send>>,
    findings: Findings,
}

/// The holder of the Lease, and when the history has shown it.
struct Leader {
    holder: String,
    since: Timestamp,
    renewed: Timestamp,
    lease: SignedDuration,
}

impl Leader {
    fn holds_the_lease(&self, now: Timestamp) -> bool {
        now.duration_since(self.renewed) <= self.lease.saturating_add(SOURCE_DELAY)
    }
}

impl Verifier {
    /// Creates a verifier for a history that starts at this time.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self {
            cluster: Cluster::default(),
            clock: HealthyClock::new(start),
            leader: None,
            rules: rules::all(),
            findings: Findings::default(),
        }
    }

    /// Creates a verifier for a history without the objects that exist at its start. No rule judges
    /// what it would have to know of them.
    #[must_use]
    pub fn without_initial_state(start: Timestamp) -> Self {
        let mut verifier = Self::new(start);
        verifier.cluster.is_partial = true;
        verifier
    }

    /// Adds an object that exists when the history starts. No rule judges how it came to be.
    pub fn load(&mut self, change: &Change) {
        self.apply(change);
        // A holder that has died does not renew its Lease any more.
        if let ObjectVersion::Lease(version) = &change.object
            && let Some(spec) = version.stored().and_then(|lease| lease.spec.as_ref())
            && let (Some(leader), Some(renewed)) = (&mut self.leader, &spec.renew_time)
        {
            leader.renewed = leader.renewed.min(renewed.0);
        }
    }

    /// Ends the loading of objects. The next calls add changes.
    pub fn start(&mut self) {
        for rule in &mut self.rules {
            rule.start(&self.cluster, &self.clock);
        }
    }

    /// Adds a change. Changes come in the order of their revisions.
    pub fn observe(&mut self, change: &Change) {
        let previous = self.apply(change);
        let step = Step {
            change,
            previous: &previous,
            cluster: &self.cluster,
            now: self.clock.moment(),
        };
        for rule in &mut self.rules {
            rule.observe(&step, &mut self.findings);
        }
    }

    fn apply(&mut self, change: &Change) -> Previous {
        if let ObjectVersion::Lease(version) = &change.object {
            self.observe_lease(version, change.time);
        }
        self.cluster.apply(change)
    }

    fn observe_lease(&mut self, version: &Version<Lease>, time: Timestamp) {
        let spec = version.stored().and_then(|lease| lease.spec.as_ref());
        let holder = spec.and_then(|spec| spec.holder_identity.clone());
        let Some(holder) = holder.filter(|holder| !holder.is_empty()) else {
            self.leader = None;
            return;
        };
        let seconds = spec.and_then(|spec| spec.lease_duration_seconds);
        let since = match &self.leader {
            Some(leader) if leader.holder == holder => leader.since,
            _ => time,
        };
        self.leader = Some(Leader {
            holder,
            since,
            renewed: time,
            lease: SignedDuration::from_secs(seconds.unwrap_or(0).into()),
        });
    }

    /// Reports that the time has passed to `now`, and the state of the cluster meanwhile. The time
    /// counts as healthy only if a leader has also renewed its Lease.
    pub fn pass_time(&mut self, now: Timestamp, health: Health) {
        let is_led = self.leader.as_ref().is_some_and(|leader| {
            leader.holds_the_lease(now) && now.duration_since(leader.since) >= TAKEOVER_TIME
        });
        let health = if is_led { health } else { Health::Unhealthy };
        self.clock.advance(now, health);
        let now = self.clock.moment();
        for rule in &mut self.rules {
            rule.check(&self.cluster, now, &mut self.findings);
        }
    }

    /// Counts the objects that exist now.
    #[must_use]
    pub fn object_counts(&self) -> ObjectCounts {
        let cluster = &self.cluster;
        let placed = |pod: &&Arc<Pod>| pod.is_placed_by_trellis();
        ObjectCounts {
            jobs: cluster.jobs.len(),
            pods: cluster.pods().filter(placed).count(),
            nodes: cluster.nodes.len(),
        }
    }

    /// Returns the objects that do not decode. No rule judges them.
    pub fn unread_objects(&self) -> impl Iterator<Item = &UnreadObject> {
        self.cluster.unread()
    }

    /// Returns true if a replica holds the Lease.
    #[must_use]
    pub fn is_led(&self) -> bool {
        let now = self.clock.moment().time;
        self.leader
            .as_ref()
            .is_some_and(|leader| leader.holds_the_lease(now))
    }

    /// Returns the healthy time since the start of the history.
    #[must_use]
    pub fn healthy_time(&self) -> SignedDuration {
        self.clock.moment().healthy
    }

    /// Returns the findings since the last call.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.findings.new)
    }
}

/// Numbers of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectCounts {
    /// TrainingJobs.
    pub jobs: usize,
    /// Pods that Trellis has placed.
    pub pods: usize,
    /// Nodes.
    pub nodes: usize,
}

/// One change, with the cluster before and after it.
pub(crate) struct Step<'a> {
    pub(crate) change: &'a Change,
    pub(crate) previous: &'a Previous,
    /// After the change.
    pub(crate) cluster: &'a Cluster,
    pub(crate) now: Moment,
}

impl Step<'_> {
    /// Returns a finding that the change shows.
    pub(crate) fn finding(&self, rule: Rule, object: ObjectRef, message: String) -> Finding {
        Finding {
            rule,
            object,
            message,
            since: self.change.time,
            revision: Some(self.change.revision),
        }
    }

    /// Returns true if the change happened before the last known write of an object. The watch that
    /// shows the change is late then.
    pub(crate) fn is_older_than(&self, written: &ObjectMeta) -> bool {
        let version = written.resource_version.as_deref();
        version.and_then(|version| version.parse().ok()) > Some(self.change.revision)
    }

    /// Returns the uids of the jobs whose gang the change may concern.
    pub(crate) fn job_uids(&self) -> Vec<JobUid> {
        match (&self.change.object, self.previous) {
            (ObjectVersion::Job(version), _) => {
                let uid = version.object().metadata.uid.clone();
                uid.map(JobUid).into_iter().collect()
            }
            (ObjectVersion::Group(version), _) => owner_uid(version.object()).into_iter().collect(),
            (ObjectVersion::Pod(version), Previous::Pod(before)) => {
                let now = version.object().job_uid();
                let before = before.as_ref().and_then(|before| before.job_uid());
                now.into_iter().chain(before).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the names of the PodGroups whose gang the change may concern.
    pub(crate) fn group_names(&self) -> Vec<ObjectName> {
        if let ObjectVersion::Group(version) = &self.change.object {
            return vec![ObjectName::from_metadata(&version.object().metadata)];
        }
        let names = self.job_uids();
        let names = names.iter().filter_map(|uid| self.cluster.job_name(uid));
        names.cloned().collect()
    }
}

/// The findings of a history. Each rule reports each object once.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    new: Vec<Finding>,
    reported: BTreeSet<(Rule, ObjectRef)>,
}

impl Findings {
    pub(crate) fn add(&mut self, finding: Finding) {
        if self.reported.insert((finding.rule, finding.object.clone())) {
            self.new.push(finding);
        }
    }
}
