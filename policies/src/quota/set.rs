//! The quota policies that take effect.

use std::collections::BTreeMap;
use std::fmt;

use trellis_api::queue::ResourceGroup;
use trellis_api::quota_policy::{GpuHours, QuotaPolicy, QuotaPolicySpec};
use trellis_api::{QueueSpec, validate};

use super::asking::Asking;
use super::draw::Verdict;
use super::rule::Rule;
use crate::selector::is_valid;

/// Why an object does not take effect. Until it does, no job starts that it may apply to, because
/// its limits are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// The object does not decode.
    Unreadable(String),
    /// A rule of its kind does not hold, as when it was written under another schema.
    Invalid(String),
    /// Kubernetes would not take the selector.
    Selector,
}

impl fmt::Display for Unusable {
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

impl std::error::Error for Unusable {}

/// All usable quota policies. [`QuotaPolicies::unusable`] lists the rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuotaPolicies {
    /// By name.
    rules: Vec<Rule>,
    unusable: Vec<(String, Unusable)>,
    /// Parent and resource groups of queues, by name.
    queues: BTreeMap<String, QueueQuota>,
}

/// Fields of a queue that quota policies look at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueQuota {
    parent: Option<String>,
    groups: Vec<ResourceGroup>,
}

impl From<&QueueSpec> for QueueQuota {
    fn from(spec: &QueueSpec) -> Self {
        Self {
            parent: spec.parent_name.clone(),
            groups: spec.resource_groups.clone(),
        }
    }
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
            match usable(object) {
                Ok(spec) => all.rules.push(Rule { name, spec }),
                Err(why) => all.unusable.push((name, why)),
            }
        }
        let unreadable = unreadable.into_iter();
        all.unusable
            .extend(unreadable.map(|(name, why)| (name, Unusable::Unreadable(why))));
        all.rules.sort_by(|a, b| a.name.cmp(&b.name));
        all.unusable.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// The policies with the existing queues. A job counts against the policies of its queue and of
    /// every queue above it. A share of a queue is a share of the nominal quota in and below it.
    #[must_use]
    pub fn with_queues(mut self, queues: BTreeMap<String, QueueQuota>) -> Self {
        self.queues = queues;
        self
    }

    /// The quota in and below a queue.
    pub(super) fn quota_of<'a>(
        &'a self,
        queue: &'a str,
    ) -> impl Iterator<Item = &'a ResourceGroup> {
        let all = self.queues.iter();
        let below = all.filter(move |(name, _)| self.path(name).contains(&queue));
        below.flat_map(|(_, of)| &of.groups)
    }

    /// A queue and all above it. One that is below itself is met once.
    fn path<'a>(&'a self, queue: &'a str) -> Vec<&'a str> {
        let mut path = vec![queue];
        let mut at = queue;
        while let Some(parent) = self.queues.get(at).and_then(|of| of.parent.as_ref()) {
            if path.contains(&parent.as_str()) {
                break;
            }
            path.push(parent);
            at = parent;
        }
        path
    }

    /// Policies that do not take effect, by name. While there is one, no job starts.
    #[must_use]
    pub fn unusable(&self) -> &[(String, Unusable)] {
        &self.unusable
    }

    /// The limit on GPU-hours of a policy, by its name. None: it has none.
    #[must_use]
    pub fn gpu_hours(&self, policy: &str) -> Option<&GpuHours> {
        let rule = self.rules.iter().find(|rule| rule.name == policy)?;
        rule.spec.limits.gpu_hours.as_ref()
    }

    /// The verdict of the policies on a job.
    #[must_use]
    pub fn judge(&self, job: &Asking<'_>) -> Verdict {
        let mut verdict = Verdict::default();
        let queues = self.path(job.queue);
        for rule in &self.rules {
            rule.judge(job, (self, &queues), &mut verdict);
        }
        verdict
    }
}

fn usable(object: &QuotaPolicy) -> Result<QuotaPolicySpec, Unusable> {
    validate::check(object).map_err(|violations| Unusable::Invalid(violations.to_string()))?;
    let selector = object.spec.subject.namespace_selector.as_ref();
    if selector.is_some_and(|selector| !is_valid(selector)) {
        return Err(Unusable::Selector);
    }
    Ok(object.spec.clone())
}
