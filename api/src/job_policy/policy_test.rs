//! Tests in a policy object: a request and the expected decision.

use std::collections::BTreeMap;

use garde::Validate;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Action;
use crate::job::{Framework, NetworkPort, SecretStoreKind};
use crate::rules;

/// A request, and the decision that the policies of this object must make about it.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct PolicyTest {
    /// Name of the test: what it shows, in words. Names are unique in the object.
    #[schemars(length(min = 1, max = 253))]
    #[garde(length(min = 1, max = 253))]
    pub name: String,
    /// Request to decide.
    #[garde(dive)]
    pub request: TestRequest,
    /// Expected decision.
    pub decision: ExpectedDecision,
    /// Ids of the policies that must decide, as in `status.policyIds`. `[]`: no policy decides.
    /// Absent: any policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128), inner(length(max = 512)))]
    #[garde(inner(length(max = 128)))]
    pub policies: Option<Vec<String>>,
}

/// Expected decision about a request. Allow: a permit of this object applies, and no forbid. Deny:
/// a forbid applies, or no permit. Abstain: no policy of this object applies, and other policies
/// decide. For a JobPolicy, whose permits do not count, Allow means that none of its forbids
/// applies.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedDecision {
    /// The request is allowed.
    Allow,
    /// The request is denied.
    Deny,
    /// Other policies decide.
    Abstain,
}

/// One request of a job.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct TestRequest {
    /// Namespace of the job.
    #[schemars(length(max = 63))]
    #[garde(custom(rules::object_name))]
    #[x_kube(validation = rules::OBJECT_NAME.to_cel_rule())]
    pub namespace: String,
    /// Labels of the namespace. `trellis.dev/team` is its team.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    #[garde(length(max = 64))]
    pub namespace_labels: BTreeMap<String, String>,
    /// Action that the job requests.
    pub action: Action,
    /// Resource of the request. Absent for Submit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub resource: Option<TestResource>,
    /// Context of the request: further facts about the job. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub context: Option<TestContext>,
}

/// Resource of a request. The action determines which fields it has.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct TestResource {
    /// Name of the object or privilege, or the image as in a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    #[garde(inner(length(min = 1, max = 512)))]
    pub name: Option<String>,
    /// Namespace of a ServiceAccount, Secret, claim, ConfigMap or Service. ConnectTo and AcceptFrom
    /// without `service` mean every pod in it. Absent: the job's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[garde(inner(custom(rules::object_name)))]
    #[x_kube(validation = rules::OBJECT_NAME.to_cel_rule())]
    pub namespace: Option<String>,
    /// True if the `namespaceSelector` of the queue selects the namespace, for UseQueue. Absent:
    /// true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selects_namespace: Option<bool>,
    /// Kind of the volume, for UseVolume. Absent: Claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<TestVolumeKind>,
    /// External secret in a store outside the cluster, for UseSecret. Such a request has no `name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub store: Option<TestStore>,
    /// IP range, such as 10.20.0.0/16, for ConnectTo and AcceptFrom.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 43))]
    #[garde(inner(custom(rules::cidr)))]
    #[x_kube(validation = rules::CIDR.to_cel_rule())]
    pub cidr: Option<String>,
    /// Name of a Service whose pods are the peer, for ConnectTo and AcceptFrom.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[garde(inner(custom(rules::object_name)))]
    #[x_kube(validation = rules::OBJECT_NAME.to_cel_rule())]
    pub service: Option<String>,
    /// Ports of ConnectTo and AcceptFrom, as in the network of a job. Absent: every port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    #[garde(length(max = 64), dive)]
    pub ports: Vec<NetworkPort>,
}

/// A value in a store outside the cluster.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct TestStore {
    /// SecretStore: a store of the job's namespace; ClusterSecretStore: a store of the cluster.
    pub kind: SecretStoreKind,
    /// Name of the store.
    #[schemars(length(max = 253))]
    #[garde(custom(rules::object_name))]
    #[x_kube(validation = rules::OBJECT_NAME.to_cel_rule())]
    pub name: String,
    /// Path in the store.
    #[schemars(length(min = 1, max = 512))]
    #[garde(length(min = 1, max = 512))]
    pub path: String,
}

/// Source of a volume.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TestVolumeKind {
    /// A PersistentVolumeClaim.
    #[default]
    Claim,
    /// A ConfigMap, mounted or in the environment.
    ConfigMap,
    /// A generic ephemeral volume. `name` is the name of its StorageClass.
    Ephemeral,
}

/// Further facts about the job.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct TestContext {
    /// User who submitted the job. Absent: unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub requester: Option<TestRequester>,
    /// Name of the job. Absent: test.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[garde(inner(custom(rules::object_name)))]
    #[x_kube(validation = rules::OBJECT_NAME.to_cel_rule())]
    pub job: Option<String>,
    /// Labels of the job.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    #[garde(length(max = 64))]
    pub labels: BTreeMap<String, String>,
    /// Number of devices that the job requests, over all pods. Absent: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::test_count)))]
    #[x_kube(validation = rules::TEST_COUNT.to_cel_rule())]
    pub gpus: Option<i64>,
    /// Number of pods of the job. Absent: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::test_count)))]
    #[x_kube(validation = rules::TEST_COUNT.to_cel_rule())]
    pub pods: Option<i64>,
    /// Framework of the job. Absent: None.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub framework: Option<Framework>,
    /// Priority of the job. Absent: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Longest running time that the job requests, in seconds. Absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::test_count)))]
    #[x_kube(validation = rules::TEST_COUNT.to_cel_rule())]
    pub runtime_seconds: Option<i64>,
    /// Name of the job's RuntimeProfile. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[garde(inner(custom(rules::profile_name)))]
    #[x_kube(validation = rules::PROFILE_NAME.to_cel_rule())]
    pub profile: Option<String>,
    /// Number of the attempt that the job is about to start. Absent: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::test_count)))]
    #[x_kube(validation = rules::TEST_COUNT.to_cel_rule())]
    pub attempt: Option<i64>,
}

/// The user who submitted a job.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct TestRequester {
    /// Name of the user.
    #[schemars(length(min = 1, max = 253))]
    #[garde(length(min = 1, max = 253))]
    pub user: String,
    /// Groups of the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 253)))]
    #[garde(length(max = 64))]
    pub groups: Vec<String>,
}
