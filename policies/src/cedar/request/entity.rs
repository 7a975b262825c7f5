//! The job, its namespace and the resources of its requests as Cedar entities. Ids are passed to
//! Cedar as values and never put into policy text.

use std::collections::HashSet;

use super::entity_kind::EntityKind;
use super::policy_request::PolicyRequest;
use super::principal::{JobAttributes, RequestingNamespace};
use super::resource::{RequestBuildError, ResourceEntity, name_attribute, string_value};
use super::schema::PolicySchema;
use cedar_policy::{Entity, EntityUid, RestrictedExpression as Value};

/// The id of a kind that the schema has.
pub(crate) fn entity_uid(
    schema: &PolicySchema,
    kind: EntityKind,
    id: &str,
) -> Result<EntityUid, RequestBuildError> {
    let uid = schema.entity_uid(kind, id);
    uid.ok_or_else(|| RequestBuildError(format!("the schema has no {}", kind.as_str())))
}

/// The namespace that asks, and its team.
pub(crate) fn principal_entities(
    schema: &PolicySchema,
    subject: &RequestingNamespace<'_>,
) -> Result<Vec<Entity>, RequestBuildError> {
    let team = subject
        .team()
        .map(|team| entity_uid(schema, EntityKind::Team, team));
    let team = team.transpose()?;
    let namespace = Entity::new_with_tags(
        entity_uid(schema, EntityKind::Namespace, subject.namespace)?,
        name_attribute(subject.namespace),
        team.clone(),
        label_tags(subject.labels),
    )?;
    Ok(team
        .map(Entity::with_uid)
        .into_iter()
        .chain([namespace])
        .collect())
}

/// The job.
pub(crate) fn job_entity(
    schema: &PolicySchema,
    subject: &RequestingNamespace<'_>,
    about: &JobAttributes<'_>,
) -> Result<Entity, RequestBuildError> {
    let id = format!("{}/{}", subject.namespace, about.job);
    Ok(Entity::new_with_tags(
        entity_uid(schema, EntityKind::TrainingJob, &id)?,
        name_attribute(about.job),
        [entity_uid(
            schema,
            EntityKind::Namespace,
            subject.namespace,
        )?],
        label_tags(about.labels),
    )?)
}

fn label_tags(labels: &std::collections::BTreeMap<String, String>) -> Vec<(String, Value)> {
    let pair = |(key, value): (&String, &String)| (key.clone(), string_value(value));
    labels.iter().map(pair).collect()
}

/// The resource of a request. None: the job itself.
pub(crate) fn resource_entity(
    schema: &PolicySchema,
    request: &PolicyRequest,
) -> Result<Option<Entity>, RequestBuildError> {
    let Some(resource) = request.resource().entity()? else {
        return Ok(None);
    };
    let ResourceEntity {
        id,
        attributes,
        namespace,
    } = resource;
    let kind = request.kind();
    let namespace = namespace.map(|namespace| entity_uid(schema, EntityKind::Namespace, namespace));
    let parents: HashSet<_> = namespace.transpose()?.into_iter().collect();
    Ok(Some(Entity::new(
        entity_uid(schema, kind, &id)?,
        attributes,
        parents,
    )?))
}
