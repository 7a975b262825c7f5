//! The operator is killed after the k-th write for a gang that gets new nodes, for every k. The next
//! leader continues the order of its predecessor: it buys no node a second time, and leaves neither
//! an incomplete gang nor placeholders.

use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::operator::{PLACEHOLDER_NAMESPACE, Succession, kill_after_every_write};
use trellis_e2e::proxy::{Request, TrapTiming};
use trellis_e2e::site::jobs::phase;

use crate::growing_site::GrowingSite;
use crate::ordering_site::{OrderingOptions, OrderingSite};
use crate::provisioning_request::{ATOMIC, method, wait_until_no_requests};
use crate::stand_in::{Answer, Arrival, StandIn};
use crate::{
    SETTLED, control_plane_options, install, install_chart, launch_options, operator_program,
};

/// Returns true for the writes for a gang and for its placeholders.
fn counted_write_filter(namespace: &str) -> impl Fn(&Request) -> bool + Send + Sync + 'static {
    let namespaces = [namespace.to_owned(), PLACEHOLDER_NAMESPACE.to_owned()];
    move |request| {
        let namespace = request.namespace.as_ref();
        let is_counted = namespace.is_some_and(|namespace| namespaces.contains(namespace));
        request.is_write() && is_counted && !request.is_event()
    }
}

fn is_running(job: &TrainingJob) -> bool {
    phase(job) == Some(JobPhase::Running)
}

/// Runs a gang of two task groups, whose operator is killed at the k-th write. Returns the job, and
/// true if the operator was killed.
async fn runs_through_kill(
    operators: &mut Succession,
    site: &OrderingSite,
    (k, moment): (u64, TrapTiming),
) -> (TrainingJob, bool) {
    // The placeholders of each task group are a Job of their own.
    let mut job = site.gang_job("j", 1);
    let groups = job["spec"]["taskGroups"].as_array_mut().unwrap();
    let mut second = groups[0].clone();
    second["name"] = json!("evaluator");
    groups.push(second);
    let fired = operators.kill_after_write(k, moment, counted_write_filter(site.name()));
    let job = site.create(job).await.unwrap();
    let (status, was_killed) = operators
        .wait_through_kill(site, "j", (fired, k, moment), is_running)
        .await;
    let counts = (status.attempt, status.restarts, status.disruptions);
    assert_eq!(
        counts,
        (Some(1), Some(0), Some(0)),
        "after write {k} ({moment:?})"
    );
    site.wait_for_whole_gang("j", 2).await;
    (job, was_killed)
}

async fn end_gang(site: &OrderingSite) {
    site.delete::<TrainingJob>("j").await;
    site.wait_for_pod_count("j", 0).await;
}

async fn gang_gets_its_nodes_once_after_a_crash_at_each_write(moment: TrapTiming) {
    let control_plane = ControlPlane::start(control_plane_options()).await.unwrap();
    let _karpenter = install(&control_plane).await;
    let launch = launch_options();
    let mut operators = Succession::start(control_plane, operator_program(), launch).await;
    let mut sites = Vec::new();
    // The writes are 3 children, the order, 2 placeholder Jobs and 2 conditions, the plan, the
    // deletion of the placeholders, 2 pods, the end of the plan and a status.
    let minimum = 3 + 1 + 4 + 1 + 1 + 2 + 1 + 1;
    kill_after_every_write(minimum, async |k| {
        let control_plane = &operators.control_plane;
        let site = GrowingSite::on(control_plane, "crash", OrderingOptions::default(), |pool| {
            pool
        })
        .await;
        let (job, was_killed) = runs_through_kill(&mut operators, &site, (k, moment)).await;
        site.wait_until_no_placeholders(&job).await;
        let lost = site.pool.lost_claims();
        assert!(lost.is_empty(), "after write {k} ({moment:?}): {lost:?}");
        end_gang(&site).await;
        sites.push(site);
        was_killed
    })
    .await;
    tokio::time::sleep(SETTLED).await;
    for site in &sites {
        let claims = site.pool.claims();
        assert_eq!(claims.len(), 2, "{}: {claims:?}", site.name());
    }
}

async fn request_is_served_once_after_a_crash_at_each_write(moment: TrapTiming) {
    let control_plane = ControlPlane::start(control_plane_options()).await.unwrap();
    install_chart(&control_plane).await;
    let launch = launch_options();
    let mut operators = Succession::start(control_plane, operator_program(), launch).await;
    // The writes are 3 children, the order, 2 PodTemplates and the request, the plan, the deletion
    // of the request and of its templates, 2 pods, the end of the plan and a status.
    let minimum = 3 + 1 + 3 + 1 + 2 + 2 + 1 + 1;
    kill_after_every_write(minimum, async |k| {
        let control_plane = operators.control_plane.clone();
        let method = method(ATOMIC);
        let site =
            OrderingSite::new(&control_plane, "crash", OrderingOptions::default(), method).await;
        let answer = Answer::Nodes(Arrival::default());
        let stand_in = StandIn::start(control_plane, site.name(), answer);
        let (_, was_killed) = runs_through_kill(&mut operators, &site, (k, moment)).await;
        wait_until_no_requests(&site).await;
        let (bought, requests) = (stand_in.bought(), stand_in.requests());
        assert_eq!((bought, requests), (2, 1), "after write {k} ({moment:?})");
        end_gang(&site).await;
        was_killed
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "mostly waits: .ci/run runs it beside the soak"]
async fn request_is_served_once_if_a_leader_dies_before_a_response() {
    request_is_served_once_after_a_crash_at_each_write(TrapTiming::BeforeAnswer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "mostly waits: .ci/run runs it beside the soak"]
async fn request_is_served_once_if_a_leader_dies_after_a_response() {
    request_is_served_once_after_a_crash_at_each_write(TrapTiming::AfterAnswer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "mostly waits: .ci/run runs it beside the soak"]
async fn gang_gets_its_nodes_once_if_a_leader_dies_before_a_response() {
    gang_gets_its_nodes_once_after_a_crash_at_each_write(TrapTiming::BeforeAnswer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "mostly waits: .ci/run runs it beside the soak"]
async fn gang_gets_its_nodes_once_if_a_leader_dies_after_a_response() {
    gang_gets_its_nodes_once_after_a_crash_at_each_write(TrapTiming::AfterAnswer).await;
}
