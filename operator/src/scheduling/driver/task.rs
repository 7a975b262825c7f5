//! The one task of a gang.

use tokio_util::sync::CancellationToken;

use crate::scheduling::Wish;

/// The writes that are under way for one gang. There is one at a time, for one
/// incarnation of the job: what comes of it means nothing to another.
#[derive(Debug)]
pub(super) struct Task {
    /// Uid of the job.
    pub(super) uid: String,
    /// The attempt that is being started. None for what is to be done in any case.
    pub(super) attempt: Option<i64>,
    /// Tells the task that nobody wants it any more.
    pub(super) stop: CancellationToken,
}

impl Task {
    /// True if what the task does is still wanted.
    pub(super) fn is_wanted(&self, wish: Option<&Wish>) -> bool {
        let Some(attempt) = self.attempt else {
            return true;
        };
        wish.and_then(Wish::run)
            .is_some_and(|run| run.attempt == attempt && run.uid == self.uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduling::fixtures::run;

    #[test]
    fn a_task_is_wanted_for_its_own_attempt_of_its_own_job() {
        let task = |uid: &str, attempt| Task {
            uid: uid.to_owned(),
            attempt,
            stop: CancellationToken::new(),
        };
        let (first, second) = (run(1), run(2));
        assert!(task("mine", Some(1)).is_wanted(Some(&first)));
        assert!(!task("mine", Some(1)).is_wanted(Some(&second)));
        assert!(!task("another", Some(1)).is_wanted(Some(&first)));
        assert!(!task("mine", Some(1)).is_wanted(Some(&Wish::Wait)));
        assert!(!task("mine", Some(1)).is_wanted(None));
        // What is to be done in any case.
        assert!(task("another", None).is_wanted(None));
    }
}
