//! Who submitted a job counts where something stamps it, and nowhere else.

use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_api::names::REQUESTED_BY;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::jobs::reason;
use trellis_e2e::operator::{self, Launch, Operator};
use trellis_e2e::site::Site;

use super::program;
use super::scene::{about, active, apply};

#[tokio::test]
async fn a_requester_is_known_by_a_stamp_that_is_trusted() {
    let control_plane = operator::control_plane().await.unwrap();
    let kubeconfig = control_plane
        .service_account_kubeconfig(operator::NAMESPACE, operator::ACCOUNT)
        .await
        .unwrap();
    let site = Site::new(&control_plane, "who", Nodes::new(1).gpus(8)).await;
    let text = "forbid(principal, action == Trellis::Action::\"Submit\", resource) \
                unless { context has requester && context.requester.groups.contains(\"ml\") };";
    apply(&control_plane, &about(&site, text, json!({}))).await;
    let stamped = |name: &str, stamp: Option<&str>| {
        let mut job = site.job(name, 1, 1);
        if let Some(stamp) = stamp {
            job["metadata"]["annotations"] = json!({REQUESTED_BY: stamp});
        }
        job
    };
    let ada = r#"{"user": "ada", "groups": ["ml", "all"]}"#;
    let cases = [
        ("ada", Some(ada), JobPhase::Running),
        (
            "eve",
            Some(r#"{"user": "eve", "groups": ["all"]}"#),
            JobPhase::Refused,
        ),
        ("odd", Some("ml"), JobPhase::Refused),
        ("none", None, JobPhase::Refused),
    ];
    let trusting = Launch::named("operator").argument("--trust-requested-by");
    let mut operator = Operator::launch(&control_plane, program(), &kubeconfig, &trusting).unwrap();
    active(&control_plane, site.name()).await;
    for (name, stamp, phase) in cases {
        site.create(stamped(name, stamp)).await.unwrap();
        let job = site.reaches(name, phase).await;
        if phase == JobPhase::Refused {
            assert_eq!(reason(&job), "PolicyDenied", "{name}");
            assert_eq!(site.pods(name).await.len(), 0);
        }
    }
    operator.kill().unwrap();
    operator::give_lease_back(&control_plane).await.unwrap();
    let _operator = Operator::launch(
        &control_plane,
        program(),
        &kubeconfig,
        &Launch::named("operator"),
    )
    .unwrap();
    site.create(stamped("forged", Some(ada))).await.unwrap();
    let refused = site.reaches("forged", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied");
}
