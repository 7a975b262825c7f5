//! Policies decide on external pods outside the scheduler's loop.

use trellis_gang::fixtures;

use super::*;

impl ExternalPodsFixture {
    /// Handles events until `is_so` holds.
    async fn decide_until(&mut self, is_so: impl Fn(&Self) -> bool) {
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
async fn pod_is_placed_once_policies_have_decided() {
    let mut scene = ExternalPodsFixture::new();
    scene.driver.external_pods.judgements.evaluates_inline = false;
    let unit = external::pod_gang_key(&key("p"));
    scene.add_pod(pod("p", json!({})));
    // The loop evaluates no policy.
    scene.decide();
    assert_eq!(scene.engine_state(&unit), EngineState::Absent);
    scene
        .decide_until(|scene| scene.engine_state(&unit) == EngineState::Placed)
        .await;
}

#[tokio::test]
async fn pod_is_judged_again_when_policies_change_during_evaluation() {
    let mut scene = ExternalPodsFixture::new();
    scene.driver.external_pods.judgements.evaluates_inline = false;
    let unit = external::pod_gang_key(&key("p"));
    scene.add_pod(pod("p", json!({})));
    scene.decide();
    // The policies have changed, and now allow nothing.
    let context = scene.driver.committer.context().clone();
    let none = trellis_policies::cedar::PolicyLoader::new().unwrap();
    context
        .cache
        .policies
        .replace(none.load(None, Vec::new()).0.into());
    scene
        .decide_until(|scene| scene.written_reason(&unit).starts_with("PolicyDenied"))
        .await;
    assert_eq!(scene.engine_state(&unit), EngineState::Absent);
    context.cache.policies.replace(fixtures::policies());
    scene.recheck(&unit);
    scene
        .decide_until(|scene| scene.engine_state(&unit) == EngineState::Placed)
        .await;
}

#[tokio::test]
async fn pod_with_an_overlong_image_is_refused_with_the_field() {
    let mut scene = ExternalPodsFixture::new();
    let unit = external::pod_gang_key(&key("p"));
    let with = |version: &str, length: usize| -> SlimPod {
        decoded(json!({
            "metadata": {"name": "p", "namespace": "team-a", "uid": "p",
                "resourceVersion": version},
            "spec": {"schedulerName": "trellis",
                "containers": [{"name": "c", "image": "i".repeat(length)}]},
            "status": {"phase": "Pending"},
        }))
    };
    scene.add_pod(with("1", 1025));
    scene.decide();
    assert_eq!(scene.engine_state(&unit), EngineState::Absent);
    assert!(scene.written_reason(&unit).starts_with("InvalidSpec"));
    let refused = scene
        .driver
        .find_single_request(&key("p"), None)
        .unwrap_err();
    assert!(refused.refused);
    let field = "pod \"p\": spec.containers[0].image has 1025 characters, and at most 1024";
    assert!(refused.message.starts_with(field), "{}", refused.message);
    scene.add_pod(with("2", 1024));
    scene.decide();
    assert_eq!(scene.engine_state(&unit), EngineState::Placed);
}
