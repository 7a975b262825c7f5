//! The admission webhook at a fixed rate of requests, over TLS on connections that stay open, as an
//! API server calls it. The benchmark sends each request at its scheduled time, even if earlier
//! requests have no answer yet, and measures its duration from that time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;
use trellis_api::ClusterJobPolicy;
use trellis_e2e::admission::operator_webhook::{
    self, FailurePolicy, WebhookClient, admission_review, sized_body,
};
use trellis_e2e::control_plane::free_port;
use trellis_e2e::wait::eventually;

use crate::bench::{Bench, CONCURRENT_APPLIES, MEASUREMENT_TIMEOUT};
use crate::jobs;
use crate::row::BenchRow;

/// Requests per second.
const RATE: u32 = 200;
/// Warm-up requests, which open connections and fill caches. They are not counted.
const WARM_UP_REQUESTS: u32 = 2 * RATE;
/// Counted requests, in half a minute.
const COUNTED_REQUESTS: u32 = 30 * RATE;
/// Number of policies of one object.
const POLICIES_PER_OBJECT: usize = 100;

/// Measures an operator with this number of policies.
pub(crate) async fn measure(bench: &Bench, policies: usize) -> Result<()> {
    let control_plane = &bench.control_plane;
    let port = free_port()?;
    operator_webhook::install(control_plane, port, FailurePolicy::Ignore).await?;
    let operator = bench
        .start_operator_with(&operator_webhook::launch_options("webhook", port))
        .await?;
    operator_webhook::wait_until_called(control_plane).await?;
    let namespace = bench.create_namespace().await?;
    let objects = policies.div_ceil(POLICIES_PER_OBJECT);
    let all: Api<ClusterJobPolicy> = Api::all(control_plane.client());
    let created = (0..objects).map(|i| {
        let all = all.clone();
        async move {
            anyhow::Ok(
                all.create(&PostParams::default(), &policy_object(i)?)
                    .await?,
            )
        }
    });
    let created = stream::iter(created).buffer_unordered(CONCURRENT_APPLIES);
    created.try_for_each(|_| async { Ok(()) }).await?;
    let bench_objects = ListParams::default().labels("bench=webhook");
    eventually(MEASUREMENT_TIMEOUT, || async {
        let listed = all.list(&bench_objects).await?;
        let active = listed.items.iter().filter(|policy| {
            let conditions = policy.status.iter().flat_map(|s| &s.conditions);
            conditions
                .into_iter()
                .any(|c| c.type_ == "Ready" && c.status == "True")
        });
        ensure!(active.count() == objects, "not all policies take effect");
        Ok(())
    })
    .await?;

    let caller = WebhookClient::new(control_plane, port).await?;
    let mut job = serde_json::to_value(jobs::bench_job("asked", 8, 8)?)?;
    job["spec"]["taskGroups"][0]["image"] = json!("registry.example/train:1");
    let review = admission_review("uid", "ada", namespace.name(), &job).to_string();
    let before = operator.cpu_seconds()?;
    let (mut durations, undecided) = measure_requests(&caller, &review).await?;
    let cpu = operator.cpu_seconds()? - before;
    durations.sort_unstable();
    let case = |what: &str| format!("webhook, {RATE} requests/s, {policies} policies: {what}");
    for (what, share) in [("median", 50), ("p99", 99), ("longest", 100)] {
        let last = durations.len().saturating_sub(1);
        let at = durations.len() * share / 100;
        let value = durations
            .get(at.min(last))
            .context("no request was counted")?;
        let ms = value.as_secs_f64() * 1e3;
        bench.print_row(&BenchRow::new(case(what), ms, "ms"));
    }
    // An overloaded webhook accepts requests that it cannot decide in time.
    let share = undecided * 100.0 / f64::from(COUNTED_REQUESTS);
    bench.print_row(&BenchRow::new(case("passed undecided"), share, "%"));
    let each = cpu * 1e6 / f64::from(WARM_UP_REQUESTS + COUNTED_REQUESTS);
    bench.print_row(&BenchRow::new(case("CPU of one"), each, "us"));

    // The parts of the benchmark that follow run without the webhook.
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(control_plane.client());
    let params = DeleteParams::default();
    configurations
        .delete(operator_webhook::WEBHOOK_NAME, &params)
        .await?;
    all.delete_collection(&params, &bench_objects).await?;
    Ok(())
}

/// Policies that are evaluated for each image, and match none.
fn policy_object(number: usize) -> Result<ClusterJobPolicy> {
    let cedar = (0..POLICIES_PER_OBJECT).map(|i| {
        format!(
            "forbid(principal, action == Trellis::Action::\"UseImage\", resource) \
             when {{ resource has registry && resource.registry == \"r{number}-{i}.example\" }};\n"
        )
    });
    Ok(serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "ClusterJobPolicy",
        "metadata": {"name": format!("bench-{number}"), "labels": {"bench": "webhook"}},
        "spec": {"cedar": cedar.collect::<String>()},
    }))?)
}

/// The durations of the counted answers, and the number of missing answers.
async fn measure_requests(caller: &WebhookClient, review: &str) -> Result<(Vec<Duration>, f64)> {
    let begin = Instant::now();
    let mut all = Vec::new();
    for number in 0..WARM_UP_REQUESTS + COUNTED_REQUESTS {
        let due = begin + Duration::from_secs(1) * number / RATE;
        tokio::time::sleep_until(due.into()).await;
        let (caller, body) = (caller.clone(), sized_body(review.to_owned()));
        all.push(tokio::spawn(async move {
            let (code, answer) = caller.send_review(body).await?;
            let answer = &answer["response"];
            ensure!(code == 200 && answer["allowed"] == true, "{answer}");
            anyhow::Ok((due.elapsed(), answer.get("warnings").is_some()))
        }));
    }
    let (mut durations, mut undecided) = (Vec::with_capacity(all.len()), 0.0);
    for task in all.split_off(usize::try_from(WARM_UP_REQUESTS)?) {
        let (time, is_undecided) = task.await??;
        durations.push(time);
        undecided += f64::from(u8::from(is_undecided));
    }
    Ok((durations, undecided))
}
