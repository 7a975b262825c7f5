//! The question that policies answer: one action on one resource, as Cedar sees it. The table of
//! actions is in `policy_request`. Each type of resource has a file.

mod cidr;
mod entity;
mod entity_kind;
mod image;
mod network_peer;
mod object_name;
mod policy_request;
mod principal;
mod queue;
mod request_context;
mod resource;
mod schema;
mod secret;
mod volume;

pub(crate) use entity_kind::EntityKind;
pub use image::ImageReference;
pub use network_peer::NetworkPeer;
pub use object_name::{JobItself, NamespacedName};
pub(crate) use policy_request::JobName;
pub use policy_request::PolicyRequest;
pub use principal::{JobAttributes, Requester, RequestingNamespace};
pub use queue::QueueUse;
pub use request_context::MAX_TEXT;
pub(crate) use request_context::{CedarRequest, RequestContext};
pub(crate) use resource::InvalidTestRequest;
pub(crate) use schema::PolicySchema;
pub use schema::{SCHEMA_VERSION, SchemaError, schema_json, schema_text};
pub use secret::{RemoteSecretRef, SecretRef};
pub use volume::{VolumeKind, VolumeRef};
