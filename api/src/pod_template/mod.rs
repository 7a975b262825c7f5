//! A partial pod template: settings of a job's or profile's pods that have no field of their own.
//!
//! The template is kept as written. [`PodTemplate::decode`] reads it strictly, as Kubernetes' own
//! type, and [`PodTemplate::violations`] checks it against the rules.

mod decode;
mod forbidden_fields;

use std::borrow::Cow;

use garde::Validate;
use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::job::Framework;
use crate::{Violation, rules};

/// Name of the container that a task group describes. A template's container of this name applies
/// to the group's own container.
pub const MAIN_CONTAINER: &str = "main";
/// Largest template, in bytes of JSON. With sixteen groups a job stays well within one object.
pub const MAX_TEMPLATE: usize = 32 * 1024;

/// Metadata and spec of pods in Kubernetes' format. Any part may be absent.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(transparent)]
pub struct PodTemplate(Map<String, Value>);

impl PodTemplate {
    /// Decodes the template into Kubernetes' type.
    ///
    /// # Errors
    /// Every field that Kubernetes does not know, or whose type is wrong.
    ///
    /// ```
    /// use trellis_api::PodTemplate;
    /// let template: PodTemplate = serde_json::from_str(r#"{"spec": {"nodeNam": "a"}}"#)?;
    /// let violations = template.decode().unwrap_err();
    /// assert_eq!(violations[0].path, "spec.nodeNam");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn decode(&self) -> Result<PodTemplateSpec, Vec<Violation>> {
        decode::decode(&self.0)
    }

    /// Returns all violations of the template, with paths within it.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        if !self.is_small() {
            return vec![Violation {
                path: String::new(),
                message: rules::POD_TEMPLATE_SIZE.message().to_owned(),
            }];
        }
        match self.decode() {
            Ok(template) => forbidden_fields::collect_violations(&template),
            Err(violations) => violations,
        }
    }

    /// Returns the main container's variables that a framework sets. [`Self::violations`] contains
    /// those that Trellis itself sets.
    #[must_use]
    pub fn reserved_env(&self, framework: Framework) -> Vec<Violation> {
        let containers = self.containers();
        let mut reserved = Vec::new();
        for (c, container) in containers.iter().enumerate() {
            for (v, variable) in container.env.iter().flatten().enumerate() {
                let is_frameworks =
                    container.name == MAIN_CONTAINER && !rules::is_trellis_env(&variable.name);
                if let Err(error) = rules::reserved_env(&variable.name, framework)
                    && is_frameworks
                {
                    reserved.push(Violation {
                        path: format!("spec.containers[{c}].env[{v}].name"),
                        message: error.message().to_owned(),
                    });
                }
            }
        }
        reserved
    }

    /// Returns the names of the main container's variables.
    pub(crate) fn main_env(&self) -> Vec<String> {
        let main = self.containers().into_iter();
        main.filter(|container| container.name == MAIN_CONTAINER)
            .flat_map(|container| container.env.unwrap_or_default())
            .map(|variable| variable.name)
            .collect()
    }

    /// Returns the containers, or none if the template does not decode.
    fn containers(&self) -> Vec<Container> {
        let template = self.decode().unwrap_or_default();
        template
            .spec
            .map(|spec| spec.containers)
            .unwrap_or_default()
    }

    fn is_small(&self) -> bool {
        serde_json::to_vec(&self.0).is_ok_and(|json| json.len() <= MAX_TEMPLATE)
    }
}

impl Validate for PodTemplate {
    type Context = ();

    fn validate_into(
        &self,
        (): &(),
        parent: &mut dyn FnMut() -> garde::Path,
        report: &mut garde::Report,
    ) {
        for violation in self.violations() {
            let path = match violation.path.as_str() {
                "" => parent(),
                within => parent().join(within),
            };
            report.append(path, garde::Error::new(violation.message));
        }
    }
}

impl JsonSchema for PodTemplate {
    fn schema_name() -> Cow<'static, str> {
        "PodTemplate".into()
    }

    fn inline_schema() -> bool {
        true
    }

    /// Kubernetes' own schema of a pod template is larger than all Trellis schemas together.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
    }
}

#[cfg(test)]
mod tests;
