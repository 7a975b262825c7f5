//! The schema that policies are validated against, printed from the tables of
//! kinds and actions.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cedar_policy::{EntityId, EntityTypeName, EntityUid, SchemaFragment, Validator};

use super::entity_kind::{CONTEXT, EntityAttribute, EntityKind};
use super::policy_request::{meaning, resource_kind};
use trellis_api::job_policy::Action;

/// Version of the schema. It changes when a policy that was valid may no longer be.
pub const SCHEMA_VERSION: u32 = 1;

/// The namespace of the schema's types.
const SCHEMA_NAMESPACE: &str = "Trellis";

/// The schema could not be made: a fault of Trellis, not of any policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError(pub(crate) String);

impl std::fmt::Display for SchemaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the schema of policies cannot be made: {}", self.0)
    }
}

impl std::error::Error for SchemaError {}

/// The schema, and the names that entities are made of.
#[derive(Clone, Debug)]
pub(crate) struct PolicySchema {
    validator: Validator,
    kinds: BTreeMap<EntityKind, EntityTypeName>,
    actions: BTreeMap<Action, EntityUid>,
}

impl PolicySchema {
    pub(crate) fn new() -> Result<Self, SchemaError> {
        Self::from_text(&schema_text())
    }

    pub(crate) fn from_text(text: &str) -> Result<Self, SchemaError> {
        let fault = |error: &dyn std::fmt::Display| SchemaError(error.to_string());
        let (schema, _warnings) =
            cedar_policy::Schema::from_cedarschema_str(text).map_err(|e| fault(&e))?;
        let name_of = |word: &str| {
            let name = format!("{SCHEMA_NAMESPACE}::{word}").parse::<EntityTypeName>();
            name.map_err(|e| fault(&e))
        };
        let action_type = name_of("Action")?;
        let kinds = EntityKind::ALL
            .into_iter()
            .map(|kind| Ok((kind, name_of(kind.as_str())?)));
        let actions = Action::ALL.iter().map(|action| {
            let id = EntityId::new(action.as_str());
            (
                *action,
                EntityUid::from_type_name_and_id(action_type.clone(), id),
            )
        });
        Ok(Self {
            kinds: kinds.collect::<Result<_, SchemaError>>()?,
            actions: actions.collect(),
            validator: Validator::new(schema),
        })
    }

    pub(crate) fn validator(&self) -> &Validator {
        &self.validator
    }

    pub(crate) fn cedar(&self) -> &cedar_policy::Schema {
        self.validator.schema()
    }

    /// The type of a kind, as Cedar knows it. None is a fault of ours.
    pub(crate) fn entity_type(&self, kind: EntityKind) -> Option<&EntityTypeName> {
        self.kinds.get(&kind)
    }

    pub(crate) fn entity_uid(&self, kind: EntityKind, id: &str) -> Option<EntityUid> {
        let name = self.entity_type(kind)?.clone();
        Some(EntityUid::from_type_name_and_id(name, EntityId::new(id)))
    }

    pub(crate) fn action_uid(&self, action: Action) -> Option<&EntityUid> {
        self.actions.get(&action)
    }
}

/// The schema in Cedar's syntax, as docs/policies/trellis.cedarschema has it.
#[must_use]
pub fn schema_text() -> String {
    let mut out = format!(
        "// Trellis' authorization schema, version {SCHEMA_VERSION}. Generated: do not edit.\n\n\
         @version(\"{SCHEMA_VERSION}\")\nnamespace {SCHEMA_NAMESPACE} {{\n"
    );
    for kind in EntityKind::ALL {
        write_entity(kind, &mut out);
    }
    out.push_str("  // What else is known when a request is decided.\n  type Context = {\n");
    write_attributes(&CONTEXT, &mut out);
    out.push_str("  };\n");
    for action in Action::ALL {
        let (about, name, resource) = (
            meaning(*action).trim(),
            action.as_str(),
            resource_kind(*action).as_str(),
        );
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "\n  // {about}\n  action {name} appliesTo {{\n    principal: [Namespace],\n    \
             resource: [{resource}],\n    context: Context,\n  }};\n"
        );
    }
    out.push_str("}\n");
    out
}

/// The schema in Cedar's JSON format, without comments.
///
/// # Errors
/// Never, as the tests show: a fault of Trellis is not to be a panic.
pub fn schema_json() -> Result<serde_json::Value, SchemaError> {
    let fault = |error: &dyn std::fmt::Display| SchemaError(error.to_string());
    let (schema, _warnings) =
        SchemaFragment::from_cedarschema_str(&schema_text()).map_err(|e| fault(&e))?;
    schema.to_json_value().map_err(|e| fault(&e))
}

fn write_entity(kind: EntityKind, out: &mut String) {
    let _ = write!(
        out,
        "  // {}\n  entity {}",
        kind.description(),
        kind.as_str()
    );
    let parents: Vec<_> = kind.parents().iter().map(|p| p.as_str()).collect();
    if !parents.is_empty() {
        let _ = write!(out, " in [{}]", parents.join(", "));
    }
    if !kind.attributes().is_empty() {
        out.push_str(" = {\n");
        write_attributes(kind.attributes(), out);
        out.push_str("  }");
    }
    if kind.has_tags() {
        out.push_str(" tags String");
    }
    out.push_str(";\n\n");
}

fn write_attributes(all: &[EntityAttribute], out: &mut String) {
    for EntityAttribute {
        name,
        type_,
        optional,
        description: about,
    } in all
    {
        let mark = if *optional { "?" } else { "" };
        let _ = writeln!(out, "    // {about}\n    {name}{mark}: {type_},");
    }
}
