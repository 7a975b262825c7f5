//! Faults that are allowed for a while, such as the time in which a plan is carried out.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::Judge;
use crate::clock::{HealthyClock, Moment};
use crate::cluster::{Cluster, JobUid};
use crate::finding::{Finding, ObjectRef, Rule};
use crate::verifier::{Findings, Step};

/// A state that breaks a rule, and the healthy time for which it may last.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) object: ObjectRef,
    pub(crate) message: String,
    pub(crate) allowed: SignedDuration,
}

/// A part of the cluster that rules judge, such as a gang.
pub(crate) trait Subject: Ord + Clone {
    /// Returns the subjects that a change may concern.
    fn concerned(step: &Step<'_>) -> Vec<Self>;
    /// Returns all subjects, and when each last changed.
    fn all(cluster: &Cluster) -> Vec<(Self, Option<Timestamp>)>;
}

/// A gang.
impl Subject for JobUid {
    fn concerned(step: &Step<'_>) -> Vec<Self> {
        step.job_uids()
    }

    fn all(cluster: &Cluster) -> Vec<(Self, Option<Timestamp>)> {
        cluster.gangs_with_last_change()
    }
}

/// A rule about the state of its subjects. A state may break it for a while.
pub(crate) trait LastingRule {
    const RULE: Rule;
    type Subject: Subject;

    /// Finds a fault of a subject.
    fn find(cluster: &Cluster, subject: &Self::Subject) -> Option<Fault>;
}

/// Judges by a [`LastingRule`].
pub(crate) struct Lasting<R: LastingRule>(LastingFaults<R::Subject>);

impl<R: LastingRule> Default for Lasting<R> {
    fn default() -> Self {
        Self(LastingFaults::default())
    }
}

impl<R: LastingRule> Judge for Lasting<R> {
    fn start(&mut self, cluster: &Cluster, clock: &HealthyClock) {
        for (subject, changed) in R::Subject::all(cluster) {
            // The times of objects do not show when another object was deleted.
            let changed = changed.filter(|_| R::RULE.is_seen_in_one_look());
            let since = changed.map_or_else(|| clock.moment(), |at| clock.moment_before_start(at));
            let fault = R::find(cluster, &subject);
            self.0.set(subject, fault, since);
        }
    }

    fn observe(&mut self, step: &Step<'_>, _findings: &mut Findings) {
        for subject in R::Subject::concerned(step) {
            let fault = R::find(step.cluster, &subject);
            self.0.set(subject, fault, step.now);
        }
    }

    fn check(&mut self, cluster: &Cluster, now: Moment, findings: &mut Findings) {
        self.0.report_overdue(R::RULE, cluster, now, findings);
    }
}

/// Faults by subject, with the moment at which each began.
#[derive(Debug)]
pub(crate) struct LastingFaults<S> {
    faults: BTreeMap<S, (Fault, Moment)>,
}

impl<S> Default for LastingFaults<S> {
    fn default() -> Self {
        Self {
            faults: BTreeMap::new(),
        }
    }
}

impl<S: Ord + Clone> LastingFaults<S> {
    /// Records whether the subject has a fault now. A fault that goes on keeps its begin.
    pub(crate) fn set(&mut self, subject: S, fault: Option<Fault>, now: Moment) {
        let known = self.faults.remove(&subject);
        if let Some(fault) = fault {
            let since = known.map_or(now, |(_, since)| since);
            self.faults.insert(subject, (fault, since));
        }
    }

    /// Forgets the faults of the other subjects.
    pub(crate) fn retain(&mut self, keeps: impl Fn(&S) -> bool) {
        self.faults.retain(|subject, _| keeps(subject));
    }

    /// Reports the faults that last too long. Each is reported once. The end of a namespace is no
    /// fault.
    pub(crate) fn report_overdue(
        &mut self,
        rule: Rule,
        cluster: &Cluster,
        now: Moment,
        findings: &mut Findings,
    ) {
        let is_overdue = |_: &S, (fault, since): &mut (Fault, Moment)| {
            now.healthy.saturating_sub(since.healthy) > fault.allowed
        };
        for (_, (fault, since)) in self.faults.extract_if(.., is_overdue) {
            if cluster.is_terminating(&fault.object.name.namespace) {
                continue;
            }
            findings.add(Finding {
                rule,
                object: fault.object,
                message: fault.message,
                since: since.time,
                revision: None,
            });
        }
    }
}
