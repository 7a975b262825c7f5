//! Violations that are allowed for a while, such as the time in which a plan is carried out.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::Judge;
use crate::clock::{HealthyClock, Moment};
use crate::cluster::{Cluster, JobUid};
use crate::finding::{Finding, ObjectRef, Rule};
use crate::verifier::{Findings, Step};

/// A state that breaks a rule, and the healthy time for which it may last.
#[derive(Debug)]
pub(crate) struct Violation {
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

    /// Finds a violation of a subject.
    fn find(cluster: &Cluster, subject: &Self::Subject) -> Option<Violation>;
}

/// Judges by a [`LastingRule`].
pub(crate) struct Lasting<R: LastingRule>(LastingViolations<R::Subject>);

impl<R: LastingRule> Default for Lasting<R> {
    fn default() -> Self {
        Self(LastingViolations::default())
    }
}

impl<R: LastingRule> Judge for Lasting<R> {
    fn start(&mut self, cluster: &Cluster, clock: &HealthyClock) {
        for (subject, changed) in R::Subject::all(cluster) {
            // The times of objects do not show when another object was deleted.
            let changed = changed.filter(|_| R::RULE.is_seen_in_one_look());
            let since = changed.map_or_else(|| clock.moment(), |at| clock.moment_before_start(at));
            let violation = R::find(cluster, &subject);
            self.0.set(subject, violation, since);
        }
    }

    fn observe(&mut self, step: &Step<'_>, _findings: &mut Findings) {
        for subject in R::Subject::concerned(step) {
            let violation = R::find(step.cluster, &subject);
            self.0.set(subject, violation, step.now);
        }
    }

    fn check(&mut self, cluster: &Cluster, now: Moment, findings: &mut Findings) {
        self.0.report_overdue(R::RULE, cluster, now, findings);
    }
}

/// Violations by subject, with the moment at which each began.
#[derive(Debug)]
pub(crate) struct LastingViolations<S> {
    violations: BTreeMap<S, (Violation, Moment)>,
}

impl<S> Default for LastingViolations<S> {
    fn default() -> Self {
        Self {
            violations: BTreeMap::new(),
        }
    }
}

impl<S: Ord + Clone> LastingViolations<S> {
    /// Records whether the subject has a violation now. A violation that goes on keeps its begin.
    pub(crate) fn set(&mut self, subject: S, violation: Option<Violation>, now: Moment) {
        let known = self.violations.remove(&subject);
        if let Some(violation) = violation {
            let since = known.map_or(now, |(_, since)| since);
            self.violations.insert(subject, (violation, since));
        }
    }

    /// Forgets the violations of the other subjects.
    pub(crate) fn retain(&mut self, keeps: impl Fn(&S) -> bool) {
        self.violations.retain(|subject, _| keeps(subject));
    }

    /// Reports the violations that last too long. Each is reported once. The end of a namespace is no
    /// violation.
    pub(crate) fn report_overdue(
        &mut self,
        rule: Rule,
        cluster: &Cluster,
        now: Moment,
        findings: &mut Findings,
    ) {
        let is_overdue = |_: &S, (violation, since): &mut (Violation, Moment)| {
            now.healthy.saturating_sub(since.healthy) > violation.allowed
        };
        for (_, (violation, since)) in self.violations.extract_if(.., is_overdue) {
            if cluster.is_terminating(&violation.object.name.namespace) {
                continue;
            }
            findings.add(Finding {
                rule,
                object: violation.object,
                message: violation.message,
                since: since.time,
                revision: None,
            });
        }
    }
}
