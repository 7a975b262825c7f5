//! The conditions of a TrainingJob, and their status in each phase.
//!
//! The types follow kstatus (`Ready`, `Reconciling`, `Stalled`), so Argo CD, Flux and `kubectl
//! wait` understand a job without extra configuration.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::Reason;
use crate::job::JobPhase;

/// The types of a TrainingJob's conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionType {
    /// The spec is valid, policy allows it, and every object that it names exists.
    Accepted,
    /// The scheduler has reserved the queue's quota for the whole gang.
    QuotaReserved,
    /// Every pod of the gang has its node.
    Scheduled,
    /// Every pod of the gang runs.
    Running,
    /// The job has ended successfully.
    Complete,
    /// The job has failed.
    Failed,
    /// The user has suspended the job.
    Suspended,
    /// kstatus: the job is as its spec asks.
    Ready,
    /// kstatus: the job is on its way to what its spec asks.
    Reconciling,
    /// kstatus: the job cannot proceed by itself.
    Stalled,
}

impl ConditionType {
    /// All types, in the order in which status lists them.
    pub const ALL: [Self; 10] = [
        Self::Accepted,
        Self::QuotaReserved,
        Self::Scheduled,
        Self::Running,
        Self::Complete,
        Self::Failed,
        Self::Suspended,
        Self::Ready,
        Self::Reconciling,
        Self::Stalled,
    ];

    /// Returns the meaning of the condition in one sentence.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Accepted => "The spec is valid, policy allows it, and what it names is there.",
            Self::QuotaReserved => "The queue's quota for the whole gang is set aside.",
            Self::Scheduled => "Every pod of the gang has its node.",
            Self::Running => "Every pod of the gang runs.",
            Self::Complete => "The job has ended well.",
            Self::Failed => "The job has ended badly.",
            Self::Suspended => "The user has stopped it.",
            Self::Ready => "The job is as its spec asks (kstatus).",
            Self::Reconciling => "It is on its way there (kstatus).",
            Self::Stalled => "It will not get there by itself (kstatus).",
        }
    }

    /// Returns the type as it appears in status.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::QuotaReserved => "QuotaReserved",
            Self::Scheduled => "Scheduled",
            Self::Running => "Running",
            Self::Complete => "Complete",
            Self::Failed => "Failed",
            Self::Suspended => "Suspended",
            Self::Ready => "Ready",
            Self::Reconciling => "Reconciling",
            Self::Stalled => "Stalled",
        }
    }
}

/// Status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// The operator cannot tell.
    Unknown,
}

impl ConditionStatus {
    /// Returns the status as it appears in a condition.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// Phase, reason and progress of a job, from which its conditions follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSummary {
    /// Phase of the job.
    pub phase: JobPhase,
    /// Reason for the phase.
    pub reason: Reason,
    /// The reason in words, with numbers.
    pub message: String,
    /// True if the gang's quota is reserved.
    pub quota_reserved: bool,
    /// True if the gang is placed.
    pub scheduled: bool,
}

impl JobSummary {
    /// Returns the status of a condition in this phase: one cell of the table.
    pub(crate) fn status(&self, condition: ConditionType) -> ConditionStatus {
        use ConditionStatus::{False, True, Unknown};
        use ConditionType as C;
        use JobPhase as P;
        match (condition, self.phase) {
            (C::Accepted, P::Refused) => False,
            (C::Accepted, P::Waiting) => Unknown,
            (C::Accepted, _) => True,

            (C::Ready, P::Running | P::Suspended | P::Complete) => True,
            (C::Ready, _) => False,
            (C::Stalled, P::Refused | P::Blocked | P::Failed) => True,
            (C::Stalled, _) => False,
            (C::Reconciling, P::Waiting | P::Queued | P::Starting | P::Restarting) => True,
            (C::Reconciling, _) => False,

            (_, P::Refused) => Unknown,
            (C::QuotaReserved, P::Waiting) => Unknown,
            (C::QuotaReserved, P::Blocked | P::Queued) => self.quota_reserved.into(),
            (C::QuotaReserved, P::Starting | P::Restarting | P::Running) => True,
            (C::QuotaReserved, _) => False,

            (C::Scheduled, P::Blocked) => self.scheduled.into(),
            (C::Scheduled, P::Starting | P::Restarting | P::Running) => True,
            (C::Scheduled, _) => False,

            (C::Running, phase) => (phase == P::Running).into(),
            (C::Complete, phase) => (phase == P::Complete).into(),
            (C::Failed, phase) => (phase == P::Failed).into(),
            (C::Suspended, phase) => (phase == P::Suspended).into(),
        }
    }

    /// Returns the condition that the reason explains, beside the kstatus conditions.
    fn main_condition(&self) -> ConditionType {
        use ConditionType as C;
        match self.phase {
            JobPhase::Refused | JobPhase::Waiting => C::Accepted,
            JobPhase::Blocked | JobPhase::Queued | JobPhase::Unrecognized => C::Scheduled,
            JobPhase::Starting | JobPhase::Restarting | JobPhase::Running => C::Running,
            JobPhase::Suspended => C::Suspended,
            JobPhase::Complete => C::Complete,
            JobPhase::Failed => C::Failed,
        }
    }

    fn reason(&self, condition: ConditionType, status: ConditionStatus) -> (Reason, &str) {
        use ConditionType as C;
        let kstatus = matches!(condition, C::Ready | C::Reconciling | C::Stalled);
        if condition == self.main_condition()
            || condition == C::Ready
            || (kstatus && status == ConditionStatus::True)
        {
            return (self.reason, &self.message);
        }
        let reason = match (condition, status) {
            (C::Accepted, ConditionStatus::True) => Reason::Accepted,
            (C::QuotaReserved | C::Scheduled, ConditionStatus::True) => Reason::Placed,
            (C::Reconciling | C::Stalled | C::Suspended, _) => Reason::NotApplicable,
            (_, _) if self.phase.is_terminal() => Reason::NotApplicable,
            (_, _) => Reason::NotYet,
        };
        (reason, "")
    }

    /// Returns all conditions. The transition time is `now` where the status differs from
    /// `previous`; otherwise it stays as it was.
    #[must_use]
    pub fn conditions(
        &self,
        generation: Option<i64>,
        now: &Time,
        previous: &[Condition],
    ) -> Vec<Condition> {
        ConditionType::ALL
            .into_iter()
            .map(|condition| {
                let status = self.status(condition);
                let (reason, message) = self.reason(condition, status);
                let before = previous
                    .iter()
                    .find(|c| c.type_ == condition.as_str() && c.status == status.as_str());
                Condition {
                    type_: condition.as_str().to_owned(),
                    status: status.as_str().to_owned(),
                    reason: reason.as_str().to_owned(),
                    message: message.to_owned(),
                    observed_generation: generation,
                    last_transition_time: before
                        .map_or_else(|| now.clone(), |c| c.last_transition_time.clone()),
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status_row(phase: JobPhase) -> String {
        let verdict = JobSummary {
            phase,
            reason: Reason::Queued,
            message: String::new(),
            quota_reserved: false,
            scheduled: false,
        };
        ConditionType::ALL
            .iter()
            .map(|c| match verdict.status(*c) {
                ConditionStatus::True => 'T',
                ConditionStatus::False => 'F',
                ConditionStatus::Unknown => '-',
            })
            .collect()
    }

    #[test]
    fn condition_statuses_match_the_documented_table() {
        // Accepted QuotaReserved Scheduled Running Complete Failed Suspended | Ready Reconciling
        // Stalled
        for (phase, expected) in [
            (JobPhase::Refused, "F------FFT"),
            (JobPhase::Waiting, "--FFFFFFTF"),
            (JobPhase::Blocked, "TFFFFFFFFT"),
            (JobPhase::Queued, "TFFFFFFFTF"),
            (JobPhase::Starting, "TTTFFFFFTF"),
            (JobPhase::Restarting, "TTTFFFFFTF"),
            (JobPhase::Running, "TTTTFFFTFF"),
            (JobPhase::Suspended, "TFFFFFTTFF"),
            (JobPhase::Complete, "TFFFTFFTFF"),
            (JobPhase::Failed, "TFFFFTFFFT"),
        ] {
            assert_eq!(status_row(phase), expected, "{phase:?}");
        }
    }

    #[test]
    fn transition_time_changes_only_with_the_status() {
        let at = |s: &str| Time(s.parse().unwrap());
        let queued = JobSummary {
            phase: JobPhase::Queued,
            reason: Reason::Queued,
            message: "waits".to_owned(),
            quota_reserved: false,
            scheduled: false,
        };
        let first = queued.conditions(Some(1), &at("2026-01-01T00:00:00Z"), &[]);
        let running = JobSummary {
            phase: JobPhase::Running,
            reason: Reason::Running,
            ..queued
        };
        let second = running.conditions(Some(1), &at("2026-01-01T00:01:00Z"), &first);
        let changed: Vec<_> = first
            .iter()
            .zip(&second)
            .filter(|(a, b)| a.last_transition_time != b.last_transition_time)
            .map(|(_, b)| b.type_.as_str())
            .collect();
        assert_eq!(
            changed,
            [
                "QuotaReserved",
                "Scheduled",
                "Running",
                "Ready",
                "Reconciling"
            ]
        );
    }

    #[test]
    fn every_condition_has_a_reason() {
        for phase in [JobPhase::Refused, JobPhase::Queued, JobPhase::Failed] {
            let verdict = JobSummary {
                phase,
                reason: Reason::PolicyDenied,
                message: "no".to_owned(),
                quota_reserved: false,
                scheduled: false,
            };
            let conditions = verdict.conditions(
                Some(1),
                &Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH),
                &[],
            );
            assert!(conditions.iter().all(|c| !c.reason.is_empty()));
            assert!(conditions.iter().any(|c| c.reason == "PolicyDenied"));
        }
    }
}
