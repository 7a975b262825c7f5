//! Acquires, renews and releases the Lease.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::Instant;
use tracing::{debug, info, warn};
use trellis_machine::clock;

use super::leadership::{Leadership, REQUEST_TIMEOUT, request_time};
use super::{epoch_of, transitions, transitions_of};

/// Name of the Lease.
pub const LEASE_NAME: &str = "trellis-operator";
/// Annotation with the seconds for which the holder waits for an answer to a write. The next
/// candidate waits for this long after the lease has run out.
const REQUEST_SECONDS: &str = "trellis.dev/request-seconds";
/// How long the API server may refuse the lease before that counts as an installation error.
const REFUSAL_ERROR_AFTER: Duration = Duration::from_secs(60);

/// Result of one check of the lease.
enum LeaseCheck {
    /// The lease is ours.
    Acquired(Box<(Leadership, Lease)>),
    /// Look again after this time.
    CheckAgainIn(Duration),
}

/// The version of a lease, and the time since which this process has seen no other version.
///
/// A candidate reads no clock of another machine: the lease is over when it has not changed for
/// its duration by the clock of the candidate.
#[derive(Default)]
struct LeaseObservation(Option<(String, Instant)>);

impl LeaseObservation {
    /// Returns how much of `needed` is left at `now`, for a lease that is seen at `version`. Zero
    /// if the lease has not changed for the whole time.
    fn remaining(&mut self, version: &str, now: Instant, needed: Duration) -> Duration {
        match &self.0 {
            Some((before, since)) if before == version => {
                needed.saturating_sub(now.saturating_duration_since(*since))
            }
            _ => {
                self.0 = Some((version.to_owned(), now));
                needed
            }
        }
    }
}

/// Returns the time until the next check of a lease that is held for `left`. It is no later than
/// the end of the lease. None: the lease is over.
fn next_check(remaining: Duration, pause: Duration) -> Option<Duration> {
    (!remaining.is_zero()).then(|| remaining.min(pause))
}

/// One candidate for the lease.
pub struct Candidate {
    api: Api<Lease>,
    identity: String,
    duration: Duration,
}

impl Candidate {
    /// Creates a candidate with an identity that no other process has ever had.
    #[must_use]
    pub fn new(client: Client, namespace: &str, identity: String, duration: Duration) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            identity,
            duration,
        }
    }

    /// Waits until the lease is ours.
    ///
    /// # Errors
    /// If this process lacks the right to read or write the lease, so that waiting does not help.
    pub async fn acquire(&self) -> anyhow::Result<(Leadership, Lease)> {
        let mut unchanged = LeaseObservation::default();
        let mut refused: Option<Instant> = None;
        loop {
            let pause = match self.try_acquire(&mut unchanged).await {
                Ok(LeaseCheck::Acquired(taken)) => return Ok(*taken),
                Ok(LeaseCheck::CheckAgainIn(pause)) => pause,
                // An API server that has just started knows no roles yet, so only a lasting refusal
                // is an error.
                Err(kube::Error::Api(status)) if status.code == 403 || status.code == 404 => {
                    let since = *refused.get_or_insert_with(Instant::now);
                    if since.elapsed() > REFUSAL_ERROR_AFTER {
                        anyhow::bail!(
                            "the lease {LEASE_NAME:?} cannot be taken: {}: its namespace must be there (--namespace), and the roles of the chart",
                            status.message
                        )
                    }
                    warn!(
                        error = status.message,
                        "the lease was not taken: its namespace must be there (--namespace), and the roles of the chart"
                    );
                    tokio::time::sleep(self.check_interval()).await;
                    continue;
                }
                Err(error) => {
                    debug!(%error, "the lease was not taken");
                    self.check_interval()
                }
            };
            refused = None;
            tokio::time::sleep(pause).await;
        }
    }

    async fn try_acquire(&self, unchanged: &mut LeaseObservation) -> kube::Result<LeaseCheck> {
        let Some(mut lease) = self.api.get_opt(LEASE_NAME).await? else {
            let requested_at = Instant::now();
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(LEASE_NAME.to_owned()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.spec(0)),
            };
            let lease = self.with_request_time(lease);
            let lease = match self.api.create(&PostParams::default(), &lease).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    return Ok(LeaseCheck::CheckAgainIn(self.check_interval()));
                }
                result => result?,
            };
            return Ok(self.start_leadership(lease, requested_at));
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let is_held = spec
            .holder_identity
            .as_deref()
            .is_some_and(|h| !h.is_empty());
        if is_held {
            let remaining =
                unchanged.remaining(&version, Instant::now(), self.takeover_delay(&lease));
            if let Some(wait) = next_check(remaining, self.check_interval()) {
                return Ok(LeaseCheck::CheckAgainIn(wait));
            }
        }
        let transitions = spec.lease_transitions.unwrap_or(0).saturating_add(1);
        lease.spec = Some(self.spec(transitions));
        let lease = self.with_request_time(lease);
        let requested_at = Instant::now();
        match self
            .api
            .replace(LEASE_NAME, &PostParams::default(), &lease)
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 409 => {
                Ok(LeaseCheck::CheckAgainIn(self.check_interval()))
            }
            result => Ok(self.start_leadership(result?, requested_at)),
        }
    }

    /// Returns the longest time between two checks of the lease.
    fn check_interval(&self) -> Duration {
        self.duration.checked_div(5).unwrap_or(self.duration)
    }

    /// Returns how long a lease must stay unchanged until its holder is done: the lease has run
    /// out, and the holder's last requests have been answered or have timed out.
    fn takeover_delay(&self, lease: &Lease) -> Duration {
        let spec = lease.spec.as_ref();
        let seconds = spec.and_then(|s| s.lease_duration_seconds).unwrap_or(0);
        let lease_duration = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let published = lease.metadata.annotations.as_ref();
        let published = published.and_then(|a| a.get(REQUEST_SECONDS)?.parse().ok());
        // A holder that publishes no time waits no longer than the general maximum.
        let request = published.map_or(REQUEST_TIMEOUT, Duration::from_secs);
        lease_duration
            .max(self.duration)
            .saturating_add(request.min(REQUEST_TIMEOUT))
    }

    /// Adds to the lease how long its holder waits for answers.
    fn with_request_time(&self, mut lease: Lease) -> Lease {
        let time = request_time(self.duration);
        let seconds = time.as_millis().div_ceil(1000).to_string();
        let annotations = lease.metadata.annotations.get_or_insert_default();
        annotations.insert(REQUEST_SECONDS.to_owned(), seconds);
        lease
    }

    fn start_leadership(&self, lease: Lease, requested_at: Instant) -> LeaseCheck {
        let epoch = epoch_of(transitions(&lease));
        let leadership = Leadership::new(epoch, requested_at, self.duration);
        leadership.extend(requested_at, self.duration);
        info!(epoch = epoch.0, identity = %self.identity, "leading");
        LeaseCheck::Acquired(Box::new((leadership, lease)))
    }

    fn spec(&self, transitions: i32) -> LeaseSpec {
        let now = MicroTime(clock::now());
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.duration.as_secs().max(1)).ok(),
            lease_transitions: Some(transitions),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            ..LeaseSpec::default()
        }
    }

    /// Renews the lease until it is lost. Does not try after its end.
    pub async fn renew_until_lost(&self, leadership: &Leadership, mut lease: Lease) {
        let pause = self.duration.checked_div(4).unwrap_or(self.duration);
        let mut raised = leadership.wanted_epoch.subscribe();
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // The sender lives as long as the leadership.
                _ = raised.changed() => {}
            }
            if leadership.check().is_err() {
                break;
            }
            let requested_at = Instant::now();
            let wanted = transitions_of(*raised.borrow_and_update());
            let mut renewed = lease.clone();
            if let Some(spec) = &mut renewed.spec {
                spec.renew_time = Some(MicroTime(clock::now()));
                spec.lease_transitions = spec.lease_transitions.max(wanted);
            }
            let params = PostParams::default();
            let answer = tokio::select! {
                answer = self.api.replace(LEASE_NAME, &params, &renewed) => answer,
                () = leadership.wait_until_lost() => break,
            };
            match answer {
                Ok(renewed) => {
                    lease = renewed;
                    leadership.record_transitions(transitions(&lease));
                    leadership.extend(requested_at, self.duration);
                }
                // A conflict may come from our own write whose answer was lost: read who holds the
                // lease.
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    match self.api.get(LEASE_NAME).await {
                        Ok(now) if self.is_ours(&now, &[&lease, &renewed]) => lease = now,
                        Ok(_) => {
                            warn!("another process has taken the lease");
                            break;
                        }
                        // A replace of a deleted Lease fails with a conflict, because this kind may
                        // be created by an update.
                        Err(kube::Error::Api(status)) if status.code == 404 => {
                            warn!("the lease has been deleted");
                            break;
                        }
                        Err(error) => warn!(%error, "the lease was not renewed"),
                    }
                }
                // The Lease is gone, so the next leader need not wait for its end, and this one
                // stops at once.
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    warn!("the lease has been deleted");
                    break;
                }
                Err(error) => warn!(%error, "the lease was not renewed"),
            }
        }
        leadership.lose();
    }

    /// Returns true if the lease is still ours, in an epoch that we wrote.
    fn is_ours(&self, now: &Lease, written: &[&Lease]) -> bool {
        let holder = now.spec.as_ref().and_then(|s| s.holder_identity.as_deref());
        holder == Some(self.identity.as_str())
            && written.iter().any(|w| transitions(w) == transitions(now))
    }

    /// Gives the lease back, so that the next leader need not wait for its end.
    pub async fn release(&self, leadership: &Leadership) {
        if leadership.check().is_err() {
            return;
        }
        leadership.lose();
        let Ok(mut lease) = self.api.get(LEASE_NAME).await else {
            return;
        };
        let Some(spec) = &mut lease.spec else { return };
        if spec.holder_identity.as_deref() == Some(self.identity.as_str()) {
            spec.holder_identity = Some(String::new());
            let _ = self
                .api
                .replace(LEASE_NAME, &PostParams::default(), &lease)
                .await;
        }
    }
}

#[cfg(test)]
mod tests {
    use trellis_gang::journal::epoch::Epoch;

    use super::*;

    #[test]
    fn candidate_checks_again_when_the_lease_may_have_expired() {
        let timeout = Duration::from_secs(30);
        let start = Instant::now();
        let mut unchanged = LeaseObservation::default();
        let mut remaining = |version: &str, seconds: u64| {
            let remaining =
                unchanged.remaining(version, start + Duration::from_secs(seconds), timeout);
            remaining.as_secs()
        };
        assert_eq!(
            (remaining("1", 0), remaining("1", 3), remaining("1", 29)),
            (30, 27, 1)
        );
        // The wait for a renewed lease starts at the check that shows the renewal.
        assert_eq!((remaining("2", 31), remaining("2", 59)), (30, 2));
        assert_eq!((remaining("2", 61), remaining("2", 90)), (0, 0));
        let check_after = |remaining| {
            let pause = Duration::from_secs(6);
            next_check(Duration::from_secs(remaining), pause).map(|wait| wait.as_secs())
        };
        assert_eq!(
            (check_after(30), check_after(1), check_after(0)),
            (Some(6), Some(1), None)
        );
    }

    #[tokio::test]
    async fn successor_waits_for_the_requests_of_the_holder() {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(nowhere).unwrap();
        let candidate = |seconds: u64| {
            let lease = Duration::from_secs(seconds);
            Candidate::new(client.clone(), "ns", String::new(), lease)
        };
        let takeover_seconds = |own_seconds: u64, holder_seconds: u64| {
            let holder = candidate(holder_seconds);
            let lease = holder.with_request_time(Lease {
                spec: Some(holder.spec(0)),
                ..Lease::default()
            });
            let leadership = Leadership::new(Epoch(1), Instant::now(), holder.duration);
            let request_time = leadership.request_time();
            let delay = candidate(own_seconds).takeover_delay(&lease);
            assert!(delay >= holder.duration + request_time, "{delay:?}");
            delay.as_secs()
        };
        // The wait after a short lease is short. After a long lease it is the general maximum.
        assert_eq!(
            (
                takeover_seconds(2, 2),
                takeover_seconds(15, 15),
                takeover_seconds(60, 60)
            ),
            (4, 30, 75)
        );
        assert_eq!((takeover_seconds(2, 60), takeover_seconds(60, 2)), (75, 62));
        // This holder does not publish its wait.
        let mut without_request_time = Lease {
            spec: Some(candidate(2).spec(0)),
            ..Lease::default()
        };
        assert_eq!(
            candidate(2).takeover_delay(&without_request_time).as_secs(),
            17
        );
        let too_long = [(REQUEST_SECONDS.to_owned(), "86400".to_owned())];
        without_request_time.metadata.annotations = Some(too_long.into());
        assert_eq!(
            candidate(2).takeover_delay(&without_request_time).as_secs(),
            17
        );
    }
}
