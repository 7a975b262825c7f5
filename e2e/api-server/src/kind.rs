//! The kinds that a server stores.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::built_in;
use crate::schema::Schema;
use crate::status::qualify;

/// A kind of objects, with the rules of its storage.
#[derive(Clone, Debug)]
pub struct Kind {
    /// API group. Empty for the core group.
    pub group: String,
    /// Version of the group.
    pub version: String,
    /// Name of the kind, such as `Pod`.
    pub kind: String,
    /// Name in paths, such as `pods`.
    pub plural: String,
    /// True if each object is in a namespace.
    pub namespaced: bool,
    /// True if the status is written apart from the rest.
    pub has_status: bool,
    /// The schema of a custom kind. Unknown fields are pruned, and the others are validated.
    pub schema: Option<Arc<Schema>>,
    pub(crate) rules: Rules,
}

/// The rules that differ between the kinds of a real API server.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// Decodes an object as the Go type does: unknown fields are dropped.
    pub(crate) decode: Option<fn(Value) -> Result<Value, String>>,
    /// The writes that raise `metadata.generation`.
    pub(crate) generation: Generation,
    /// A PUT of an absent object creates it.
    pub(crate) creates_on_update: bool,
    /// A PUT needs no resourceVersion.
    pub(crate) updates_unconditionally: bool,
    /// A delete answers the object instead of a Status.
    pub(crate) answers_deleted_object: bool,
    /// A write of the status leaves labels and annotations as they are.
    pub(crate) status_keeps_metadata: bool,
}

/// The writes that raise `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    /// The kind has none.
    Absent,
    /// It is 1 and stays so.
    Constant,
    /// With each change of the spec.
    Spec,
    /// With each change outside of the metadata, and of the status if that is written apart.
    Content,
}

impl fmt::Debug for Rules {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("Rules");
        debug.field("generation", &self.generation);
        debug.finish_non_exhaustive()
    }
}

/// A CustomResourceDefinition that defines no kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the CustomResourceDefinition is not usable: {0}")]
pub struct InvalidCrd(pub(crate) String);

/// Names a kind by its group and its name in paths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindRef {
    /// API group. Empty for the core group.
    pub group: Cow<'static, str>,
    /// Name in paths, such as `pods`.
    pub plural: Cow<'static, str>,
}

impl KindRef {
    /// Names a kind. The group of Pods is empty.
    #[must_use]
    pub const fn new(group: &'static str, plural: &'static str) -> Self {
        Self {
            group: Cow::Borrowed(group),
            plural: Cow::Borrowed(plural),
        }
    }
}

impl From<&Kind> for KindRef {
    fn from(kind: &Kind) -> Self {
        Self {
            group: kind.group.clone().into(),
            plural: kind.plural.clone().into(),
        }
    }
}

impl Kind {
    /// Returns the kinds of Kubernetes that this crate knows, with their defaults and checks.
    #[must_use]
    pub fn built_in() -> Vec<Self> {
        built_in::kinds()
    }

    /// Returns the kinds of Kubernetes that this crate knows, and those of CustomResourceDefinitions.
    ///
    /// # Errors
    ///
    /// When a definition cannot be written as JSON, or [`Self::from_crd`] refuses it.
    pub fn with_crds(
        crds: impl IntoIterator<Item = impl Serialize>,
    ) -> Result<Vec<Self>, InvalidCrd> {
        let custom = crds.into_iter().map(|crd| {
            let crd = serde_json::to_value(crd).map_err(|error| InvalidCrd(error.to_string()))?;
            Self::from_crd(&crd)
        });
        Self::built_in().into_iter().map(Ok).chain(custom).collect()
    }

    /// Returns the kind of a CustomResourceDefinition: its version that is stored.
    ///
    /// # Errors
    ///
    /// When a required field is absent, or a pattern is no regular expression.
    pub fn from_crd(crd: &Value) -> Result<Self, InvalidCrd> {
        let lacks = |what: &str| InvalidCrd(format!("it lacks {what}"));
        let text = |pointer: &str| {
            let value = crd.pointer(pointer).and_then(Value::as_str);
            value.map(str::to_owned).ok_or_else(|| lacks(pointer))
        };
        let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
        let is_stored = |version: &&Value| version["storage"] == true;
        let version = versions.into_iter().flatten().find(is_stored);
        let version = version.ok_or_else(|| lacks("a stored version"))?;
        let name = version["name"].as_str().ok_or_else(|| lacks("a name"))?;
        let has_status = version.pointer("/subresources/status").is_some();
        let schema = version.pointer("/schema/openAPIV3Schema");
        let schema = schema.map(Schema::parse_root).transpose();
        Ok(Self {
            group: text("/spec/group")?,
            version: name.to_owned(),
            kind: text("/spec/names/kind")?,
            plural: text("/spec/names/plural")?,
            namespaced: text("/spec/scope")? == "Namespaced",
            has_status,
            schema: schema.map_err(InvalidCrd)?.map(Arc::new),
            rules: Rules {
                decode: None,
                generation: Generation::Content,
                creates_on_update: false,
                updates_unconditionally: false,
                answers_deleted_object: false,
                status_keeps_metadata: true,
            },
        })
    }

    /// Returns `v1` or `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns `pods` or `leases.coordination.k8s.io`.
    #[must_use]
    pub fn qualified_plural(&self) -> String {
        qualify(&self.plural, &self.group)
    }

    /// Returns true for a kind of the core group.
    pub(crate) fn is_core(&self, plural: &str) -> bool {
        self.group.is_empty() && self.plural == plural
    }

    pub(crate) fn is_custom(&self) -> bool {
        self.rules.decode.is_none()
    }
}
