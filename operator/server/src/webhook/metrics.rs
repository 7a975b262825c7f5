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
use trellis_dispatch::metric_catalog;
use trellis_dispatch::metrics::register_metric;

use super::answer::ReviewDecision;
use super::judge::ObjectKind;
use crate::serve::Identity;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReviewLabels {
    kind: &'static str,
    decision: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    code: u16,
}

/// All metrics of the webhook.
#[derive(Debug)]
pub(super) struct WebhookMetrics {
    registry: Registry,
    requests: Family<ReviewLabels, Counter>,
    unanswered: Family<FailureLabels, Counter>,
    seconds: Histogram,
    in_flight: Gauge<i64, AtomicI64>,
    certificate_ends: Gauge<i64, AtomicI64>,
    certificate_degraded: Gauge<i64, AtomicI64>,
}

impl WebhookMetrics {
    pub(super) fn new() -> Self {
        let mut registry = Registry::with_prefix("trellis");
        let requests = Family::<ReviewLabels, Counter>::default();
        let unanswered = Family::<FailureLabels, Counter>::default();
        // From half a millisecond to four seconds.
        let seconds = Histogram::new(exponential_buckets(0.000_5, 2.0, 14));
        let in_flight = Gauge::default();
        let certificate_ends = Gauge::default();
        let certificate_degraded = Gauge::default();
        let all = &mut registry;
        register_metric(all, metric_catalog::WEBHOOK_REQUESTS, requests.clone());
        register_metric(all, metric_catalog::WEBHOOK_UNANSWERED, unanswered.clone());
        register_metric(all, metric_catalog::WEBHOOK_SECONDS, seconds.clone());
        register_metric(all, metric_catalog::WEBHOOK_IN_FLIGHT, in_flight.clone());
        let ends = certificate_ends.clone();
        register_metric(all, metric_catalog::WEBHOOK_CERTIFICATE_EXPIRY, ends);
        let degraded = certificate_degraded.clone();
        register_metric(all, metric_catalog::WEBHOOK_CERTIFICATE_DEGRADED, degraded);
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

    /// Counts a request as in flight until the guard is dropped.
    pub(super) fn track_request(self: &Arc<Self>) -> InFlight {
        self.in_flight.inc();
        InFlight(self.clone())
    }

    pub(super) fn count_answer(&self, kind: ObjectKind, decision: ReviewDecision, took: Duration) {
        let labels = ReviewLabels {
            kind: kind.as_str(),
            decision: decision.as_str(),
        };
        self.requests.get_or_create(&labels).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    pub(super) fn count_failure(&self, code: u16) {
        self.unanswered.get_or_create(&FailureLabels { code }).inc();
    }

    /// Returns all metrics as text.
    pub(super) fn render(&self, identity: &Identity) -> Result<String, std::fmt::Error> {
        let ends = identity.expiry().map_or(0, |ends| ends.as_second());
        self.certificate_ends.set(ends);
        self.certificate_degraded
            .set(i64::from(identity.is_degraded()));
        let mut out = String::new();
        text::encode(&mut out, &self.registry)?;
        Ok(out)
    }
}

/// Guard for a request in flight.
pub(super) struct InFlight(Arc<WebhookMetrics>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.dec();
    }
}

/// Returns the text with every metric set.
#[cfg(test)]
pub(crate) fn sample_text() -> String {
    let metrics = WebhookMetrics::new();
    metrics.count_answer(ObjectKind::Job, ReviewDecision::Allowed, Duration::ZERO);
    metrics.count_failure(400);
    metrics.render(&Identity::default()).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_requests_appear_in_the_metrics() {
        let metrics = Arc::new(WebhookMetrics::new());
        let one = metrics.track_request();
        metrics.count_answer(
            ObjectKind::Job,
            ReviewDecision::Refused,
            Duration::from_millis(3),
        );
        metrics.count_failure(413);
        let text = metrics.render(&Identity::default()).unwrap();
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
        let text = metrics.render(&Identity::default()).unwrap();
        assert!(text.contains("trellis_webhook_in_flight 0"), "{text}");
    }
}
