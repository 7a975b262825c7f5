//! Whose logs have been begun, and what the next one is to whoever follows. Pure.

use std::collections::BTreeSet;

use crate::pods::PodLine;

/// What has been begun so far.
#[derive(Debug, Default)]
pub struct StartedLogs {
    first: Option<i64>,
    latest: Option<i64>,
    started_pods: BTreeSet<(String, u32)>,
}

/// What a pod is to whoever follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStart {
    /// It was there: of its log that is shown which was asked for (`--tail`, `--since`).
    Initial,
    /// With a new attempt, which is news itself; all of its log is.
    NewAttempt,
    /// Of that new attempt is another already.
    SameAttempt,
    /// In the place of one that was shown, in the same attempt.
    Replacement,
}

impl StartedLogs {
    /// Another is begun.
    pub fn add_pod(&mut self, pod: &PodLine) -> LogStart {
        let first = *self.first.get_or_insert(pod.attempt);
        let before = self.latest.replace(pod.attempt);
        let is_again = !self.started_pods.insert((pod.group.clone(), pod.index));
        match before {
            Some(before) if before != pod.attempt => {
                // Places are of one attempt.
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
