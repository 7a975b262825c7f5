//! Translates the autoscaler of a scenario into the script.

use std::collections::BTreeMap;

use trellis_scheduler::{FlavorName, Time};
use trellis_simulate::ScriptChange;
use trellis_simulate::scenario::ScenarioAutoscaler;

use super::script_author::ScriptAuthor;
use crate::files::source_object::SourceObject;

impl ScriptAuthor {
    /// Adds the autoscaler of a scenario. All flavors must be known.
    pub(super) fn add_autoscaler(
        &mut self,
        autoscaler: &BTreeMap<String, ScenarioAutoscaler>,
        source: &SourceObject,
    ) {
        for (flavor, given) in autoscaler {
            if !self.growing_flavors.contains(flavor) {
                let message = "is not a ResourceFlavor of these files with spec.provisioning: \
                               correct its name, or add spec.provisioning";
                let field = format!("spec.autoscaler.{flavor}");
                self.problems.push(source.problem(&field, message));
            }
            let flavor = FlavorName::new(flavor.as_str());
            let change = ScriptChange::Autoscaler(flavor, given.to_settings());
            self.script.add(Time::default(), change);
        }
    }
}
