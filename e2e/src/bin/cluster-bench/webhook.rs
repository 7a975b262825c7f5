//! The admission webhook, asked so often a second as an API server asks it: over TLS, on
//! connections that stay open. Each request is sent when it is due, whether or not those before
//! it are answered, and its time is counted from then.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;
use trellis_api::ClusterJobPolicy;
use trellis_e2e::control_plane::free_port;
use trellis_e2e::early::{self, Caller, Unanswered, review, whole};
use trellis_e2e::wait::eventually;

use crate::bench::{APPLIES, Bench, LIMIT};
use crate::jobs;
use crate::row::Row;

/// Requests a second.
const RATE: u32 = 200;
/// Warm-up requests, which open connections and fill caches. They are not counted.
const WARM_UP: u32 = 2 * RATE;
/// Counted requests: half a minute of them.
const COUNTED: u32 = 30 * RATE;
/// Policies of one object.
const IN_ONE: usize = 100;

/// Sends requests to an operator with that many policies.
pub(crate) async fn measure(bench: &Bench, policies: usize) -> Result<()> {
    let control_plane = &bench.control_plane;
    let port = free_port()?;
    early::install(control_plane, port, Unanswered::Pass).await?;
    let operator = bench.operator_as(&early::launch("webhook", port)).await?;
    early::is_asked(control_plane).await?;
    let namespace = bench.namespace().await?;
    let objects = policies.div_ceil(IN_ONE);
    let all: Api<ClusterJobPolicy> = Api::all(control_plane.client());
    let created = (0..objects).map(|i| {
        let all = all.clone();
        async move { anyhow::Ok(all.create(&PostParams::default(), &object(i)?).await?) }
    });
    let created = stream::iter(created).buffer_unordered(APPLIES);
    created.try_for_each(|_| async { Ok(()) }).await?;
    let ours = ListParams::default().labels("bench=webhook");
    eventually(LIMIT, || async {
        let listed = all.list(&ours).await?;
        let active = listed.items.iter().filter(|policy| {
            let conditions = policy.status.iter().flat_map(|s| &s.conditions);
            conditions
                .into_iter()
                .any(|c| c.type_ == "Ready" && c.status == "True")
        });
        ensure!(active.count() == objects, "not all take effect");
        Ok(())
    })
    .await?;

    let caller = Caller::new(control_plane, port).await?;
    let mut job = serde_json::to_value(jobs::job("asked", 8, 8)?)?;
    job["spec"]["taskGroups"][0]["image"] = json!("registry.example/train:1");
    let review = review("uid", "ada", namespace.name(), &job).to_string();
    let before = operator.processor_seconds()?;
    let (mut took, undecided) = ask(&caller, &review).await?;
    let cpu = operator.processor_seconds()? - before;
    took.sort_unstable();
    let case = |what: &str| format!("webhook, {RATE} requests/s, {policies} policies: {what}");
    for (what, share) in [("median", 50), ("p99", 99), ("longest", 100)] {
        let last = took.len().saturating_sub(1);
        let at = took.len() * share / 100;
        let value = took.get(at.min(last)).context("nothing was asked")?;
        let ms = value.as_secs_f64() * 1e3;
        bench.print(&Row::new(case(what), ms, "ms"));
    }
    // With too much to do it lets pass what it cannot decide in time.
    let share = undecided * 100.0 / f64::from(COUNTED);
    bench.print(&Row::new(case("passed undecided"), share, "%"));
    let each = cpu * 1e6 / f64::from(WARM_UP + COUNTED);
    bench.print(&Row::new(case("CPU of one"), each, "us"));

    // The parts of the benchmark that follow run without the webhook.
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(control_plane.client());
    let params = DeleteParams::default();
    configurations.delete(early::NAME, &params).await?;
    all.delete_collection(&params, &ours).await?;
    Ok(())
}

/// Policies that are evaluated for each image, and match none.
fn object(number: usize) -> Result<ClusterJobPolicy> {
    let cedar = (0..IN_ONE).map(|i| {
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

/// How long each answer took, of those that are counted, and how many were none.
async fn ask(caller: &Caller, review: &str) -> Result<(Vec<Duration>, f64)> {
    let begin = Instant::now();
    let mut all = Vec::new();
    for number in 0..WARM_UP + COUNTED {
        let due = begin + Duration::from_secs(1) * number / RATE;
        tokio::time::sleep_until(due.into()).await;
        let (caller, body) = (caller.clone(), whole(review.to_owned()));
        all.push(tokio::spawn(async move {
            let (code, answer) = caller.ask(body).await?;
            let answer = &answer["response"];
            ensure!(code == 200 && answer["allowed"] == true, "{answer}");
            anyhow::Ok((due.elapsed(), answer.get("warnings").is_some()))
        }));
    }
    let (mut took, mut undecided) = (Vec::with_capacity(all.len()), 0.0);
    for one in all.split_off(usize::try_from(WARM_UP)?) {
        let (time, is_undecided) = one.await??;
        took.push(time);
        undecided += f64::from(u8::from(is_undecided));
    }
    Ok((took, undecided))
}
