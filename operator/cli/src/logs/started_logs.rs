//! Tracks the started logs, and classifies the next one. Pure.

use std::collections::BTreeSet;

use trellis_reads::pods::PodLine;

/// The logs that were started so far.
#[derive(Debug, Default)]
pub struct StartedLogs {
    first: Option<i64>,
    latest: Option<i64>,
    started_pods: BTreeSet<(String, u32)>,
}

/// Relation of a new pod to the pods before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStart {
    /// The pod existed at the start. `--tail` and `--since` apply to its log.
    Initial,
    /// The first pod of a new attempt, which is reported.
    /// The complete log is shown.
    NewAttempt,
    /// Another pod of an attempt that was already reported.
    SameAttempt,
    /// Replaces a pod with the same group and index, in the same attempt.
    Replacement,
}

impl StartedLogs {
    /// Adds a pod whose log starts now.
    pub fn add_pod(&mut self, pod: &PodLine) -> LogStart {
        let first = *self.first.get_or_insert(pod.attempt);
        let before = self.latest.replace(pod.attempt);
        let is_again = !self.started_pods.insert((pod.group.clone(), pod.index));
        match before {
            Some(before) if before != pod.attempt => {
                // Group and index are unique only within one attempt.
                self.started_pods.clear();
                self.started_pods.insert((pod.group.clone(), pod.index));
                LogStart::NewAttempt
            }
            _ if is_again => LogStart::Replacement,
            _ if first != pod.attempt => LogStart::SameAttempt,
            _ => LogStart::Initial,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_applies_to_initial_pods_and_not_to_later_pods() {
        let mut begun = StartedLogs::default();
        let mut add = |index, attempt| {
            begun.add_pod(&PodLine {
                group: "worker".to_owned(),
                index,
                attempt,
                ..PodLine::default()
            })
        };
        assert_eq!([add(0, 1), add(1, 1), add(2, 1)], [LogStart::Initial; 3]);
        assert_eq!(add(1, 1), LogStart::Replacement);
        assert_eq!(add(0, 2), LogStart::NewAttempt);
        assert_eq!(add(1, 2), LogStart::SameAttempt);
        assert_eq!(add(5, 2), LogStart::SameAttempt);
        assert_eq!(add(1, 2), LogStart::Replacement);
    }
}
