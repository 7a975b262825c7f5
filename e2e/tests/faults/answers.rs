//! Answers that never come.

use std::sync::atomic::{AtomicBool, Ordering};

use trellis_e2e::cluster::Nodes;
use trellis_e2e::jobs::SOON;
use trellis_e2e::operator::{self, Launch, Operator};
use trellis_e2e::proxy::{Fault, Proxy, Verb};
use trellis_e2e::site::Site;
use trellis_e2e::wait::eventually;

use super::program;

/// A list whose answer never comes, as behind a load balancer that has lost the connection: the
/// operator leads, and would lead for ever without doing anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_is_never_answered_is_asked_for_again() {
    let control_plane = operator::control_plane().await.unwrap();
    let proxy = Proxy::start(&control_plane).await.unwrap();
    let hung = AtomicBool::new(false);
    proxy.on_request(move |request| {
        let lists = request.resource == "pods" && request.verb == Verb::List;
        if lists && !hung.swap(true, Ordering::SeqCst) {
            Fault::Hang
        } else {
            Fault::Pass
        }
    });
    let launch = Launch::named("operator").lease_seconds(60);
    let _operator = Operator::behind(&control_plane, program(), &proxy, &launch)
        .await
        .unwrap();
    let site = Site::new(&control_plane, "hung", Nodes::new(1).gpus(8)).await;
    site.submit("j", 2, 1).await;
    eventually(2 * SOON, || site.try_whole("j", 2))
        .await
        .unwrap();
}
