//! The quota policies that take effect.

use std::collections::BTreeMap;
use std::fmt;

use trellis_api::quota_policy::{GpuHours, QuotaPolicy, QuotaPolicySpec};
use trellis_api::validation;

use super::active_policy::ActiveQuotaPolicy;
use super::queue_quotas::{QueueQuota, QueueQuotas};
use super::quota_request::QuotaRequest;
use super::quota_verdict::QuotaVerdict;
use crate::selector::is_valid;

/// Why an object does not take effect. Until it does, no job starts that it may apply to, because
/// its limits are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnusableReason {
    /// The object does not decode.
    Unreadable(String),
    /// A rule of its kind does not hold, as when it was written under another schema.
    Invalid(String),
    /// Kubernetes would not take the selector.
    Selector,
}

impl fmt::Display for UnusableReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "it cannot be read: {why}"),
            Self::Invalid(why) => f.write_str(why),
            Self::Selector => f.write_str(
                "spec.subject.namespaceSelector is not a selector that Kubernetes would take",
            ),
        }
    }
}

impl std::error::Error for UnusableReason {}

/// All usable quota policies. [`QuotaPolicies::unusable`] lists the rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuotaPolicies {
    /// By name.
    active: Vec<ActiveQuotaPolicy>,
    unusable: Vec<(String, UnusableReason)>,
    queues: QueueQuotas,
}

impl QuotaPolicies {
    /// Reads the objects, and those that do not decode, by name.
    #[must_use]
    pub fn load<'a>(
        objects: impl IntoIterator<Item = &'a QuotaPolicy>,
        unreadable: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let mut all = Self::default();
        for object in objects {
            let name = object.metadata.name.clone().unwrap_or_default();
            match check_usable(object) {
                Ok(spec) => all.active.push(ActiveQuotaPolicy { name, spec }),
                Err(why) => all.unusable.push((name, why)),
            }
        }
        let unreadable = unreadable.into_iter();
        all.unusable
            .extend(unreadable.map(|(name, why)| (name, UnusableReason::Unreadable(why))));
        all.active.sort_by(|a, b| a.name.cmp(&b.name));
        all.unusable.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// The policies with the existing queues. A job counts against the policies of its queue and of
    /// every queue above it. A share of a queue is a share of the nominal quota in and below it.
    #[must_use]
    pub fn with_queues(mut self, queues: BTreeMap<String, QueueQuota>) -> Self {
        self.queues = QueueQuotas(queues);
        self
    }

    /// Policies that do not take effect, by name. While there is one, no job starts.
    #[must_use]
    pub fn unusable(&self) -> &[(String, UnusableReason)] {
        &self.unusable
    }

    /// The limit on GPU-hours of a policy, by its name. None: it has none.
    #[must_use]
    pub fn gpu_hours(&self, policy: &str) -> Option<&GpuHours> {
        let rule = self.active.iter().find(|rule| rule.name == policy)?;
        rule.spec.limits.gpu_hours.as_ref()
    }

    /// The verdict of the policies on a job.
    #[must_use]
    pub fn evaluate(&self, job: &QuotaRequest<'_>) -> QuotaVerdict {
        let mut verdict = QuotaVerdict::default();
        let path = self.queues.queue_with_ancestors(job.queue);
        for rule in &self.active {
            rule.evaluate(job, (&self.queues, &path), &mut verdict);
        }
        verdict
    }
}

fn check_usable(object: &QuotaPolicy) -> Result<QuotaPolicySpec, UnusableReason> {
    validation::check_rules(object)
        .map_err(|violations| UnusableReason::Invalid(violations.to_string()))?;
    let selector = object.spec.subject.namespace_selector.as_ref();
    if selector.is_some_and(|selector| !is_valid(selector)) {
        return Err(UnusableReason::Selector);
    }
    Ok(object.spec.clone())
}
