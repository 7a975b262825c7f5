//! Policies that change wake the jobs that they decide about.

use trellis_api::JobPolicy;
use trellis_policies::cedar::{Loader, Policies, PolicyObject};

use super::*;

/// One forbid in each of these namespaces.
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
    Loader::new().unwrap().load(None, objects).0
}

#[tokio::test(start_paused = true)]
async fn a_policy_of_a_namespace_wakes_its_jobs_and_the_first_ones_wake_all() {
    let case = Case::new();
    case.jobs(&[("a", "j", &[]), ("b", "j", &[])]).await;
    let (none, of_a) = (load(&[]), load(&["a"]));
    case.context.policies_changed(None, &none);
    assert!(case.looked_at().await.is_empty(), "not all is listed");
    case.sync();
    case.context.policies_changed(None, &none);
    assert_eq!(case.looked_at().await, ["a/j", "b/j"]);
    case.context.policies_changed(Some(&none), &of_a);
    assert_eq!(case.looked_at().await, ["a/j"]);
    case.context.policies_changed(Some(&of_a), &load(&["a"]));
    assert!(case.looked_at().await.is_empty());
}
