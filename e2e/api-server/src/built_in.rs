//! The table of the kinds of Kubernetes.

use k8s_openapi::api::admissionregistration::v1 as admission;
use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::batch::v1 as batch;
use k8s_openapi::api::coordination::v1 as coordination;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::events::v1 as events;
use k8s_openapi::api::networking::v1 as networking;
use k8s_openapi::api::policy::v1 as policy;
use k8s_openapi::api::rbac::v1 as rbac;
use k8s_openapi::api::resource::v1 as resource;
use k8s_openapi::api::scheduling::v1 as scheduling;
use k8s_openapi::api::storage::v1 as storage;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::decode::drop_empty_fields;
use crate::kind::{Generation, Kind, Rules};

/// Tells the two scopes of k8s-openapi apart.
trait Scope {
    const NAMESPACED: bool;
}

impl Scope for NamespaceResourceScope {
    const NAMESPACED: bool = true;
}

impl Scope for ClusterResourceScope {
    const NAMESPACED: bool = false;
}

const STATUS: u8 = 1;
/// A PUT of an absent object creates it.
const CREATE_ON_UPDATE: u8 = 2;
/// A PUT needs the resourceVersion.
const CONDITIONAL: u8 = 4;
/// A delete answers the object.
const ANSWER_DELETED: u8 = 8;
/// The generation rises with the spec.
const GENERATION: u8 = 16;
/// The generation is 1.
const CONSTANT_GENERATION: u8 = 32;

/// Returns all kinds. The flags follow the strategies in `k8s.io/kubernetes/pkg/registry`.
pub(crate) fn kinds() -> Vec<Kind> {
    vec![
        row::<core::ConfigMap>(0),
        row::<core::LimitRange>(CREATE_ON_UPDATE),
        row::<core::Namespace>(STATUS | ANSWER_DELETED),
        row::<core::Node>(STATUS),
        row::<core::PersistentVolume>(STATUS | ANSWER_DELETED),
        row::<core::PersistentVolumeClaim>(STATUS | ANSWER_DELETED),
        row::<core::Pod>(STATUS | ANSWER_DELETED | GENERATION),
        row::<core::PodTemplate>(ANSWER_DELETED | GENERATION),
        row::<core::ResourceQuota>(STATUS | ANSWER_DELETED),
        row::<core::Secret>(0),
        row::<core::Service>(STATUS | ANSWER_DELETED | CREATE_ON_UPDATE),
        row::<core::ServiceAccount>(ANSWER_DELETED),
        row::<admission::MutatingAdmissionPolicy>(CONDITIONAL | GENERATION),
        row::<admission::MutatingAdmissionPolicyBinding>(CONDITIONAL | GENERATION),
        row::<admission::MutatingWebhookConfiguration>(CONDITIONAL | GENERATION),
        row::<admission::ValidatingAdmissionPolicy>(STATUS | CONDITIONAL | GENERATION),
        row::<admission::ValidatingAdmissionPolicyBinding>(CONDITIONAL | GENERATION),
        row::<apps::DaemonSet>(STATUS | GENERATION),
        row::<apps::Deployment>(STATUS | GENERATION),
        row::<apps::ReplicaSet>(STATUS | GENERATION),
        row::<apps::StatefulSet>(STATUS | GENERATION),
        row::<batch::Job>(STATUS | GENERATION),
        row::<coordination::Lease>(CREATE_ON_UPDATE | CONDITIONAL),
        row::<events::Event>(CREATE_ON_UPDATE),
        row::<networking::NetworkPolicy>(GENERATION),
        row::<policy::PodDisruptionBudget>(STATUS | CONDITIONAL | GENERATION),
        row::<rbac::ClusterRole>(CREATE_ON_UPDATE),
        row::<rbac::ClusterRoleBinding>(CREATE_ON_UPDATE),
        row::<rbac::Role>(CREATE_ON_UPDATE),
        row::<rbac::RoleBinding>(CREATE_ON_UPDATE),
        row::<resource::DeviceClass>(ANSWER_DELETED | GENERATION),
        row::<resource::ResourceClaim>(STATUS | ANSWER_DELETED),
        row::<scheduling::PriorityClass>(CONSTANT_GENERATION),
        row::<storage::StorageClass>(ANSWER_DELETED),
    ]
}

fn row<K>(flags: u8) -> Kind
where
    K: Resource + Serialize + DeserializeOwned,
    K::Scope: Scope,
{
    let has = |flag: u8| flags & flag != 0;
    let generation = match (has(GENERATION), has(CONSTANT_GENERATION)) {
        (true, _) => Generation::Spec,
        (_, true) => Generation::Constant,
        _ => Generation::Absent,
    };
    Kind {
        group: K::GROUP.to_owned(),
        version: K::VERSION.to_owned(),
        kind: K::KIND.to_owned(),
        plural: K::URL_PATH_SEGMENT.to_owned(),
        namespaced: K::Scope::NAMESPACED,
        has_status: has(STATUS),
        schema: None,
        rules: Rules {
            decode: Some(decode::<K>),
            generation,
            creates_on_update: has(CREATE_ON_UPDATE),
            updates_unconditionally: !has(CONDITIONAL),
            answers_deleted_object: has(ANSWER_DELETED),
            status_keeps_metadata: false,
        },
    }
}

/// Reads a value as the type and writes it again, so that unknown fields disappear.
fn decode<K: Serialize + DeserializeOwned>(value: Value) -> Result<Value, String> {
    let object: K = serde_json::from_value(value).map_err(|error| error.to_string())?;
    let mut value = serde_json::to_value(object).map_err(|error| error.to_string())?;
    drop_empty_fields(&mut value);
    Ok(value)
}
