//! Admission: the plugins of Kubernetes that change what controllers see, and the hooks of callers.

mod limit_range;
mod nodes;
mod plugins;
mod pods;
mod priority;
pub(crate) mod quota;
mod topology_labels;

use std::fmt;

use jiff::Timestamp;
use serde_json::Value;

use crate::kind::{Kind, KindRef};
use crate::object::Object;
use crate::server::{Call, User};
use crate::status::Status;
use crate::store::Store;

/// The kinds of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// An object is created.
    Create,
    /// An object is replaced or patched.
    Update,
    /// An object is deleted.
    Delete,
    /// A subresource without objects is used: `pods/binding` and `pods/eviction`. The object is the
    /// body of the request.
    Connect,
}

/// A write that admission hooks may change or refuse.
#[derive(Clone, Copy)]
pub struct AdmissionRequest<'a> {
    /// The user of the request.
    pub user: &'a User,
    /// The kind of write.
    pub operation: Operation,
    /// The kind of the object.
    pub kind: &'a Kind,
    /// The subresource, such as `status`. Empty for the object itself.
    pub subresource: &'a str,
    /// Namespace of the object. Empty if its kind has none.
    pub namespace: &'a str,
    /// Name of the object. Empty before a name is generated.
    pub name: &'a str,
    /// True if nothing will be stored.
    pub dry_run: bool,
    /// The object before the write. None for a create.
    pub old: Option<&'a Object>,
    /// The object after the write. None for a delete, and for hooks that get it as an argument.
    pub object: Option<&'a Value>,
    /// Time of the request.
    pub now: Timestamp,
    store: &'a Store,
}

impl fmt::Debug for AdmissionRequest<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("AdmissionRequest");
        debug.field("operation", &self.operation);
        debug.field("kind", &self.kind.kind);
        debug.field("subresource", &self.subresource);
        debug.field("namespace", &self.namespace);
        debug.field("name", &self.name);
        debug.finish_non_exhaustive()
    }
}

impl<'a> AdmissionRequest<'a> {
    pub(crate) fn new(call: &'a Call<'_>, operation: Operation, store: &'a Store) -> Self {
        Self {
            user: call.user,
            operation,
            kind: &call.kind,
            subresource: call.subresource(),
            namespace: call.namespace(),
            name: call.name(),
            dry_run: call.dry_run,
            old: None,
            object: None,
            now: call.now,
            store,
        }
    }

    pub(crate) fn with_object(
        mut self,
        old: Option<&'a Object>,
        object: Option<&'a Value>,
    ) -> Self {
        (self.old, self.object) = (old, object);
        self
    }

    pub(crate) fn with_name(mut self, name: &'a str) -> Self {
        self.name = name;
        self
    }

    /// Returns an object of the store.
    #[must_use]
    pub fn get(&self, kind: &KindRef, namespace: &str, name: &str) -> Option<&'a Object> {
        let object = self.store.get(self.store.find(kind)?, namespace, name);
        object.map(AsRef::as_ref)
    }

    /// Returns the objects of a namespace, in the order of their keys. Empty: of all namespaces.
    pub fn list(
        &self,
        kind: &KindRef,
        namespace: &str,
    ) -> impl Iterator<Item = &'a Object> + use<'a> {
        let id = self.store.find(kind);
        let store = self.store;
        let namespace = namespace.to_owned();
        id.into_iter()
            .flat_map(move |id| store.in_namespace(id, &namespace))
            .map(AsRef::as_ref)
    }

    /// Refuses the request, as an admission plugin does.
    #[must_use]
    pub fn forbid(&self, why: &str) -> Status {
        Status::forbidden(self.kind, self.name, why)
    }

    fn is_on(&self, plural: &str) -> bool {
        self.kind.is_core(plural) && self.subresource.is_empty()
    }
}

type MutatingHook = Box<dyn Fn(&AdmissionRequest<'_>, &mut Value) -> Result<(), Status>>;
type ValidatingHook = Box<dyn Fn(&AdmissionRequest<'_>) -> Result<(), Status>>;

/// The hooks of a server.
#[derive(Default)]
pub(crate) struct Admission {
    pub(crate) mutating: Vec<MutatingHook>,
    pub(crate) validating: Vec<ValidatingHook>,
    pub(crate) requires_service_accounts: bool,
}

impl Admission {
    /// Runs the mutating plugins in the order of Kubernetes, then the hooks.
    pub(crate) fn mutate(
        &self,
        request: &AdmissionRequest<'_>,
        object: &mut Value,
    ) -> Result<(), Status> {
        let name = crate::object::text_at(object, &["metadata", "name"]).to_owned();
        let request = if request.name.is_empty() {
            request.with_name(&name)
        } else {
            *request
        };
        let is_create = request.operation == Operation::Create;
        if is_create {
            plugins::check_namespace(&request)?;
        }
        if request.is_on("pods") {
            if is_create {
                limit_range::set_defaults(&request, object)?;
                pods::set_service_account(&request, object, self.requires_service_accounts)?;
            }
            priority::admit_pod(&request, object)?;
            pods::add_tolerations(object);
            if is_create {
                topology_labels::copy_from_node(&request, object);
            }
        }
        if is_create && request.is_on("nodes") {
            nodes::add_not_ready_taint(object);
        }
        if is_create && request.is_on("persistentvolumeclaims") {
            plugins::set_storage_class(&request, object);
        }
        if is_create {
            plugins::protect_storage(&request, object);
        }
        self.mutating
            .iter()
            .try_for_each(|hook| hook(&request, object))
    }

    /// Runs the mutating plugin of bindings.
    pub(crate) fn mutate_binding(request: &AdmissionRequest<'_>, binding: &mut Value) {
        topology_labels::copy_from_node(request, binding);
    }

    /// Runs the validating plugins but for the quota, then the hooks.
    pub(crate) fn validate(&self, request: &AdmissionRequest<'_>) -> Result<(), Status> {
        if request.operation == Operation::Delete {
            plugins::check_immortal(request)?;
        }
        if request.operation == Operation::Create && request.is_on("pods") {
            limit_range::check(request)?;
        }
        self.validating.iter().try_for_each(|hook| hook(request))
    }
}
