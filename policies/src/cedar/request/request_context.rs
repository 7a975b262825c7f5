//! Builds the principal and the context once for all requests of one job.

use cedar_policy::{Context, Entities, EntityUid, Request, RestrictedExpression as Value};

use super::entity;
use super::entity_kind::EntityKind;
use super::policy_request::PolicyRequest;
use super::principal::{JobAttributes, Requester, RequestingNamespace};
use super::resource::RequestBuildError;
use super::schema::PolicySchema;

/// Longest text of a request, in characters, that policies look at: an image may be as long
/// (`trellis_api::rules::MAX_IMAGE`), and all other names are shorter.
pub const MAX_TEXT: usize = trellis_api::rules::MAX_IMAGE;

/// The principal and the context, which all requests of one decision share.
pub(crate) struct RequestContext<'a> {
    schema: &'a PolicySchema,
    principal: EntityUid,
    job: EntityUid,
    entities: Entities,
    context: Context,
}

/// A request, with the entities that it speaks of.
pub(crate) struct CedarRequest {
    pub(crate) request: Request,
    pub(crate) entities: Entities,
    resource: EntityUid,
}

impl<'a> RequestContext<'a> {
    pub(crate) fn new(
        schema: &'a PolicySchema,
        subject: &RequestingNamespace<'_>,
        about: &JobAttributes<'_>,
    ) -> Result<Self, RequestBuildError> {
        let mut labels = subject.labels.values().chain(about.labels.values());
        labels.try_for_each(|label| check_length("a label", label))?;
        if let Some(requester) = about.requester {
            check_length("the name of the requester", &requester.user)?;
        }
        let job = entity::job_entity(schema, subject, about)?;
        let uid = job.uid();
        let all = entity::principal_entities(schema, subject)?
            .into_iter()
            .chain([job]);
        Ok(Self {
            schema,
            principal: entity::entity_uid(schema, EntityKind::Namespace, subject.namespace)?,
            entities: Entities::from_entities(all, Some(schema.cedar()))?,
            context: cedar_context(about, uid.clone())?,
            job: uid,
        })
    }

    /// One request, held to the schema.
    pub(crate) fn build_request(
        &self,
        request: &PolicyRequest,
    ) -> Result<CedarRequest, RequestBuildError> {
        check_length(
            "the name of what is asked for",
            request.resource().longest_text(),
        )?;
        let action = self.schema.action_uid(request.action()).cloned();
        let action =
            action.ok_or_else(|| RequestBuildError("the schema lacks the action".to_owned()))?;
        let (resource, entities) = match entity::resource_entity(self.schema, request)? {
            Some(entity) => {
                let uid = entity.uid();
                let all = self.entities.clone();
                (uid, all.add_entities([entity], Some(self.schema.cedar()))?)
            }
            None => (self.job.clone(), self.entities.clone()),
        };
        Ok(CedarRequest {
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

impl CedarRequest {
    /// The permit that would allow it. Cedar writes the ids, and escapes them.
    pub(crate) fn missing_permit(&self) -> String {
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
fn check_length(what: &str, text: &str) -> Result<(), RequestBuildError> {
    let is_bounded = text.len() <= MAX_TEXT || text.chars().count() <= MAX_TEXT;
    let why = || {
        RequestBuildError(format!(
            "{what} has more than {MAX_TEXT} characters: shorten it"
        ))
    };
    is_bounded.then_some(()).ok_or_else(why)
}

fn cedar_context(about: &JobAttributes<'_>, job: EntityUid) -> Result<Context, RequestBuildError> {
    let pairs = [
        (
            "requester",
            about.requester.map(requester_record).transpose()?,
        ),
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

fn requester_record(requester: &Requester) -> Result<Value, RequestBuildError> {
    let groups = requester.groups.iter().cloned().map(Value::new_string);
    Ok(Value::new_record([
        ("user".to_owned(), Value::new_string(requester.user.clone())),
        ("groups".to_owned(), Value::new_set(groups)),
    ])?)
}
