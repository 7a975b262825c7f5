//! Whose logs have been begun, and what the next one is to whoever follows. Pure.

use std::collections::BTreeSet;

use crate::pods::PodLine;

/// What has been begun so far.
#[derive(Debug, Default)]
pub struct Begun {
    first: Option<i64>,
    latest: Option<i64>,
    places: BTreeSet<(String, u32)>,
}

/// What a pod is to whoever follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comes {
    /// It was there: of its log that is shown which was asked for (`--tail`, `--since`).
    First,
    /// With a new attempt, which is news itself; all of its log is.
    WithAttempt,
    /// Of that new attempt is another already.
    AfterAttempt,
    /// In the place of one that was shown, in the same attempt.
    Again,
}

impl Begun {
    /// Another is begun.
    pub fn add(&mut self, pod: &PodLine) -> Comes {
        let first = *self.first.get_or_insert(pod.attempt);
        let before = self.latest.replace(pod.attempt);
        let is_again = !self.places.insert((pod.group.clone(), pod.index));
        match before {
            Some(before) if before != pod.attempt => {
                // Places are of one attempt.
                self.places.clear();
                self.places.insert((pod.group.clone(), pod.index));
                Comes::WithAttempt
            }
            _ if is_again => Comes::Again,
            _ if first != pod.attempt => Comes::AfterAttempt,
            _ => Comes::First,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_of_each_pod_that_was_there_and_of_none_that_came_later() {
        let mut begun = Begun::default();
        let mut add = |index, attempt| {
            begun.add(&PodLine {
                group: "worker".to_owned(),
                index,
                attempt,
                ..PodLine::default()
            })
        };
        assert_eq!([add(0, 1), add(1, 1), add(2, 1)], [Comes::First; 3]);
        assert_eq!(add(1, 1), Comes::Again);
        assert_eq!(add(0, 2), Comes::WithAttempt);
        assert_eq!(add(1, 2), Comes::AfterAttempt);
        assert_eq!(add(5, 2), Comes::AfterAttempt);
        assert_eq!(add(1, 2), Comes::Again);
    }
}
