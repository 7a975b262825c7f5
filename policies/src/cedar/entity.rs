//! Resources of requests as Cedar entities. Ids are passed to Cedar as values and never put into
//! policy text.

use std::collections::{HashMap, HashSet};

use cedar_policy::{Entity, EntityUid, RestrictedExpression as Value};
use trellis_api::job::SecretStoreKind;
use trellis_compiler::Peer;

use super::cidr::canonical_cidr;
use super::entity_kind::EntityKind;
use super::image_name::ImageName;
use super::policy_request::{NamespacedName, NetworkPeer, PolicyRequest, RemoteSecretRef};
use super::principal::{JobAttributes, RequestingNamespace};
use super::schema::PolicySchema;

/// A request could not be put together: nothing can be decided about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestBuildError(pub(super) String);

impl<E: std::error::Error> From<E> for RequestBuildError {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

type AttributeValues = HashMap<String, Value>;

fn string_value(value: &str) -> Value {
    Value::new_string(value.to_owned())
}

fn collect_attributes<const N: usize>(pairs: [(&str, Option<Value>); N]) -> AttributeValues {
    let there = pairs.into_iter().filter_map(|(k, v)| Some((k, v?)));
    there.map(|(key, value)| (key.to_owned(), value)).collect()
}

fn name_attribute(name: &str) -> AttributeValues {
    collect_attributes([("name", Some(string_value(name)))])
}

/// The id of a kind that the schema has.
pub(super) fn entity_uid(
    schema: &PolicySchema,
    kind: EntityKind,
    id: &str,
) -> Result<EntityUid, RequestBuildError> {
    let uid = schema.entity_uid(kind, id);
    uid.ok_or_else(|| RequestBuildError(format!("the schema has no {}", kind.as_str())))
}

/// The namespace that asks, and its team.
pub(super) fn principal_entities(
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
pub(super) fn job_entity(
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
pub(super) fn resource_entity(
    schema: &PolicySchema,
    ask: &PolicyRequest,
) -> Result<Option<Entity>, RequestBuildError> {
    let kind = ask.action().kind();
    let (id, attributes, namespace) = match ask {
        PolicyRequest::Submit => return Ok(None),
        PolicyRequest::UseQueue {
            queue,
            selects_namespace,
        } => {
            let selects = Value::new_bool(*selects_namespace);
            let attributes = collect_attributes([
                ("name", Some(string_value(queue))),
                ("selectsNamespace", Some(selects)),
            ]);
            (queue.clone(), attributes, None)
        }
        PolicyRequest::UsePriorityClass(name)
        | PolicyRequest::UseFlavor(name)
        | PolicyRequest::UsePrivilege(name) => (name.clone(), name_attribute(name), None),
        PolicyRequest::UseImage(name) => (name.clone(), image_attributes(name), None),
        PolicyRequest::UseServiceAccount(NamespacedName { namespace, name })
        | PolicyRequest::UseSecret(NamespacedName { namespace, name }) => (
            format!("{namespace}/{name}"),
            name_attribute(name),
            Some(namespace),
        ),
        PolicyRequest::UseRemoteSecret(remote) => {
            let (id, attributes) = remote_secret_attributes(remote)?;
            // Without a namespace, so that a permit for a namespace's own objects does not match.
            (id, attributes, None)
        }
        PolicyRequest::UseVolume(kind, NamespacedName { namespace, name }) => {
            let kind = kind.as_str();
            let attributes = collect_attributes([
                ("name", Some(string_value(name))),
                ("kind", Some(string_value(kind))),
            ]);
            (
                format!("{namespace}/{kind}/{name}"),
                attributes,
                Some(namespace),
            )
        }
        PolicyRequest::ConnectTo(far) | PolicyRequest::AcceptFrom(far) => {
            let (id, attributes) = endpoint_attributes(far)?;
            (id, attributes, None)
        }
    };
    let namespace = namespace.map(|namespace| entity_uid(schema, EntityKind::Namespace, namespace));
    let parents: HashSet<_> = namespace.transpose()?.into_iter().collect();
    Ok(Some(Entity::new(
        entity_uid(schema, kind, &id)?,
        attributes,
        parents,
    )?))
}

fn image_attributes(name: &str) -> AttributeValues {
    let image = ImageName::parse(name);
    collect_attributes([
        ("registry", image.registry.map(Value::new_string)),
        ("repository", Some(Value::new_string(image.repository))),
        ("tag", image.tag.map(Value::new_string)),
        ("digest", image.digest.map(Value::new_string)),
    ])
}

fn remote_secret_attributes(
    remote: &RemoteSecretRef,
) -> Result<(String, AttributeValues), RequestBuildError> {
    let (name, secret) = (remote.policy_name(), &remote.secret);
    let store = Value::new_record(
        [
            ("kind", secret.kind.as_str()),
            ("name", &secret.store),
            ("path", &secret.path),
        ]
        .map(|(key, value)| (key.to_owned(), string_value(value))),
    )?;
    let id = match secret.kind {
        SecretStoreKind::SecretStore => format!("{}/{name}", remote.namespace),
        SecretStoreKind::ClusterSecretStore => name.clone(),
    };
    let attributes =
        collect_attributes([("name", Some(string_value(&name))), ("store", Some(store))]);
    Ok((id, attributes))
}

/// The ports are part of the id: two rules for one peer are two resources, and a permit for one
/// does not cover the other.
fn endpoint_attributes(far: &NetworkPeer) -> Result<(String, AttributeValues), RequestBuildError> {
    let (id, cidr, namespace, service) = match &far.endpoint.peer {
        Peer::Cidr(cidr) => {
            let network = canonical_cidr(cidr)
                .ok_or_else(|| RequestBuildError(format!("{cidr:?} is no network")))?;
            (
                format!("cidr/{network}"),
                Some(Value::new_ip(network)),
                None,
                None,
            )
        }
        Peer::Namespace(name) => (
            format!("namespace/{name}"),
            None,
            Some(string_value(name)),
            None,
        ),
        Peer::Service(name) => {
            let namespace = &far.namespace;
            let id = format!("service/{namespace}/{name}");
            (
                id,
                None,
                Some(string_value(namespace)),
                Some(string_value(name)),
            )
        }
    };
    let mut ports = far.endpoint.ports.iter();
    let has_port_range = ports.any(|port| port.last_port() != port.port);
    let written = far.ports();
    let (id, ports) = if written.is_empty() {
        (id, None)
    } else {
        let set = Value::new_set(written.iter().map(|port| string_value(port)));
        (format!("{id}:{}", written.join(",")), Some(set))
    };
    let attributes = collect_attributes([
        ("cidr", cidr),
        ("namespace", namespace),
        ("service", service),
        ("ports", ports),
        ("hasPortRange", Some(Value::new_bool(has_port_range))),
    ]);
    Ok((id, attributes))
}
