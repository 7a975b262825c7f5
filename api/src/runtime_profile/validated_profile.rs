//! A RuntimeProfile that satisfies every rule.

use k8s_openapi::api::core::v1::PodTemplateSpec;

use super::{RuntimeProfile, RuntimeProfileSpec};
use crate::Violations;
use crate::validation::check_rules;

/// A RuntimeProfile that satisfies every rule. Only [`TryFrom`] creates one.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedProfile {
    name: String,
    spec: RuntimeProfileSpec,
    template: Option<PodTemplateSpec>,
}

impl ValidatedProfile {
    /// Returns the name of the profile.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the spec of the profile.
    #[must_use]
    pub fn spec(&self) -> &RuntimeProfileSpec {
        &self.spec
    }

    /// Returns the pod template of the profile.
    #[must_use]
    pub fn template(&self) -> Option<&PodTemplateSpec> {
        self.template.as_ref()
    }
}

impl TryFrom<RuntimeProfile> for ValidatedProfile {
    type Error = Violations;

    fn try_from(profile: RuntimeProfile) -> Result<Self, Violations> {
        check_rules(&profile)?;
        let template = profile.spec.pod_template.as_ref();
        Ok(Self {
            // A template that does not decode breaks a rule, so it cannot occur here.
            template: template.and_then(|template| template.decode().ok()),
            name: profile.metadata.name.unwrap_or_default(),
            spec: profile.spec,
        })
    }
}
