//! Objects, sets and requests for the other files.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use proptest::prelude::ProptestConfig;
use serde_json::{Value, from_value, json};
use trellis_api::{ClusterJobPolicy, Enforcement, JobPolicy};
use trellis_policies::cedar::{
    JobAttributes, NamespacedName, ObjectLoadResult, Policies, PolicyLoader, PolicyObject,
    PolicyRequest, QueueUse, RequestDecision, Requester, RequestingNamespace, SecretRef,
};

/// Runs `usual` cases where `PROPTEST_CASES` is 256, which is proptest's default, and more or fewer
/// in proportion to it.
pub fn cases(usual: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig::with_cases((usual * default.cases / 256).max(1))
}

pub const ALLOW_ALL: &str = "permit(principal, action, resource);";

pub fn loader() -> &'static PolicyLoader {
    static LOADER: LazyLock<PolicyLoader> = LazyLock::new(|| PolicyLoader::new().unwrap());
    &LOADER
}

/// A ClusterJobPolicy with more than its text.
pub fn cluster_with(name: &str, cedar: &str, more: Value) -> PolicyObject {
    let mut spec = more;
    spec["cedar"] = json!(cedar);
    let object: ClusterJobPolicy = from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "ClusterJobPolicy",
        "metadata": {"name": name, "uid": name}, "spec": spec,
    }))
    .unwrap();
    PolicyObject::from(&object)
}

pub fn cluster(name: &str, cedar: &str) -> PolicyObject {
    cluster_with(name, cedar, json!({}))
}

pub fn namespaced(namespace: &str, name: &str, cedar: &str) -> PolicyObject {
    let object: JobPolicy = from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "JobPolicy",
        "metadata": {"namespace": namespace, "name": name, "uid": name}, "spec": {"cedar": cedar},
    }))
    .unwrap();
    PolicyObject::from(&object)
}

pub fn enforced(enforcement: Enforcement, object: PolicyObject) -> PolicyObject {
    PolicyObject {
        enforcement,
        ..object
    }
}

/// The set of these objects, all of which are good.
pub fn set(objects: Vec<PolicyObject>) -> Policies {
    let (policies, verdicts) = loader().load(None, objects);
    for verdict in verdicts {
        assert!(
            verdict.problems.is_empty(),
            "{}",
            describe_problems(&verdict)
        );
    }
    policies
}

/// All that is wrong with an object, as one text.
pub fn describe_problems(verdict: &ObjectLoadResult) -> String {
    let problems: Vec<_> = verdict.problems.iter().map(ToString::to_string).collect();
    problems.join("\n")
}

/// All that is wrong with this one object.
pub fn load_problems(object: PolicyObject) -> String {
    let (_, verdicts) = loader().load(None, vec![object]);
    describe_problems(&verdicts[0])
}

/// Runs a function in a thread with that many bytes of stack.
pub fn run_on_stack<T: Send + 'static>(
    bytes: usize,
    run: impl FnOnce() -> T + Send + 'static,
) -> T {
    let thread = std::thread::Builder::new().stack_size(bytes);
    thread.spawn(run).unwrap().join().unwrap()
}

/// Facts of a job with defaults, for tests that do not depend on them.
#[derive(Debug)]
pub struct RequestFixture {
    pub labels: BTreeMap<String, String>,
    pub job_labels: BTreeMap<String, String>,
    pub requester: Option<Requester>,
    pub gpus: i64,
}

impl Default for RequestFixture {
    fn default() -> Self {
        Self {
            labels: BTreeMap::new(),
            job_labels: BTreeMap::new(),
            requester: None,
            gpus: 8,
        }
    }
}

impl RequestFixture {
    /// Decides, and sees that the index changes nothing.
    pub fn decide(
        &self,
        policies: &Policies,
        namespace: &str,
        ask: &PolicyRequest,
    ) -> RequestDecision {
        let decision = self.decide_once(policies, namespace, ask);
        let bare = self.decide_once(&policies.without_index(), namespace, ask);
        assert_eq!(decision, bare, "the index changes nothing");
        decision
    }

    pub fn decide_once(
        &self,
        policies: &Policies,
        namespace: &str,
        ask: &PolicyRequest,
    ) -> RequestDecision {
        let about = JobAttributes {
            job: "llm",
            labels: &self.job_labels,
            requester: self.requester.as_ref(),
            gpus: self.gpus,
            pods: 1,
            framework: "PyTorch",
            priority: 0,
            runtime_seconds: None,
            profile: None,
            attempt: 1,
        };
        let subject = RequestingNamespace {
            namespace,
            labels: &self.labels,
        };
        policies.decide(&subject, &about, [ask]).remove(0)
    }
}

pub fn decide(policies: &Policies, namespace: &str, ask: &PolicyRequest) -> RequestDecision {
    RequestFixture::default().decide(policies, namespace, ask)
}

pub fn queue_request(name: &str) -> PolicyRequest {
    PolicyRequest::UseQueue(QueueUse {
        queue: name.to_owned(),
        selects_namespace: true,
    })
}

pub fn secret_request(namespace: &str, name: &str) -> PolicyRequest {
    PolicyRequest::UseSecret(SecretRef::Cluster(NamespacedName {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }))
}

pub fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
    pairs.iter().map(owned).collect()
}
