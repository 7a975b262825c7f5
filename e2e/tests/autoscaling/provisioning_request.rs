//! Jobs whose nodes Trellis orders by ProvisioningRequests, for each condition of a request.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{Event, Pod, PodTemplate};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use trellis_api::job::JobPhase;
use trellis_api::{Reason, TrainingJob};
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::operator::{self, Succession};
use trellis_e2e::site::jobs::{SOON, message};
use trellis_e2e::wait::eventually;
use trellis_gang::node_order::cluster_autoscaler::{
    CONSUMED_CLASS, CONSUMED_REQUEST, GKE_CLASS, ProvisioningRequest,
};

use crate::autoscaler_check::wait_for_condition;
use crate::ordering_site::{OrderingOptions, OrderingSite};
use crate::stand_in::{Answer, Arrival, StandIn};
use crate::{launch_options, operator_program, shared_control_plane};

pub(crate) const ATOMIC: &str = "best-effort-atomic-scale-up.autoscaling.x-k8s.io";

/// Returns the fields of a flavor that orders nodes by ProvisioningRequests of a class.
pub(crate) fn method(class: &str) -> Value {
    json!({
        "by": "ProvisioningRequest",
        "provisioningRequest": {"provisioningClassName": class},
    })
}

/// A site whose flavor orders nodes by ProvisioningRequests of a class.
async fn request_site(
    prefix: &str,
    class: &str,
    options: OrderingOptions,
    answer: Answer,
) -> (OrderingSite, StandIn) {
    let control_plane = shared_control_plane().await;
    let site = OrderingSite::new(control_plane, prefix, options, method(class)).await;
    let stand_in = StandIn::start(control_plane, site.name(), answer);
    (site, stand_in)
}

fn requests(site: &OrderingSite) -> Api<ProvisioningRequest> {
    site.api()
}

/// Waits until a site has no ProvisioningRequests and PodTemplates.
pub(crate) async fn wait_until_no_requests(site: &OrderingSite) {
    eventually(Duration::from_secs(90), || async {
        let requests = requests(site).list(&ListParams::default()).await?;
        let templates = site
            .api::<PodTemplate>()
            .list(&ListParams::default())
            .await?;
        ensure!(
            requests.items.is_empty() && templates.items.is_empty(),
            "{requests:?}"
        );
        Ok(())
    })
    .await
    .unwrap();
}

/// Waits for the event that an order has failed, and returns its message.
async fn wait_for_failure(site: &OrderingSite) -> String {
    eventually(SOON, || async {
        let events = site.api::<Event>().list(&ListParams::default()).await?;
        let mut events = events.into_iter();
        let failed = events.find(|event| event.reason.as_deref() == Some("ProvisioningFailed"));
        failed
            .and_then(|event| event.message)
            .context("no event ProvisioningFailed")
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn gang_with_a_provisioned_request_waits_until_nodes_exist_and_uses_free_nodes_first() {
    let options = OrderingOptions {
        nodes: 1,
        ..OrderingOptions::default()
    };
    let arrival = Arrival {
        after: Duration::from_secs(8),
        ..Arrival::default()
    };
    let (site, stand_in) = request_site("pr", ATOMIC, options, Answer::Nodes(arrival)).await;
    site.submit_gang("train", 3).await;
    eventually(SOON, || async {
        let requests = requests(&site).list(&ListParams::default()).await?;
        let status = requests
            .items
            .first()
            .and_then(|request| request.status.clone());
        let conditions = status.unwrap_or_default().conditions;
        ensure!(
            conditions.iter().any(|c| c.type_ == "Provisioned"),
            "{conditions:?}"
        );
        Ok(())
    })
    .await
    .unwrap();
    let waiting = site
        .wait_until_queued_for("train", Reason::Provisioning)
        .await;
    assert!(
        message(&waiting).contains("2 new nodes of flavor"),
        "{}",
        message(&waiting)
    );
    site.wait_for_pod_count("train", 0).await;
    site.wait_until_running("train").await;
    site.wait_for_whole_gang("train", 3).await;
    wait_until_no_requests(&site).await;
    assert_eq!((stand_in.bought(), stand_in.requests()), (2, 1));
}

#[tokio::test]
async fn order_ends_with_the_message_of_its_failed_request() {
    let (site, stand_in) = request_site(
        "failed",
        ATOMIC,
        OrderingOptions::default(),
        Answer::Failure,
    )
    .await;
    site.submit_gang("train", 2).await;
    let failure = wait_for_failure(&site).await;
    assert!(
        failure.contains("the project has no quota of GPUs"),
        "{failure}"
    );
    wait_until_no_requests(&site).await;
    // The next order follows after a minute.
    assert_eq!((stand_in.bought(), stand_in.requests()), (0, 1));
}

#[tokio::test]
#[ignore = "mostly waits: .ci/run runs it beside the soak"]
async fn order_ends_when_the_provider_revokes_its_nodes() {
    let answer = Answer::Nodes(Arrival {
        after: Duration::from_secs(3_600),
        revocation: Some(Duration::from_secs(3)),
        ..Arrival::default()
    });
    let (site, _stand_in) =
        request_site("revoked", ATOMIC, OrderingOptions::default(), answer).await;
    site.submit_gang("train", 2).await;
    let failure = wait_for_failure(&site).await;
    assert!(
        failure.contains("the provider took the nodes back"),
        "{failure}"
    );
    wait_until_no_requests(&site).await;
}

#[tokio::test]
#[ignore = "mostly waits: .ci/run runs it beside the soak"]
async fn expired_booking_is_renewed_and_buys_no_node_twice() {
    let answer = Answer::Nodes(Arrival {
        after: Duration::from_secs(20),
        booking: Some(Duration::from_secs(2)),
        ..Arrival::default()
    });
    let (site, stand_in) =
        request_site("expired", ATOMIC, OrderingOptions::default(), answer).await;
    site.submit_gang("train", 2).await;
    site.wait_until_running("train").await;
    assert_eq!(stand_in.bought(), 2);
    assert!(stand_in.requests() > 1);
    wait_until_no_requests(&site).await;
}

#[tokio::test]
#[ignore = "mostly waits: .ci/run runs it beside the soak"]
async fn job_whose_request_finds_no_room_shows_the_message_until_it_is_suspended() {
    let (site, _stand_in) =
        request_site("room", ATOMIC, OrderingOptions::default(), Answer::NoRoom).await;
    site.submit_gang("train", 2).await;
    site.wait_for_status("train", |status| {
        let words = "the autoscaler says: Capacity is not found";
        status.full_message().contains(words)
    })
    .await;
    site.patch("train", json!({"spec": {"suspend": true}}))
        .await
        .unwrap();
    site.wait_for_phase("train", JobPhase::Suspended).await;
    wait_until_no_requests(&site).await;
}

/// GKE may add the nodes days later.
#[tokio::test]
async fn gke_request_is_deleted_when_its_job_is_suspended() {
    let (site, stand_in) =
        request_site("own", GKE_CLASS, OrderingOptions::default(), Answer::NoRoom).await;
    site.submit_gang("train", 2).await;
    eventually(SOON, || async {
        ensure!(stand_in.requests() == 1, "no request");
        Ok(())
    })
    .await
    .unwrap();
    site.patch("train", json!({"spec": {"suspend": true}}))
        .await
        .unwrap();
    site.wait_for_phase("train", JobPhase::Suspended).await;
    wait_until_no_requests(&site).await;
}

#[tokio::test]
#[ignore = "mostly waits: .ci/run runs it beside the soak"]
async fn deleted_request_is_recreated() {
    let (site, stand_in) =
        request_site("again", ATOMIC, OrderingOptions::default(), Answer::Silence).await;
    site.submit_gang("train", 2).await;
    eventually(SOON, || async {
        ensure!(stand_in.requests() == 1, "no request");
        Ok(())
    })
    .await
    .unwrap();
    requests(&site)
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .unwrap();
    eventually(SOON, || async {
        ensure!(stand_in.requests() == 2, "{} requests", stand_in.requests());
        Ok(())
    })
    .await
    .unwrap();
    site.delete::<TrainingJob>("train").await;
    wait_until_no_requests(&site).await;
}

/// GKE adds nodes for one request alone.
#[tokio::test]
async fn nodes_of_queued_provisioning_serve_only_the_job_of_their_request() {
    let answer = Answer::Nodes(Arrival {
        after: Duration::from_secs(2),
        ..Arrival::default()
    });
    let (site, stand_in) = request_site("gke", GKE_CLASS, OrderingOptions::default(), answer).await;
    site.submit_gang("first", 2).await;
    site.wait_until_running("first").await;
    let request = requests(&site).list(&ListParams::default()).await.unwrap();
    let (first, name) = (request.items[0].uid(), request.items[0].name_any());
    let pod = site.api::<Pod>().get("first-worker-0").await.unwrap();
    assert_eq!(pod.annotations().get(CONSUMED_REQUEST), Some(&name));
    assert_eq!(pod.annotations()[CONSUMED_CLASS], GKE_CLASS);
    // A rank fails: the next attempt runs on the same nodes, whose request still exists.
    site.end_pod("first-worker-0", "1").await;
    site.wait_for_running_attempt("first", 2).await;
    assert_eq!(stand_in.bought(), 2);
    let request = requests(&site).list(&ListParams::default()).await.unwrap();
    assert_eq!(request.items[0].uid(), first);
    for pod in ["first-worker-0", "first-worker-1"] {
        site.end_pod(pod, "0").await;
    }
    site.wait_for_phase("first", JobPhase::Complete).await;
    wait_until_no_requests(&site).await;
    // Both nodes are free, but another job gets nodes of its own.
    site.submit_gang("second", 1).await;
    site.wait_until_running("second").await;
    assert_eq!(stand_in.bought(), 3);
}

/// The cluster has no Cluster Autoscaler.
#[tokio::test]
#[ignore = "mostly waits: .ci/run runs it beside the soak"]
async fn job_reports_that_the_cluster_lacks_the_provisioning_request_crd() {
    let options = operator::control_plane_options().unwrap();
    let control_plane = ControlPlane::start(options).await.unwrap();
    operator::install_chart_objects(&control_plane)
        .await
        .unwrap();
    operator::install_placeholder_objects(&control_plane)
        .await
        .unwrap();
    let operators = Succession::start(control_plane, operator_program(), launch_options()).await;
    let site = OrderingSite::new(
        &operators.control_plane,
        "absent",
        OrderingOptions::default(),
        method(ATOMIC),
    )
    .await;
    site.submit_gang("train", 2).await;
    site.wait_for_status("train", |status| {
        let message = status.full_message();
        message.contains("the cluster has no kind ProvisioningRequest")
            && message
                .contains("install its CRD, or use a flavor with provisioning.by: Placeholders")
    })
    .await;
    let problem = "the cluster has no kind ProvisioningRequest: install its CRD";
    wait_for_condition(&site, "False", problem).await;
}
