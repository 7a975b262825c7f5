//! What the API server has allowed a moment ago. Who polls is not asked about each time, and who is
//! refused is: a right that is given counts at once, one that is taken away a moment later.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::authorization::v1::SubjectAccessReviewSpec;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a right is believed in.
const HOLDS: Duration = Duration::from_secs(10);
/// Rights that are kept at most.
const MOST: usize = 1024;
/// Bytes of one at most: some users are in very many groups.
const LARGEST: usize = 8 * 1024;

/// Rights, by the whole question that was asked about them.
#[derive(Debug, Default)]
pub(super) struct Allowed(Mutex<BTreeMap<String, Instant>>);

/// A question, as it is kept. None: it is too long for that.
pub(super) fn question(spec: &SubjectAccessReviewSpec) -> Option<String> {
    let question = serde_json::to_string(spec).ok()?;
    (question.len() <= LARGEST).then_some(question)
}

impl Allowed {
    /// Whether it was allowed a moment ago.
    pub(super) fn has(&self, question: &str) -> bool {
        let known = self.0.lock().get(question).copied();
        known.is_some_and(|at| at.elapsed() < HOLDS)
    }

    /// It is allowed, as it was asked at that moment.
    pub(super) fn keep(&self, question: String, asked: Instant) {
        let mut known = self.0.lock();
        if known.len() >= MOST {
            known.retain(|_, at| at.elapsed() < HOLDS);
        }
        if known.len() < MOST {
            known.insert(question, asked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_allowed_is_asked_again_after_a_while() {
        let allowed = Allowed::default();
        allowed.keep("a".to_owned(), Instant::now());
        assert!(allowed.has("a") && !allowed.has("b"));
        tokio::time::sleep(HOLDS).await;
        assert!(!allowed.has("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_is_kept_than_there_is_room_for() {
        let allowed = Allowed::default();
        for number in 0..2 * MOST {
            allowed.keep(number.to_string(), Instant::now());
        }
        assert_eq!(allowed.0.lock().len(), MOST);
        tokio::time::sleep(HOLDS).await;
        allowed.keep("late".to_owned(), Instant::now());
        assert!(allowed.has("late"));
        let long = SubjectAccessReviewSpec {
            user: Some("a".repeat(LARGEST)),
            ..SubjectAccessReviewSpec::default()
        };
        assert_eq!(question(&long), None);
    }
}
