//! Policies decide on external pods outside the scheduler's loop.

use trellis_gang::fixtures;

use super::*;

impl ExternalPodsFixture {
    /// Handles events until `condition` returns true.
    async fn decide_until(&mut self, condition: impl Fn(&Self) -> bool) {
        let decided = tokio::time::timeout(std::time::Duration::from_secs(60), async {
            while !condition(self) {
                self.decide();
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        });
        decided.await.unwrap();
    }
}

#[tokio::test]
async fn pod_is_placed_once_policies_have_decided() {
    let mut fixture = ExternalPodsFixture::new();
    fixture.driver.external_pods.judgements.evaluates_inline = false;
    let unit = external::pod_gang_key(&key("p"));
    fixture.add_pod(pod("p", json!({})));
    // The loop evaluates no policy.
    fixture.decide();
    assert_eq!(fixture.engine_state(&unit), EngineState::Absent);
    fixture
        .decide_until(|fixture| fixture.engine_state(&unit) == EngineState::Placed)
        .await;
}

#[tokio::test]
async fn pod_is_judged_again_when_policies_change_during_evaluation() {
    let mut fixture = ExternalPodsFixture::new();
    fixture.driver.external_pods.judgements.evaluates_inline = false;
    let unit = external::pod_gang_key(&key("p"));
    fixture.add_pod(pod("p", json!({})));
    fixture.decide();
    // The policies have changed, and deny every pod.
    let context = fixture.driver.committer.context().clone();
    let loader = trellis_policies::cedar::PolicyLoader::new().unwrap();
    context
        .cache
        .policies
        .replace(loader.load(None, Vec::new()).0.into());
    fixture
        .decide_until(|fixture| fixture.written_reason(&unit).starts_with("PolicyDenied"))
        .await;
    assert_eq!(fixture.engine_state(&unit), EngineState::Absent);
    context.cache.policies.replace(fixtures::policies());
    fixture.recheck(&unit);
    fixture
        .decide_until(|fixture| fixture.engine_state(&unit) == EngineState::Placed)
        .await;
}

#[tokio::test]
async fn pod_with_an_overlong_image_is_refused_with_the_field() {
    let mut fixture = ExternalPodsFixture::new();
    let unit = external::pod_gang_key(&key("p"));
    let pod_with_image = |version: &str, length: usize| -> SlimPod {
        decoded(json!({
            "metadata": {"name": "p", "namespace": "team-a", "uid": "p",
                "resourceVersion": version},
            "spec": {"schedulerName": "trellis",
                "containers": [{"name": "c", "image": "i".repeat(length)}]},
            "status": {"phase": "Pending"},
        }))
    };
    fixture.add_pod(pod_with_image("1", 1025));
    fixture.decide();
    assert_eq!(fixture.engine_state(&unit), EngineState::Absent);
    assert!(fixture.written_reason(&unit).starts_with("InvalidSpec"));
    let refused = fixture
        .driver
        .find_single_request(&key("p"), None)
        .unwrap_err();
    assert!(refused.refused);
    let field = "pod \"p\": spec.containers[0].image has 1025 characters, and at most 1024";
    assert!(refused.message.starts_with(field), "{}", refused.message);
    fixture.add_pod(pod_with_image("2", 1024));
    fixture.decide();
    assert_eq!(fixture.engine_state(&unit), EngineState::Placed);
}
