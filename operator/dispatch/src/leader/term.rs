//! The LeaderTerm, by which the API server refuses the writes of replicas that do not lead.
//!
//! A new leader writes its term once, after it has taken the Lease and before it reads anything
//! that it decides on. A write of an earlier leader then either came before these reads, or the
//! admission policy `trellis-leader` refuses it.
//!
//! The write is a compare-and-set. If the stored epoch is not lower than the leader's, the Lease has
//! been deleted, or another replica leads. The leader then raises the epoch in the Lease first,
//! which only the holder of the Lease can do.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};
use trellis_api::{LEADER_TERM_NAME, LeaderPod, LeaderTerm, LeaderTermSpec};
use trellis_gang::journal::epoch::Epoch;
use trellis_machine::clock;

use super::{Leadership, NotLeading};

/// Pause between two checks of the stored term. A user may have deleted it, a restore of etcd may
/// have changed it, and its CRD may be installed later than the operator.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Pause after a failed request.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// How long a new leader waits while the API server refuses its term. An API server that has just
/// started knows no roles yet.
const MAX_REFUSAL_TIME: Duration = Duration::from_secs(60);

/// Keys of the user information of a token that is bound to a pod.
const POD_NAME_KEY: &str = "authentication.kubernetes.io/pod-name";
const POD_UID_KEY: &str = "authentication.kubernetes.io/pod-uid";

/// Writes the LeaderTerm of one replica.
pub struct TermWriter {
    terms: Api<LeaderTerm>,
    reviews: Api<SelfSubjectReview>,
    identity: String,
    epochs: watch::Receiver<Epoch>,
    leadership: Leadership,
}

/// A term that was not written.
#[derive(Debug, thiserror::Error)]
enum TermError {
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    /// The cluster does not have the kind.
    #[error("the CRD of LeaderTerm is missing")]
    MissingKind,
    #[error("{0}")]
    Unanswered(String),
    #[error(transparent)]
    Request(#[from] kube::Error),
}

impl TermError {
    /// Returns true if the API server refuses the request itself, so that repetition may not help.
    fn is_refusal(&self) -> bool {
        match self {
            Self::MissingKind => true,
            Self::Request(kube::Error::Api(status)) => {
                (400..500).contains(&status.code) && !matches!(status.code, 409 | 429)
            }
            _ => false,
        }
    }
}

impl TermWriter {
    /// Creates the writer of a leader with this identity, which the Lease in `namespace` names.
    #[must_use]
    pub fn new(client: Client, namespace: &str, identity: String, leadership: Leadership) -> Self {
        Self {
            terms: Api::namespaced(client.clone(), namespace),
            reviews: Api::all(client),
            identity,
            epochs: leadership.watch_epoch(),
            leadership,
        }
    }

    /// Writes the term of a new leader. The caller renews the Lease meanwhile, and writes nothing
    /// else before this returns.
    ///
    /// Without the CRD, or if the API server refuses the term for a minute, the leader goes on
    /// without it: the term is a second line of defence.
    ///
    /// # Errors
    /// If this replica no longer leads.
    pub async fn begin(&mut self) -> Result<(), NotLeading> {
        let began = Instant::now();
        let mut logged_error = None;
        loop {
            match self.write().await {
                Ok(()) => return Ok(()),
                Err(TermError::NotLeading(error)) => return Err(error),
                Err(error @ TermError::MissingKind) => {
                    warn_unfenced(&error);
                    return Ok(());
                }
                Err(error) if error.is_refusal() && began.elapsed() > MAX_REFUSAL_TIME => {
                    warn_unfenced(&error);
                    return Ok(());
                }
                Err(error) => {
                    let error = error.to_string();
                    if logged_error.as_ref() != Some(&error) {
                        warn!(error, "the LeaderTerm was not written");
                        logged_error = Some(error);
                    }
                }
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Writes the term again when the epoch rises, and when another client has changed or deleted
    /// it. Never returns.
    pub async fn maintain(mut self) {
        let mut is_logged = false;
        let mut pause = CHECK_INTERVAL;
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // The sender lives as long as the leadership.
                _ = self.epochs.changed() => {}
            }
            pause = CHECK_INTERVAL;
            match self.write().await {
                Ok(()) => is_logged = false,
                // The loop that renews the Lease ends the process.
                Err(TermError::NotLeading(_)) => {}
                Err(error) => {
                    if !error.is_refusal() {
                        pause = RETRY_PAUSE;
                    }
                    if !std::mem::replace(&mut is_logged, true) {
                        warn_unfenced(&error);
                    }
                }
            }
        }
    }

    /// Writes the term, unless it is stored already.
    async fn write(&mut self) -> Result<(), TermError> {
        loop {
            self.epochs.mark_unchanged();
            let epoch = self.leadership.check()?;
            let stored = self.read_term().await?;
            if let Some(term) = &stored {
                if term.spec.epoch == epoch.0 && term.spec.identity == self.identity {
                    return Ok(());
                }
                if term.spec.epoch >= epoch.0 {
                    let stored = term.spec.epoch;
                    info!(
                        epoch = epoch.0,
                        stored,
                        "raises the epoch above that of the LeaderTerm, because the Lease was recreated"
                    );
                    self.leadership.raise_above(Epoch(stored)).await;
                    continue;
                }
            }
            match self.replace(stored, epoch).await {
                // Another replica has written the term, or an earlier try of this write succeeded.
                Err(TermError::Request(kube::Error::Api(status))) if status.code == 409 => {}
                result => return result,
            }
        }
    }

    async fn read_term(&self) -> Result<Option<LeaderTerm>, TermError> {
        match self.await_answer(self.terms.get(LEADER_TERM_NAME)).await {
            Ok(term) => Ok(Some(term)),
            Err(TermError::Request(kube::Error::Api(status))) if status.code == 404 => {
                // Without the kind, the answer is no Status.
                if status.is_not_found() {
                    Ok(None)
                } else {
                    Err(TermError::MissingKind)
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the term if the stored term has not changed.
    async fn replace(&self, stored: Option<LeaderTerm>, epoch: Epoch) -> Result<(), TermError> {
        let spec = LeaderTermSpec {
            epoch: epoch.0,
            identity: self.identity.clone(),
            pod: self.read_pod().await?,
            since: Time(clock::now()),
        };
        let params = PostParams::default();
        self.leadership.check()?;
        if let Some(mut term) = stored {
            term.spec = spec;
            let replaced = self.terms.replace(LEADER_TERM_NAME, &params, &term);
            self.await_answer(replaced).await?;
            return Ok(());
        }
        let term = LeaderTerm::new(LEADER_TERM_NAME, spec);
        self.await_answer(self.terms.create(&params, &term)).await?;
        Ok(())
    }

    /// Returns the pod that the API server finds in the token of this process. None: the token
    /// belongs to no pod.
    async fn read_pod(&self) -> Result<Option<LeaderPod>, TermError> {
        let (params, review) = (PostParams::default(), SelfSubjectReview::default());
        let review = self
            .await_answer(self.reviews.create(&params, &review))
            .await?;
        let user = review.status.and_then(|status| status.user_info);
        let extra = user.and_then(|user| user.extra).unwrap_or_default();
        let value = |key: &str| extra.get(key)?.first().cloned();
        let pod = value(POD_NAME_KEY).zip(value(POD_UID_KEY));
        Ok(pod.map(|(name, uid)| LeaderPod { name, uid }))
    }

    /// Waits for an answer no longer than this replica leads, and no longer than for any write.
    async fn await_answer<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, TermError> {
        let time = self.leadership.request_time();
        tokio::select! {
            biased;
            result = request => Ok(result?),
            () = self.leadership.wait_until_lost() => Err(NotLeading.into()),
            () = tokio::time::sleep(time) => {
                Err(TermError::Unanswered(format!("no answer came within {time:?}")))
            }
        }
    }
}

fn warn_unfenced(error: &TermError) {
    warn!(
        %error,
        "the LeaderTerm was not written: the API server does not refuse late writes of an earlier leader; install the CRDs and roles of the chart"
    );
}

#[cfg(test)]
mod tests;
