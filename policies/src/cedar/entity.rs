//! Resources of requests as Cedar entities. Ids are passed to Cedar as values and never put into
//! policy text.

use std::collections::{HashMap, HashSet};

use cedar_policy::{Entity, EntityUid, RestrictedExpression as Value};
use trellis_api::job::SecretStoreKind;
use trellis_compiler::Peer;

use super::ask::{Ask, Far, Object, Remote};
use super::image::Image;
use super::kind::Kind;
use super::network::canonical;
use super::schema::Schema;
use super::subject::{About, Subject};

/// A request could not be put together: nothing can be decided about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unmade(pub(super) String);

impl<E: std::error::Error> From<E> for Unmade {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

type Attributes = HashMap<String, Value>;

fn text(value: &str) -> Value {
    Value::new_string(value.to_owned())
}

fn attributes<const N: usize>(pairs: [(&str, Option<Value>); N]) -> Attributes {
    let there = pairs.into_iter().filter_map(|(k, v)| Some((k, v?)));
    there.map(|(key, value)| (key.to_owned(), value)).collect()
}

fn named(name: &str) -> Attributes {
    attributes([("name", Some(text(name)))])
}

/// The id of a kind that the schema has.
pub(super) fn uid(schema: &Schema, kind: Kind, id: &str) -> Result<EntityUid, Unmade> {
    let uid = schema.uid(kind, id);
    uid.ok_or_else(|| Unmade(format!("the schema has no {}", kind.as_str())))
}

/// The namespace that asks, and its team.
pub(super) fn principal(schema: &Schema, subject: &Subject<'_>) -> Result<Vec<Entity>, Unmade> {
    let team = subject.team().map(|team| uid(schema, Kind::Team, team));
    let team = team.transpose()?;
    let namespace = Entity::new_with_tags(
        uid(schema, Kind::Namespace, subject.namespace)?,
        named(subject.namespace),
        team.clone(),
        tags(subject.labels),
    )?;
    Ok(team
        .map(Entity::with_uid)
        .into_iter()
        .chain([namespace])
        .collect())
}

/// The job.
pub(super) fn job(
    schema: &Schema,
    subject: &Subject<'_>,
    about: &About<'_>,
) -> Result<Entity, Unmade> {
    let id = format!("{}/{}", subject.namespace, about.job);
    Ok(Entity::new_with_tags(
        uid(schema, Kind::TrainingJob, &id)?,
        named(about.job),
        [uid(schema, Kind::Namespace, subject.namespace)?],
        tags(about.labels),
    )?)
}

fn tags(labels: &std::collections::BTreeMap<String, String>) -> Vec<(String, Value)> {
    let pair = |(key, value): (&String, &String)| (key.clone(), text(value));
    labels.iter().map(pair).collect()
}

/// The resource of a request. None: the job itself.
pub(super) fn resource(schema: &Schema, ask: &Ask) -> Result<Option<Entity>, Unmade> {
    let kind = ask.action().kind();
    let (id, attributes, namespace) = match ask {
        Ask::Submit => return Ok(None),
        Ask::UseQueue {
            queue,
            selects_namespace,
        } => {
            let selects = Value::new_bool(*selects_namespace);
            let attributes = attributes([
                ("name", Some(text(queue))),
                ("selectsNamespace", Some(selects)),
            ]);
            (queue.clone(), attributes, None)
        }
        Ask::UsePriorityClass(name) | Ask::UseFlavor(name) | Ask::UsePrivilege(name) => {
            (name.clone(), named(name), None)
        }
        Ask::UseImage(name) => (name.clone(), image(name), None),
        Ask::UseServiceAccount(Object { namespace, name })
        | Ask::UseSecret(Object { namespace, name }) => {
            (format!("{namespace}/{name}"), named(name), Some(namespace))
        }
        Ask::UseRemoteSecret(remote) => {
            let (id, attributes) = remote_secret(remote)?;
            // Without a namespace, so that a permit for a namespace's own objects does not match.
            (id, attributes, None)
        }
        Ask::UseVolume(kind, Object { namespace, name }) => {
            let kind = kind.as_str();
            let attributes = attributes([("name", Some(text(name))), ("kind", Some(text(kind)))]);
            (
                format!("{namespace}/{kind}/{name}"),
                attributes,
                Some(namespace),
            )
        }
        Ask::ConnectTo(far) | Ask::AcceptFrom(far) => {
            let (id, attributes) = endpoint(far)?;
            (id, attributes, None)
        }
    };
    let namespace = namespace.map(|namespace| uid(schema, Kind::Namespace, namespace));
    let parents: HashSet<_> = namespace.transpose()?.into_iter().collect();
    Ok(Some(Entity::new(
        uid(schema, kind, &id)?,
        attributes,
        parents,
    )?))
}

fn image(name: &str) -> Attributes {
    let image = Image::of(name);
    attributes([
        ("registry", image.registry.map(Value::new_string)),
        ("repository", Some(Value::new_string(image.repository))),
        ("tag", image.tag.map(Value::new_string)),
        ("digest", image.digest.map(Value::new_string)),
    ])
}

fn remote_secret(remote: &Remote) -> Result<(String, Attributes), Unmade> {
    let (name, secret) = (remote.name(), &remote.secret);
    let store = Value::new_record(
        [
            ("kind", secret.kind.as_str()),
            ("name", &secret.store),
            ("path", &secret.path),
        ]
        .map(|(key, value)| (key.to_owned(), text(value))),
    )?;
    let id = match secret.kind {
        SecretStoreKind::SecretStore => format!("{}/{name}", remote.namespace),
        SecretStoreKind::ClusterSecretStore => name.clone(),
    };
    let attributes = attributes([("name", Some(text(&name))), ("store", Some(store))]);
    Ok((id, attributes))
}

/// The ports are part of the id: two rules for one peer are two resources, and a permit for one
/// does not cover the other.
fn endpoint(far: &Far) -> Result<(String, Attributes), Unmade> {
    let (id, cidr, namespace, service) = match &far.endpoint.peer {
        Peer::Cidr(cidr) => {
            let network =
                canonical(cidr).ok_or_else(|| Unmade(format!("{cidr:?} is no network")))?;
            (
                format!("cidr/{network}"),
                Some(Value::new_ip(network)),
                None,
                None,
            )
        }
        Peer::Namespace(name) => (format!("namespace/{name}"), None, Some(text(name)), None),
        Peer::Service(name) => {
            let namespace = &far.namespace;
            let id = format!("service/{namespace}/{name}");
            (id, None, Some(text(namespace)), Some(text(name)))
        }
    };
    let mut ports = far.endpoint.ports.iter();
    let has_port_range = ports.any(|port| port.last() != port.port);
    let written = far.ports();
    let (id, ports) = if written.is_empty() {
        (id, None)
    } else {
        let set = Value::new_set(written.iter().map(|port| text(port)));
        (format!("{id}:{}", written.join(",")), Some(set))
    };
    let attributes = attributes([
        ("cidr", cidr),
        ("namespace", namespace),
        ("service", service),
        ("ports", ports),
        ("hasPortRange", Some(Value::new_bool(has_port_range))),
    ]);
    Ok((id, attributes))
}
