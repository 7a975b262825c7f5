//! Objects, sets and requests for the other files.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Value, from_value, json};
use trellis_api::{ClusterJobPolicy, Enforcement, JobPolicy};
use trellis_policies::cedar::{
    About, Ask, Decision, Loader, Object, ObjectVerdict, Policies, PolicyObject, Requester, Subject,
};

pub const ALLOW_ALL: &str = "permit(principal, action, resource);";

pub fn loader() -> &'static Loader {
    static LOADER: LazyLock<Loader> = LazyLock::new(|| Loader::new().unwrap());
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
        assert!(verdict.problems.is_empty(), "{}", told(&verdict));
    }
    policies
}

/// All that is wrong with an object, as one text.
pub fn told(verdict: &ObjectVerdict) -> String {
    let problems: Vec<_> = verdict.problems.iter().map(ToString::to_string).collect();
    problems.join("\n")
}

/// All that is wrong with this one object.
pub fn problems(object: PolicyObject) -> String {
    let (_, verdicts) = loader().load(None, vec![object]);
    told(&verdicts[0])
}

/// Runs a function in a thread with that many bytes of stack.
pub fn on_a_stack_of<T: Send + 'static>(
    bytes: usize,
    run: impl FnOnce() -> T + Send + 'static,
) -> T {
    let thread = std::thread::Builder::new().stack_size(bytes);
    thread.spawn(run).unwrap().join().unwrap()
}

/// Facts of a job with defaults, for tests that do not depend on them.
#[derive(Debug)]
pub struct Around {
    pub labels: BTreeMap<String, String>,
    pub job_labels: BTreeMap<String, String>,
    pub requester: Option<Requester>,
    pub gpus: i64,
}

impl Default for Around {
    fn default() -> Self {
        Self {
            labels: BTreeMap::new(),
            job_labels: BTreeMap::new(),
            requester: None,
            gpus: 8,
        }
    }
}

impl Around {
    /// Decides, and sees that the index changes nothing.
    pub fn decide(&self, policies: &Policies, namespace: &str, ask: &Ask) -> Decision {
        let decision = self.decide_once(policies, namespace, ask);
        let bare = self.decide_once(&policies.without_index(), namespace, ask);
        assert_eq!(decision, bare, "the index changes nothing");
        decision
    }

    pub fn decide_once(&self, policies: &Policies, namespace: &str, ask: &Ask) -> Decision {
        let about = About {
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
        let subject = Subject {
            namespace,
            labels: &self.labels,
        };
        policies.decide(&subject, &about, [ask]).remove(0)
    }
}

pub fn decide(policies: &Policies, namespace: &str, ask: &Ask) -> Decision {
    Around::default().decide(policies, namespace, ask)
}

pub fn queue(name: &str) -> Ask {
    Ask::UseQueue {
        queue: name.to_owned(),
        selects_namespace: true,
    }
}

pub fn secret(namespace: &str, name: &str) -> Ask {
    Ask::UseSecret(Object {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

pub fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
    pairs.iter().map(owned).collect()
}
