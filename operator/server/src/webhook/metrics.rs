//! Metrics of the webhook, in the OpenMetrics format.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use trellis_dispatch::counts::add;
use trellis_dispatch::facts;

use super::answer::Decision;
use super::judge::Kind;
use crate::serve::Identity;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Asked {
    kind: &'static str,
    decision: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Unanswered {
    code: u16,
}

/// All metrics of the webhook.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    requests: Family<Asked, Counter>,
    unanswered: Family<Unanswered, Counter>,
    seconds: Histogram,
    in_flight: Gauge<i64, AtomicI64>,
    certificate_ends: Gauge<i64, AtomicI64>,
    certificate_degraded: Gauge<i64, AtomicI64>,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let mut registry = Registry::with_prefix("trellis");
        let requests = Family::<Asked, Counter>::default();
        let unanswered = Family::<Unanswered, Counter>::default();
        // From half a millisecond to four seconds.
        let seconds = Histogram::new(exponential_buckets(0.000_5, 2.0, 14));
        let in_flight = Gauge::default();
        let certificate_ends = Gauge::default();
        let certificate_degraded = Gauge::default();
        let all = &mut registry;
        add(all, facts::WEBHOOK_REQUESTS, requests.clone());
        add(all, facts::WEBHOOK_UNANSWERED, unanswered.clone());
        add(all, facts::WEBHOOK_SECONDS, seconds.clone());
        add(all, facts::WEBHOOK_IN_FLIGHT, in_flight.clone());
        let ends = certificate_ends.clone();
        add(all, facts::WEBHOOK_CERTIFICATE_EXPIRY, ends);
        let degraded = certificate_degraded.clone();
        add(all, facts::WEBHOOK_CERTIFICATE_DEGRADED, degraded);
        Self {
            registry,
            requests,
            unanswered,
            seconds,
            in_flight,
            certificate_ends,
            certificate_degraded,
        }
    }

    /// Counts a request in flight, until the guard is dropped.
    pub(super) fn enter(self: &Arc<Self>) -> InFlight {
        self.in_flight.inc();
        InFlight(self.clone())
    }

    pub(super) fn answered(&self, kind: Kind, decision: Decision, took: Duration) {
        let asked = Asked {
            kind: kind.as_str(),
            decision: decision.as_str(),
        };
        self.requests.get_or_create(&asked).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    pub(super) fn not_answered(&self, code: u16) {
        self.unanswered.get_or_create(&Unanswered { code }).inc();
    }

    /// All metrics as text.
    pub(super) fn text(&self, identity: &Identity) -> Result<String, std::fmt::Error> {
        let ends = identity.ends().map_or(0, |ends| ends.as_second());
        self.certificate_ends.set(ends);
        self.certificate_degraded
            .set(i64::from(identity.is_degraded()));
        let mut out = String::new();
        text::encode(&mut out, &self.registry)?;
        Ok(out)
    }
}

/// Guard for a request in flight.
pub(super) struct InFlight(Arc<Metrics>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.dec();
    }
}

/// The text with every metric set.
#[cfg(test)]
pub(crate) fn told() -> String {
    let metrics = Metrics::new();
    metrics.answered(Kind::Job, Decision::Allowed, Duration::ZERO);
    metrics.not_answered(400);
    metrics.text(&Identity::default()).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_told() {
        let metrics = Arc::new(Metrics::new());
        let one = metrics.enter();
        metrics.answered(Kind::Job, Decision::Refused, Duration::from_millis(3));
        metrics.not_answered(413);
        let text = metrics.text(&Identity::default()).unwrap();
        for line in [
            "trellis_webhook_requests_total{kind=\"TrainingJob\",decision=\"Refused\"} 1",
            "trellis_webhook_unanswered_total{code=\"413\"} 1",
            "trellis_webhook_in_flight 1",
            "trellis_webhook_duration_seconds_bucket{le=\"0.004\"} 1",
            "trellis_webhook_certificate_expiry_timestamp_seconds 0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}: {text}");
        }
        drop(one);
        let text = metrics.text(&Identity::default()).unwrap();
        assert!(text.contains("trellis_webhook_in_flight 0"), "{text}");
    }
}
