//! Policies decide on external pods apart from the scheduler's loop.

use trellis_gang::fixtures;

use super::*;

impl Scene {
    /// Handles events until `is_so` holds.
    async fn hear_until(&mut self, is_so: impl Fn(&Self) -> bool) {
        let heard = tokio::time::timeout(std::time::Duration::from_secs(60), async {
            while !is_so(self) {
                self.decide();
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        });
        heard.await.unwrap();
    }
}

#[tokio::test]
async fn pod_waits_for_the_decision_of_policies_and_is_looked_at_once_it_has_come() {
    let mut scene = Scene::new();
    scene.driver.external_pods.judgements.at_once = false;
    let unit = external::of_pod(&key("p"));
    scene.see(pod("p", json!({})));
    // Nothing is evaluated in the loop.
    scene.decide();
    assert_eq!(scene.inside(&unit), Inside::No);
    scene
        .hear_until(|scene| scene.inside(&unit) == Inside::Placed)
        .await;
}

#[tokio::test]
async fn pod_that_changes_while_policies_decide_is_decided_on_as_it_is_now() {
    let mut scene = Scene::new();
    scene.driver.external_pods.judgements.at_once = false;
    let unit = external::of_pod(&key("p"));
    scene.see(pod("p", json!({})));
    scene.decide();
    // Policies that allow nothing have come since.
    let context = scene.driver.committer.context().clone();
    let none = trellis_policies::cedar::Loader::new().unwrap();
    context
        .cache
        .policies
        .replace(none.load(None, Vec::new()).0.into());
    scene
        .hear_until(|scene| scene.told(&unit).starts_with("PolicyDenied"))
        .await;
    assert_eq!(scene.inside(&unit), Inside::No);
    context.cache.policies.replace(fixtures::policies());
    scene.look(&unit);
    scene
        .hear_until(|scene| scene.inside(&unit) == Inside::Placed)
        .await;
}

#[tokio::test]
async fn pod_whose_image_is_longer_than_a_job_may_name_is_refused_with_the_field() {
    let mut scene = Scene::new();
    let unit = external::of_pod(&key("p"));
    let with = |version: &str, length: usize| -> SlimPod {
        decoded(json!({
            "metadata": {"name": "p", "namespace": "team-a", "uid": "p",
                "resourceVersion": version},
            "spec": {"schedulerName": "trellis",
                "containers": [{"name": "c", "image": "i".repeat(length)}]},
            "status": {"phase": "Pending"},
        }))
    };
    scene.see(with("1", 1025));
    scene.decide();
    assert_eq!(scene.inside(&unit), Inside::No);
    assert!(scene.told(&unit).starts_with("InvalidSpec"));
    let refused = scene.driver.find_single(&key("p"), None).unwrap_err();
    assert!(refused.refused);
    let field = "pod \"p\": spec.containers[0].image has 1025 characters, and at most 1024";
    assert!(refused.message.starts_with(field), "{}", refused.message);
    scene.see(with("2", 1024));
    scene.decide();
    assert_eq!(scene.inside(&unit), Inside::Placed);
}
