//! Describes the progress of a job, one line per step. Pure.

use k8s_openapi::jiff::Timestamp;
use trellis_api::job::{JobPhase, LastFailure, TrainingJobStatus};
use trellis_api::{Reason, TrainingJob};

use crate::exit::Exit;
use crate::output::{Tone, format_age, paint, phase_tone, sanitize};

/// The progress that was reported so far.
#[derive(Debug)]
pub struct JobProgress {
    name: String,
    uid: Option<String>,
    /// True if the lines must name the job.
    names_job: bool,
    submitted: Option<Timestamp>,
    reported: Option<(JobPhase, Option<Reason>, Option<i64>)>,
    failure: Option<Timestamp>,
}

/// The result of one observation.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ProgressStep {
    /// The new line.
    pub line: Option<String>,
    /// Set after the job has ended.
    pub end: Option<Exit>,
}

impl JobProgress {
    /// Starts with a newly created job.
    /// `several`: the output contains other jobs too.
    #[must_use]
    pub fn from_job(job: &TrainingJob, several: bool) -> Self {
        Self {
            name: job.metadata.name.clone().unwrap_or_default(),
            uid: job.metadata.uid.clone(),
            names_job: several,
            submitted: job.metadata.creation_timestamp.as_ref().map(|time| time.0),
            reported: None,
            failure: None,
        }
    }

    /// Observes the job. None: the job does not exist any more.
    pub fn observe(&mut self, job: Option<&TrainingJob>, now: Timestamp) -> ProgressStep {
        let Some(job) = job.filter(|job| job.metadata.uid == self.uid) else {
            let line = self.format_line("Gone", Tone::Bad, "it was deleted", now);
            return ProgressStep {
                line: Some(line),
                end: Some(Exit::Negative),
            };
        };
        let Some(status) = &job.status else {
            return ProgressStep::default();
        };
        let Some(phase) = status.phase else {
            return ProgressStep::default();
        };
        let mut line = self.report_failure(status, now).unwrap_or_default();
        let state = (phase, status.reason, status.attempt);
        if self.reported != Some(state) {
            self.reported = Some(state);
            line.push_str(&self.format_line(
                phase.as_str(),
                phase_tone(phase),
                &describe_status(phase, status),
                now,
            ));
        }
        ProgressStep {
            line: Some(line).filter(|line| !line.is_empty()),
            end: exit_for(phase, status),
        }
    }

    /// Reports a new failure, once.
    fn report_failure(&mut self, status: &TrainingJobStatus, now: Timestamp) -> Option<String> {
        let failure = status.last_failure.as_ref()?;
        if self.failure == Some(failure.time.0) {
            return None;
        }
        self.failure = Some(failure.time.0);
        Some(self.format_line("Failure", Tone::Bad, &describe_failure(failure), now))
    }

    fn format_line(&self, word: &str, tone: Tone, message: &str, now: Timestamp) -> String {
        let since = self.submitted.map(|since| format_age(since, now));
        let whose = match self.names_job {
            true => format!("{}  ", sanitize(&self.name)),
            false => String::new(),
        };
        let since = since.unwrap_or_default();
        let painted = paint(word, tone);
        match sanitize(message).as_str() {
            "" => format!("{since:>6}  {whose}{painted}\n"),
            message => {
                let gap = " ".repeat(12_usize.saturating_sub(word.len()));
                format!("{since:>6}  {whose}{painted}{gap}{message}\n")
            }
        }
    }
}

fn describe_status(phase: JobPhase, status: &TrainingJobStatus) -> String {
    let ready = status.ready.as_deref().unwrap_or_default();
    match (phase, status.reason) {
        (JobPhase::Running | JobPhase::Starting, _) => {
            let attempt = status.attempt.filter(|attempt| *attempt > 1);
            let attempt = attempt.map(|attempt| format!(", attempt {attempt}"));
            format!("{ready} pods{}", attempt.unwrap_or_default())
        }
        (JobPhase::Complete, _) => String::new(),
        (_, Some(reason)) => {
            let message = status.message.as_deref().unwrap_or_default();
            format!("{reason}: {message}")
        }
        (_, None) => status.message.clone().unwrap_or_default(),
    }
}

fn describe_failure(failure: &LastFailure) -> String {
    let exit = failure
        .exit_code
        .map(|code| format!(" with exit code {code}"));
    let node = failure.node.as_ref().map(|node| format!(" on {node}"));
    let last = failure.last_line.as_ref().map(|line| format!(": {line}"));
    let pod = match failure.pod.as_str() {
        "" => String::new(),
        pod => format!(" of pod {pod}"),
    };
    format!(
        "{}{pod}{}{}{}",
        failure.reason,
        node.unwrap_or_default(),
        exit.unwrap_or_default(),
        last.unwrap_or_default()
    )
}

fn exit_for(phase: JobPhase, status: &TrainingJobStatus) -> Option<Exit> {
    match phase {
        JobPhase::Complete => Some(Exit::Done),
        JobPhase::Failed | JobPhase::Refused => Some(Exit::Negative),
        _ if status.has_ended() => Some(Exit::Negative),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn job(status: Value) -> TrainingJob {
        serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "llm", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"taskGroups": []}, "status": status,
        }))
        .unwrap()
    }

    fn at(seconds: i64) -> Timestamp {
        let begin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        Timestamp::from_second(begin.as_second().saturating_add(seconds)).unwrap()
    }

    fn plain(step: &ProgressStep) -> String {
        let line = step.line.clone().unwrap_or_default();
        anstream::adapter::strip_str(&line).to_string()
    }

    #[test]
    fn each_step_is_reported_once() {
        let mut progress = JobProgress::from_job(&job(json!(null)), false);
        assert_eq!(
            progress.observe(Some(&job(json!(null))), at(0)),
            ProgressStep::default()
        );
        let queued = |message: &str| {
            job(json!({"phase": "Queued", "reason": "InsufficientCapacity", "message": message}))
        };
        let step = progress.observe(Some(&queued("needs 8")), at(5));
        assert_eq!(
            plain(&step),
            "    5s  Queued      InsufficientCapacity: needs 8\n"
        );
        // A changed number is no new step.
        assert_eq!(
            progress.observe(Some(&queued("needs 7")), at(6)),
            ProgressStep::default()
        );
        let running = job(json!({"phase": "Running", "ready": "2/2", "attempt": 1}));
        let step = progress.observe(Some(&running), at(300));
        assert_eq!(plain(&step), "    5m  Running     2/2 pods\n");
        let failure = json!({"pod": "llm-worker-1", "node": "n2", "exitCode": 1, "reason": "Error",
            "lastLine": "out of data", "attempt": 1, "time": "2026-01-01T00:06:00Z"});
        let restarted = job(
            json!({"phase": "Restarting", "reason": "Restarting", "message": "attempt 2 is next",
            "attempt": 2, "lastFailure": failure}),
        );
        let step = progress.observe(Some(&restarted), at(360));
        assert_eq!(
            plain(&step),
            "    6m  Failure     Error of pod llm-worker-1 on n2 with exit code 1: out of data\n    6m  Restarting  Restarting: attempt 2 is next\n"
        );
        assert_eq!(step.end, None);
        let complete = job(json!({"phase": "Complete", "attempt": 2, "lastFailure": failure}));
        let step = progress.observe(Some(&complete), at(400));
        assert_eq!(plain(&step), " 6m40s  Complete\n");
        assert_eq!(step.end, Some(Exit::Done));
    }

    #[test]
    fn message_cannot_control_the_terminal() {
        let mut progress = JobProgress::from_job(&job(json!(null)), false);
        let failure = json!({"pod": "llm-worker-1", "reason": "Error", "attempt": 1,
            "lastLine": "\u{1b}[2Jout\n\u{202e}of data", "time": "2026-01-01T00:06:00Z"});
        let failed = job(json!({"phase": "Failed", "lastFailure": failure}));
        let line = progress.observe(Some(&failed), at(360)).line.unwrap();
        assert!(line.contains(": out of data\n"), "{line:?}");
        assert!(!line.contains("\x1b[2J"), "{line:?}");
    }

    #[test]
    fn deleted_or_replaced_job_ends_the_wait() {
        let mut progress = JobProgress::from_job(&job(json!(null)), true);
        let step = progress.observe(None, at(1));
        assert_eq!(step.end, Some(Exit::Negative));
        assert!(plain(&step).contains("llm  Gone"), "{step:?}");
        let mut other = job(json!({"phase": "Running"}));
        other.metadata.uid = Some("v".to_owned());
        assert_eq!(
            progress.observe(Some(&other), at(1)).end,
            Some(Exit::Negative)
        );
        let refused =
            job(json!({"phase": "Refused", "reason": "InvalidSpec", "message": "spec: x"}));
        assert_eq!(
            progress.observe(Some(&refused), at(1)).end,
            Some(Exit::Negative)
        );
        // Another version wrote this phase. The completion time shows that the job has ended.
        let strange = job(json!({"phase": "Dissolved", "completionTime": "2026-01-01T00:00:01Z"}));
        assert_eq!(
            progress.observe(Some(&strange), at(1)).end,
            Some(Exit::Negative)
        );
    }
}
