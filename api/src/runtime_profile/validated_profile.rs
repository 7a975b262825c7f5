//! A RuntimeProfile that every rule holds for.

use k8s_openapi::api::core::v1::PodTemplateSpec;

use super::{RuntimeProfile, RuntimeProfileSpec};
use crate::Violations;
use crate::validation::check_rules;

/// A RuntimeProfile that every rule holds for. Only [`TryFrom`] makes one.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedProfile {
    name: String,
    spec: RuntimeProfileSpec,
    template: Option<PodTemplateSpec>,
}

impl ValidatedProfile {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The spec.
    #[must_use]
    pub fn spec(&self) -> &RuntimeProfileSpec {
        &self.spec
    }

    /// Its pod template.
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
            // What does not decode breaks a rule.
            template: template.and_then(|template| template.decode().ok()),
            name: profile.metadata.name.unwrap_or_default(),
            spec: profile.spec,
        })
    }
}
