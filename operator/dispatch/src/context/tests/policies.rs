//! Changed policies requeue the jobs that they decide on.

use trellis_api::JobPolicy;
use trellis_policies::cedar::{Policies, PolicyLoader, PolicyObject};

use super::*;

/// Loads one `forbid` policy in each of these namespaces.
fn load(namespaces: &[&str]) -> Policies {
    let object = |namespace: &&str| {
        let policy: JobPolicy = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "JobPolicy",
            "metadata": {"namespace": namespace, "name": "no", "uid": namespace},
            "spec": {"cedar": "forbid(principal, action, resource);"},
        }));
        PolicyObject::from(&policy)
    };
    let objects = namespaces.iter().map(object).collect();
    PolicyLoader::new().unwrap().load(None, objects).0
}

#[tokio::test(start_paused = true)]
async fn namespace_policy_requeues_its_jobs_and_first_policies_requeue_all() {
    let case = ContextFixture::new();
    case.jobs(&[("a", "j", &[]), ("b", "j", &[])]).await;
    let (no_policies, policies_of_a) = (load(&[]), load(&["a"]));
    case.context.policies_changed(None, &no_policies);
    assert!(
        case.requeued_jobs().await.is_empty(),
        "not all kinds are listed"
    );
    case.sync();
    case.context.policies_changed(None, &no_policies);
    assert_eq!(case.requeued_jobs().await, ["a/j", "b/j"]);
    case.context
        .policies_changed(Some(&no_policies), &policies_of_a);
    assert_eq!(case.requeued_jobs().await, ["a/j"]);
    case.context
        .policies_changed(Some(&policies_of_a), &load(&["a"]));
    assert!(case.requeued_jobs().await.is_empty());
}
