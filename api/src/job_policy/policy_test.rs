//! Tests that stand beside the policies: a request, and what must come of it.

use std::collections::BTreeMap;

use garde::Validate;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job::{Framework, NetworkPort, SecretStoreKind};
use crate::rules;

/// A request, and what the policies of this object must decide about it.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct PolicyTest {
    /// Name of the test: what it shows, in words. Each test has a name of its own.
    #[schemars(length(min = 1, max = 253))]
    #[garde(length(min = 1, max = 253))]
    pub name: String,
    /// The request.
    #[garde(dive)]
    pub request: TestRequest,
    /// Expected decision.
    pub decision: ExpectedDecision,
    /// Ids of the policies that must decide it, as `status.policyIds` has them.
    /// `[]`: none does. Absent: whichever.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128), inner(length(max = 512)))]
    #[garde(inner(length(max = 128)))]
    pub policies: Option<Vec<String>>,
}

/// Expected decision about a request. Allow: a permit of this object holds, and no forbid.
/// Deny: a forbid holds, or no permit. Abstain: no permit and no forbid of this object holds,
/// so that other policies decide. The permits of a
/// JobPolicy do not count: for it, Allow means that none of its forbids denies the request.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedDecision {
    /// Allowed.
    Allow,
    /// Denied.
    Deny,
    /// Left to other policies.
    Abstain,
}

/// One thing that a job asks for.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct TestRequest {
    /// The job's namespace.
    #[schemars(length(max = 63))]
    #[garde(custom(rules::object_name))]
    #[x_kube(validation = rules::OBJECT_NAME.to_cel_rule())]
    pub namespace: String,
    /// Labels of that namespace; `trellis.dev/team` is its team.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    #[garde(length(max = 64))]
    pub namespace_labels: BTreeMap<String, String>,
    /// Action that the request asks for.
    pub action: TestAction,
    /// Resource that the request is about. Absent for Submit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub resource: Option<TestResource>,
    /// Context of the request: further facts of the job. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub context: Option<TestContext>,
}

/// The actions.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestAction {
    /// To submit a job. The resource is the job itself.
    Submit,
    /// To wait in a TrainingQueue.
    UseQueue,
    /// To have a PriorityClass.
    UsePriorityClass,
    /// To be given nodes of a ResourceFlavor.
    UseFlavor,
    /// To run an image.
    UseImage,
    /// To run as a ServiceAccount.
    UseServiceAccount,
    /// To read a Secret.
    UseSecret,
    /// To read a ConfigMap, or to mount a claim.
    UseVolume,
    /// To connect there.
    ConnectTo,
    /// To be reached from there.
    AcceptFrom,
    /// To have a privilege beyond Pod Security "restricted".
    UsePrivilege,
}

/// What is asked for. Which fields it has follows from the action.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct TestResource {
    /// Name of the object or privilege, or the image as a job writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    #[garde(inner(length(min = 1, max = 512)))]
    pub name: Option<String>,
    /// Namespace of a ServiceAccount, Secret, claim, ConfigMap or Service: the job's
    /// where absent. Of ConnectTo and AcceptFrom without `service`: every pod of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[garde(inner(custom(rules::object_name)))]
    #[x_kube(validation = rules::OBJECT_NAME.to_cel_rule())]
    pub namespace: Option<String>,
    /// True if the `namespaceSelector` of the queue selects the namespace, for UseQueue. Absent:
    /// true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selects_namespace: Option<bool>,
    /// Of UseVolume: what it is. Absent: Claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<TestVolumeKind>,
    /// External secret of UseSecret, in a store outside the cluster; such a request has no `name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub store: Option<TestStore>,
    /// Network, such as 10.20.0.0/16, for ConnectTo and AcceptFrom.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 43))]
    #[garde(inner(custom(rules::cidr)))]
    #[x_kube(validation = rules::CIDR.to_cel_rule())]
    pub cidr: Option<String>,
    /// Name of a Service whose pods are meant, for ConnectTo and AcceptFrom.
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

/// What is kept in a store outside the cluster.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct TestStore {
    /// SecretStore: one of the job's namespace; ClusterSecretStore: one of the cluster.
    pub kind: SecretStoreKind,
    /// Name of the store.
    #[schemars(length(max = 253))]
    #[garde(custom(rules::object_name))]
    #[x_kube(validation = rules::OBJECT_NAME.to_cel_rule())]
    pub name: String,
    /// The path in it.
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
    /// A volume of each pod's own: `name` is that of its StorageClass.
    Ephemeral,
}

/// What is known of the job beside what it asks for.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct TestContext {
    /// User who submitted the job. Absent: unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub requester: Option<TestRequester>,
    /// Its name. Absent: test.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[garde(inner(custom(rules::object_name)))]
    #[x_kube(validation = rules::OBJECT_NAME.to_cel_rule())]
    pub job: Option<String>,
    /// Its labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    #[garde(length(max = 64))]
    pub labels: BTreeMap<String, String>,
    /// Devices that it asks for, of all pods together. Absent: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::test_count)))]
    #[x_kube(validation = rules::TEST_COUNT.to_cel_rule())]
    pub gpus: Option<i64>,
    /// Its pods. Absent: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::test_count)))]
    #[x_kube(validation = rules::TEST_COUNT.to_cel_rule())]
    pub pods: Option<i64>,
    /// Its framework. Absent: None.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub framework: Option<Framework>,
    /// Its priority. Absent: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Longest running time that it asks for, in seconds. Absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::test_count)))]
    #[x_kube(validation = rules::TEST_COUNT.to_cel_rule())]
    pub runtime_seconds: Option<i64>,
    /// Name of its RuntimeProfile. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[garde(inner(custom(rules::profile_name)))]
    #[x_kube(validation = rules::PROFILE_NAME.to_cel_rule())]
    pub profile: Option<String>,
    /// The attempt that it is about to make. Absent: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::test_count)))]
    #[x_kube(validation = rules::TEST_COUNT.to_cel_rule())]
    pub attempt: Option<i64>,
}

/// Who submitted a job.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct TestRequester {
    /// The user's name.
    #[schemars(length(min = 1, max = 253))]
    #[garde(length(min = 1, max = 253))]
    pub user: String,
    /// The user's groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 253)))]
    #[garde(length(max = 64))]
    pub groups: Vec<String>,
}
