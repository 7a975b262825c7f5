//! Builds the principal and the context once for all requests of one job.

use cedar_policy::{Context, Entities, EntityUid, Request, RestrictedExpression as Value};

use super::ask::Ask;
use super::entity::{self, Unmade};
use super::kind::Kind;
use super::schema::Schema;
use super::subject::{About, Requester, Subject};
use super::weight::MAX_TEXT;

/// The principal and the context, which all requests of one decision share.
pub(super) struct Scene<'a> {
    schema: &'a Schema,
    principal: EntityUid,
    job: EntityUid,
    entities: Entities,
    context: Context,
}

/// A request, with the entities that it speaks of.
pub(super) struct Posed {
    pub(super) request: Request,
    pub(super) entities: Entities,
    resource: EntityUid,
}

impl<'a> Scene<'a> {
    pub(super) fn new(
        schema: &'a Schema,
        subject: &Subject<'_>,
        about: &About<'_>,
    ) -> Result<Self, Unmade> {
        let mut labels = subject.labels.values().chain(about.labels.values());
        labels.try_for_each(|label| is_bounded("a label", label))?;
        if let Some(requester) = about.requester {
            is_bounded("the name of the requester", &requester.user)?;
        }
        let job = entity::job(schema, subject, about)?;
        let uid = job.uid();
        let all = entity::principal(schema, subject)?.into_iter().chain([job]);
        Ok(Self {
            schema,
            principal: entity::uid(schema, Kind::Namespace, subject.namespace)?,
            entities: Entities::from_entities(all, Some(schema.cedar()))?,
            context: context(about, uid.clone())?,
            job: uid,
        })
    }

    /// One request, held to the schema.
    pub(super) fn pose(&self, ask: &Ask) -> Result<Posed, Unmade> {
        is_bounded("the name of what is asked for", ask.longest())?;
        let action = self.schema.action(ask.action()).cloned();
        let action = action.ok_or_else(|| Unmade("the schema lacks the action".to_owned()))?;
        let (resource, entities) = match entity::resource(self.schema, ask)? {
            Some(entity) => {
                let uid = entity.uid();
                let all = self.entities.clone();
                (uid, all.add_entities([entity], Some(self.schema.cedar()))?)
            }
            None => (self.job.clone(), self.entities.clone()),
        };
        Ok(Posed {
            request: Request::new(
                self.principal.clone(),
                action,
                resource.clone(),
                self.context.clone(),
                Some(self.schema.cedar()),
            )?,
            entities,
            resource,
        })
    }
}

impl Posed {
    /// The permit that would allow it. Cedar writes the ids, and escapes them.
    pub(super) fn permit(&self) -> String {
        let word = |uid: Option<&EntityUid>| uid.map(ToString::to_string).unwrap_or_default();
        format!(
            "permit(principal == {}, action == {}, resource == {});",
            word(self.request.principal()),
            word(self.request.action()),
            self.resource,
        )
    }
}

/// Patterns of policies are compared with it, at a cost that grows with its length.
fn is_bounded(what: &str, text: &str) -> Result<(), Unmade> {
    let is_bounded = text.len() <= MAX_TEXT || text.chars().count() <= MAX_TEXT;
    let why = || {
        Unmade(format!(
            "{what} has more than {MAX_TEXT} characters: shorten it"
        ))
    };
    is_bounded.then_some(()).ok_or_else(why)
}

fn context(about: &About<'_>, job: EntityUid) -> Result<Context, Unmade> {
    let pairs = [
        ("requester", about.requester.map(requester).transpose()?),
        ("job", Some(Value::new_entity_uid(job))),
        ("gpus", Some(Value::new_long(about.gpus))),
        ("pods", Some(Value::new_long(about.pods))),
        (
            "framework",
            Some(Value::new_string(about.framework.to_owned())),
        ),
        ("priority", Some(Value::new_long(about.priority))),
        ("runtimeSeconds", about.runtime_seconds.map(Value::new_long)),
        (
            "profile",
            about.profile.map(|name| Value::new_string(name.to_owned())),
        ),
        ("attempt", Some(Value::new_long(about.attempt))),
    ];
    let there = pairs
        .into_iter()
        .filter_map(|(k, v)| Some((k.to_owned(), v?)));
    Ok(Context::from_pairs(there)?)
}

fn requester(requester: &Requester) -> Result<Value, Unmade> {
    let groups = requester.groups.iter().cloned().map(Value::new_string);
    Ok(Value::new_record([
        ("user".to_owned(), Value::new_string(requester.user.clone())),
        ("groups".to_owned(), Value::new_set(groups)),
    ])?)
}
