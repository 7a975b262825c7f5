//! The entry: answers requests.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use http::Request;
use hyper::body::Bytes;
use jiff::Timestamp;
use serde_json::Value;

use crate::admission::{Admission, AdmissionRequest};
use crate::history::HistoryEntry;
use crate::kind::{Kind, KindRef};
use crate::object::Object;
use crate::request::{RequestInfo, View, content_type, requested_view};
use crate::selector::Selector;
use crate::status::{Status, text_answer};
use crate::store::{KindId, Store, object_key};
use crate::watch::{Watch, WatchPoll};
use crate::{discovery, reviews};

/// The user of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Name of the user.
    pub name: String,
    /// Uid of the user.
    pub uid: String,
    /// Groups of the user.
    pub groups: Vec<String>,
    /// Further attributes, such as `authentication.kubernetes.io/pod-uid`.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The action that a request asks for, as an authorizer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access<'a> {
    /// The verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or
    /// `deletecollection`.
    pub verb: &'a str,
    /// API group. Empty for the core group.
    pub group: &'a str,
    /// Name of the kind in paths, such as `pods`.
    pub resource: &'a str,
    /// The subresource, such as `status`. Empty for the object itself.
    pub subresource: &'a str,
    /// The namespace. Empty: none, or all.
    pub namespace: &'a str,
    /// Name of the object. Empty: a collection, or a create.
    pub name: &'a str,
}

/// The answer to a request.
#[derive(Debug)]
pub enum Response {
    /// A complete answer.
    Answer(http::Response<Bytes>),
    /// A watch has begun, with the code 200. Its events come from [`ApiServer::poll_watch`].
    Watch(Watch),
}

type Authorizer = Box<dyn Fn(&User, &Access<'_>) -> bool>;

/// A Kubernetes API server in memory.
///
/// It has no clock, no threads, no sockets and no random numbers: each answer is a function of the
/// calls so far. Two servers that get the same calls give the same answers, to the byte.
pub struct ApiServer {
    pub(crate) store: Store,
    pub(crate) admission: Admission,
    authorizer: Option<Authorizer>,
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("ApiServer");
        debug.field("revision", &self.store.revision());
        debug.finish_non_exhaustive()
    }
}

/// A request to a known kind, with what its handlers need.
pub(crate) struct Call<'c> {
    pub(crate) user: &'c User,
    pub(crate) info: &'c RequestInfo,
    pub(crate) kind_id: KindId,
    pub(crate) kind: Arc<Kind>,
    pub(crate) body: &'c Bytes,
    pub(crate) content_type: &'c str,
    pub(crate) view: View,
    pub(crate) dry_run: bool,
    /// The manager that owns the fields of a write.
    pub(crate) manager: String,
    pub(crate) now: Timestamp,
}

impl Call<'_> {
    pub(crate) fn namespace(&self) -> &str {
        self.info.object_namespace(self.kind.namespaced)
    }

    pub(crate) fn name(&self) -> &str {
        &self.info.name
    }

    pub(crate) fn subresource(&self) -> &str {
        &self.info.subresource
    }

    pub(crate) fn not_found(&self) -> Status {
        Status::not_found(&self.kind, self.name())
    }

    pub(crate) fn user_name(&self) -> Arc<str> {
        self.user.name.as_str().into()
    }

    /// Reads the body as JSON.
    pub(crate) fn parse_body(&self) -> Result<Value, Status> {
        let is_json = matches!(self.content_type, "" | "application/json");
        if !is_json {
            return Err(Status::unsupported_media_type(&[
                "application/json",
                "application/yaml",
                "application/vnd.kubernetes.protobuf",
            ]));
        }
        serde_json::from_slice(self.body).map_err(|error| {
            let kind = &self.kind.kind;
            let why =
                format!("the object provided is unrecognized (must be of type {kind}): {error}");
            Status::bad_request(why)
        })
    }
}

impl ApiServer {
    /// Starts a server without objects.
    #[must_use]
    pub fn new(kinds: impl IntoIterator<Item = Kind>) -> Self {
        Self {
            store: Store::new(kinds),
            admission: Admission::default(),
            authorizer: None,
        }
    }

    /// Sets the authorizer. Without one, every user may do everything.
    pub fn set_authorizer(&mut self, allows: impl Fn(&User, &Access<'_>) -> bool + 'static) {
        self.authorizer = Some(Box::new(allows));
    }

    /// Adds a hook that may change the object of a write, or refuse the write. The hooks run in the
    /// order of their addition, after the mutating plugins of Kubernetes and before validation.
    pub fn add_mutating_admission(
        &mut self,
        hook: impl Fn(&AdmissionRequest<'_>, &mut Value) -> Result<(), Status> + 'static,
    ) {
        self.admission.mutating.push(Box::new(hook));
    }

    /// Adds a hook that may refuse a write. It sees the object as it would be stored, before the
    /// quota of the namespace is charged.
    pub fn add_admission(
        &mut self,
        hook: impl Fn(&AdmissionRequest<'_>) -> Result<(), Status> + 'static,
    ) {
        self.admission.validating.push(Box::new(hook));
    }

    /// Refuses pods whose service account does not exist, as a real server does. Off by default,
    /// since a world without the controller of service accounts has none.
    pub fn require_service_accounts(&mut self) {
        self.admission.requires_service_accounts = true;
    }

    /// Returns all changes so far, those of the history before a restore included.
    #[must_use]
    pub fn history(&self) -> &[HistoryEntry] {
        self.store.history()
    }

    /// Returns the current revision.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.store.revision()
    }

    /// Returns the kinds of the server.
    #[must_use]
    pub fn kinds(&self) -> &[Arc<Kind>] {
        self.store.kinds()
    }

    /// Forgets events up to a revision, as a compaction of etcd does: watches that have not seen
    /// them, and the pages of older lists, are answered with 410. [`ApiServer::history`] keeps them.
    pub fn compact(&mut self, revision: u64) {
        self.store.compact(revision);
    }

    /// Puts the state of an earlier revision back, as etcd restored from a backup: revisions count
    /// on from it, so later writes take revisions that others had before. All open watches end.
    pub fn restore(&mut self, revision: u64) {
        self.store.restore(revision);
    }

    /// Stores an object as another server had it, with its uid and its revision. Watches may not be
    /// open: they show changes in the order of revisions. Returns false if the server does not know
    /// the kind, or if the object has no name or revision.
    pub fn load(&mut self, object: Value, now: Timestamp) -> bool {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str);
        let is_of = |kind: &Arc<Kind>| {
            text("/kind") == Some(&kind.kind) && text("/apiVersion") == Some(&kind.api_version())
        };
        let kind = self.store.kinds().iter().position(is_of);
        let revision = text("/metadata/resourceVersion").and_then(|version| version.parse().ok());
        let (Some(kind), Some(name), Some(revision)) = (kind, text("/metadata/name"), revision)
        else {
            return false;
        };
        let key = object_key(text("/metadata/namespace").unwrap_or_default(), name);
        let user = self.store.server_user();
        self.store
            .commit_at(revision, (kind, key), Some(object), user, now);
        true
    }

    /// Removes an object, whatever its finalizers.
    pub fn unload(&mut self, kind: &KindRef, namespace: &str, name: &str, now: Timestamp) {
        if let Some(id) = self.store.find(kind)
            && self.store.get(id, namespace, name).is_some()
        {
            let user = self.store.server_user();
            self.store
                .commit(id, object_key(namespace, name), None, user, now);
        }
    }

    /// Returns an object. The namespace of a kind without namespaces is empty.
    #[must_use]
    pub fn get(&self, kind: &KindRef, namespace: &str, name: &str) -> Option<&Arc<Object>> {
        self.store.get(self.store.find(kind)?, namespace, name)
    }

    /// Returns the objects of a kind, in the order of their keys.
    pub fn list(&self, kind: &KindRef) -> impl Iterator<Item = &Arc<Object>> {
        let id = self.store.find(kind);
        id.into_iter()
            .flat_map(|id| self.store.objects(id).values())
    }

    /// Returns the next event of a watch.
    pub fn poll_watch(&self, watch: &mut Watch, now: Timestamp) -> WatchPoll {
        watch.poll(&self.store, now)
    }

    /// Answers a request of a user at a time.
    pub fn handle(&mut self, user: &User, request: &Request<Bytes>, now: Timestamp) -> Response {
        self.answer(user, request, now)
            .unwrap_or_else(|status| Response::Answer(status.to_answer()))
    }

    fn answer(
        &mut self,
        user: &User,
        request: &Request<Bytes>,
        now: Timestamp,
    ) -> Result<Response, Status> {
        let info = RequestInfo::parse(request.method(), request.uri());
        if let Some(path) = &info.other_path {
            return Ok(Response::Answer(discovery::answer(&self.store, path)));
        }
        let headers = request.headers();
        let view = requested_view(headers).ok_or_else(|| {
            let why = "only the following media types are accepted: application/json";
            Status::new(406, "NotAcceptable", why).with_empty_details()
        })?;
        if info.verb.is_empty() {
            return Err(Status::method_not_allowed());
        }
        self.authorize(user, &info)?;
        if let Some(answer) = reviews::answer(self, user, &info, request.body())? {
            return Ok(Response::Answer(answer));
        }
        let found = self
            .store
            .kind_at(&info.group, &info.version, &info.resource);
        let Some(kind_id) = found else {
            let is_served =
                |kind: &Arc<Kind>| kind.group == info.group && kind.version == info.version;
            return if self.store.kinds().iter().any(is_served) {
                Err(Status::unknown_path())
            } else {
                Ok(Response::Answer(text_answer(404, "404 page not found\n")))
            };
        };
        let kind = self.store.kind(kind_id).clone();
        let agent = headers.get(http::header::USER_AGENT);
        let agent = agent
            .and_then(|agent| agent.to_str().ok())
            .unwrap_or_default();
        let manager = match info.query.get("fieldManager") {
            // The API server takes the program of the user agent.
            "" => agent.split('/').next().unwrap_or_default(),
            manager => manager,
        };
        if !matches!(info.query.get("dryRun"), "" | "All") {
            let dry_run = Value::from(info.query.get("dryRun"));
            let message = format!("Unsupported value: {dry_run}: supported values: \"All\"");
            let cause = crate::status::Cause::new("FieldValueNotSupported", "dryRun", message);
            let options = match info.verb {
                "create" => "CreateOptions",
                "update" => "UpdateOptions",
                "patch" => "PatchOptions",
                _ => "DeleteOptions",
            };
            return Err(Status::invalid_of("meta.k8s.io", options, "", &[cause]));
        }
        let call = Call {
            user,
            info: &info,
            kind_id,
            kind,
            body: request.body(),
            content_type: content_type(headers),
            view,
            dry_run: info.query.is_dry_run(),
            manager: manager.to_owned(),
            now,
        };
        self.dispatch(&call)
    }

    fn authorize(&self, user: &User, info: &RequestInfo) -> Result<(), Status> {
        let access = Access {
            verb: info.verb,
            group: &info.group,
            resource: &info.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
            name: &info.name,
        };
        if self.allows(user, &access) {
            return Ok(());
        }
        let (verb, group, user) = (access.verb, access.group, &user.name);
        let separator = if access.subresource.is_empty() {
            ""
        } else {
            "/"
        };
        let resource = format!("{}{separator}{}", access.resource, access.subresource);
        let place = match access.namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace \"{namespace}\""),
        };
        let why = format!(
            "User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {place}"
        );
        Err(Status::forbidden_access(&access, &why))
    }

    pub(crate) fn allows(&self, user: &User, access: &Access<'_>) -> bool {
        let authorizer = self.authorizer.as_ref();
        authorizer.is_none_or(|allows| allows(user, access))
    }

    fn dispatch(&mut self, call: &Call<'_>) -> Result<Response, Status> {
        let info = call.info;
        if info.surplus_segments > 0 {
            return Err(Status::unknown_path());
        }
        // A namespaced kind is written within a namespace, and another kind outside of all.
        let is_misplaced = if call.kind.namespaced {
            info.namespace.is_empty() && (!info.name.is_empty() || info.verb == "create")
        } else {
            !info.namespace.is_empty() && !call.kind.is_core("namespaces")
        };
        if is_misplaced && !(call.kind.namespaced && info.verb == "create") {
            return Err(Status::unknown_path());
        }
        let answer = match (info.verb, info.subresource.as_str()) {
            ("watch", "") => return self.watch(call).map(Response::Watch),
            ("list", "") => self.list_objects(call),
            ("get", "") => self.get_object(call),
            ("get", "status") if call.kind.has_status => self.get_object(call),
            ("create", "") if is_misplaced => Err(Status::method_not_allowed()),
            ("create", "") if info.name.is_empty() => self.create(call),
            ("create", "binding") if call.kind.is_core("pods") => self.bind(call),
            ("create", "eviction") if call.kind.is_core("pods") => self.evict(call),
            ("update", "finalize") if call.kind.is_core("namespaces") => self.replace(call),
            ("update" | "patch", subresource) if !info.name.is_empty() => {
                let is_status = subresource == "status" && call.kind.has_status;
                match (is_status || subresource.is_empty(), info.verb) {
                    (false, _) => Err(unknown_subresource(call)),
                    (true, "update") => self.replace(call),
                    (true, _) => self.patch(call),
                }
            }
            ("delete", "") => self.delete(call),
            ("deletecollection", "") if !call.kind.is_core("namespaces") => {
                self.delete_collection(call)
            }
            (_, "") => Err(Status::method_not_allowed()),
            _ => Err(unknown_subresource(call)),
        };
        answer.map(Response::Answer)
    }

    fn watch(&self, call: &Call<'_>) -> Result<Watch, Status> {
        let selector = parse_selector(call)?.with_name(call.name());
        Watch::open(
            &self.store,
            call.kind_id,
            call.info,
            selector,
            call.view,
            call.now,
        )
    }
}

fn unknown_subresource(call: &Call<'_>) -> Status {
    if call.kind.is_custom() {
        return call.not_found();
    }
    Status::unknown_path()
}

pub(crate) fn parse_selector(call: &Call<'_>) -> Result<Selector, Status> {
    let query = &call.info.query;
    let (labels, fields) = (query.get("labelSelector"), query.get("fieldSelector"));
    Selector::parse(&call.kind, labels, fields)
}
