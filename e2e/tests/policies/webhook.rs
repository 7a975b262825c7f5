//! Answers before anything is stored: what will be denied is refused, with the words that its
//! status would bear, and whatever is sent there is answered in time.

use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, Instant};

use futures::stream;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::control_plane::{ControlPlane, Signal, free_port};
use trellis_e2e::early::{self, Caller, Unanswered, pieces, review, whole};
use trellis_e2e::jobs::{message, reason};
use trellis_e2e::operator::{self, Operator};
use trellis_e2e::site::Site;
use trellis_e2e::wait::eventually;

use super::program;
use super::scene::{NO_IMAGE, about, active, apply, create, delete, own, policy};

/// The webhook answers within this, whatever is asked.
const IN_TIME: Duration = Duration::from_secs(3);

/// How long a busy machine may take until a response is in time.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest that one of many concurrent requests waits.
const IN_TURN: Duration = Duration::from_secs(30);

struct Stage {
    control_plane: ControlPlane,
    port: u16,
    _operator: Operator,
}

pub(super) async fn kubeconfig(control_plane: &ControlPlane) -> PathBuf {
    let (namespace, account) = (operator::NAMESPACE, operator::ACCOUNT);
    let kubeconfig = control_plane.service_account_kubeconfig(namespace, account);
    kubeconfig.await.unwrap()
}

/// A control plane whose API server calls an operator, and treats each missing response as an
/// error.
async fn start() -> Stage {
    let control_plane = operator::control_plane().await.unwrap();
    let port = free_port().unwrap();
    early::install(&control_plane, port, Unanswered::Fail)
        .await
        .unwrap();
    let launch = early::launch("operator", port).lease_seconds(60);
    let kubeconfig = kubeconfig(&control_plane).await;
    let operator = Operator::launch(&control_plane, program(), &kubeconfig, &launch).unwrap();
    early::is_asked(&control_plane).await.unwrap();
    Stage {
        control_plane,
        port,
        _operator: operator,
    }
}

/// A stage shared by tests that send few requests.
async fn stage() -> &'static Stage {
    static STAGE: OnceCell<Stage> = OnceCell::const_new();
    STAGE.get_or_init(start).await
}

async fn site(prefix: &str, nodes: usize) -> (&'static ControlPlane, Site) {
    let control_plane = &stage().await.control_plane;
    let site = Site::new(control_plane, prefix, Nodes::new(nodes).gpus(8)).await;
    (control_plane, site)
}

/// Waits until the API server tries the job "j", for which it asks the webhook, within `limit`.
async fn is_tried(site: &Site, job: &Value, limit: Duration) {
    let dry = PatchParams::apply("test").dry_run().force();
    let patch = Patch::Apply(job);
    let api: Api<TrainingJob> = site.api();
    eventually(PATIENCE, || async {
        tokio::time::timeout(limit, api.patch("j", &dry, &patch)).await??;
        Ok(())
    })
    .await
    .unwrap();
}

fn refusal(error: kube::Error) -> (String, String) {
    match error {
        kube::Error::Api(status) => (status.reason, status.message),
        other => panic!("{other:?}"),
    }
}

/// Runs kubectl. Returns whether it succeeded, and its standard error.
async fn kubectl(site: &Site, arguments: &[&str], objects: &[&Value]) -> (bool, String) {
    let all: Vec<_> = objects.iter().map(ToString::to_string).collect();
    let arguments = [&["--namespace", site.name()], arguments, &["-f", "-"]].concat();
    let control_plane = &stage().await.control_plane;
    let all = all.join("\n---\n");
    let output = control_plane.kubectl_with(&arguments, &all).await;
    let Output { status, stderr, .. } = output.unwrap();
    (
        status.success(),
        String::from_utf8_lossy(&stderr).into_owned(),
    )
}

#[tokio::test]
async fn what_would_be_denied_is_refused_with_the_words_of_its_status() {
    let (control_plane, site) = site("early", 1).await;
    // A job exists before a policy forbids it, and is not placed.
    create(&site, site.job("before", 9, 8)).await;
    site.reaches("before", JobPhase::Queued).await;
    apply(control_plane, &about(&site, NO_IMAGE, json!({}))).await;
    active(control_plane, site.name()).await;
    let denied = site.reaches("before", JobPhase::Refused).await;
    assert_eq!(reason(&denied), "PolicyDenied");

    let refused = site.create(site.job("before-not", 9, 8)).await.unwrap_err();
    let (word, said) = refusal(refused);
    assert_eq!(word, "PolicyDenied");
    let hook = "admission webhook \"trainingjobs.trellis.dev\" denied the request: ";
    let words = said.strip_prefix(hook).unwrap_or_else(|| panic!("{said}"));
    assert_eq!(words, message(&denied));
    let api: Api<TrainingJob> = site.api();
    assert!(api.get_opt("before-not").await.unwrap().is_none());

    // A change outside the spec passes. A change of the spec is checked.
    let labels = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}});
    site.patch("before", labels).await.unwrap();
    let again = site.patch("before", json!({"spec": {"restart": {"limit": 5}}}));
    assert_eq!(refusal(again.await.unwrap_err()).0, "PolicyDenied");
    // A change that only suspends the job passes.
    let stopped = site
        .patch("before", json!({"spec": {"suspend": true}}))
        .await;
    stopped.unwrap();
    site.reaches("before", JobPhase::Suspended).await;
    delete(control_plane, site.name()).await;
}

#[tokio::test]
async fn what_a_warn_policy_would_deny_and_what_makes_a_job_wait_is_printed_by_kubectl() {
    let (control_plane, site) = site("warned", 1).await;
    let warns = about(&site, NO_IMAGE, json!({"enforcement": "Warn"}));
    apply(control_plane, &warns).await;
    active(control_plane, site.name()).await;
    let mut job = site.job("j", 1, 8);
    let (created, said) = kubectl(&site, &["create"], &[&job]).await;
    assert!(created, "{said}");
    let running = site.reaches("j", JobPhase::Running).await;
    let warning = &policy(&running).warnings[0];
    assert!(said.contains(&format!("Warning: {warning}")), "{said}");

    job["metadata"]["name"] = json!("waits");
    job["spec"]["queueName"] = json!("nope");
    let (created, said) = kubectl(&site, &["create"], &[&job]).await;
    assert!(created, "{said}");
    assert!(
        said.contains("Warning: QueueNotFound: spec.queueName"),
        "{said}"
    );
    delete(control_plane, site.name()).await;
}

#[tokio::test]
async fn a_dry_run_is_answered_the_same_and_leaves_nothing() {
    let (control_plane, site) = site("dry", 0).await;
    apply(control_plane, &about(&site, NO_IMAGE, json!({}))).await;
    active(control_plane, site.name()).await;
    let dry = ["create", "--dry-run=server"];
    let job = site.job("j", 1, 8);
    let (created, said) = kubectl(&site, &dry, &[&job]).await;
    assert!(!created && said.contains("(PolicyDenied)"), "{said}");
    delete(control_plane, site.name()).await;
    eventually(IN_TIME * 5, || async {
        let (created, said) = kubectl(&site, &dry, &[&job]).await;
        anyhow::ensure!(created, "{said}");
        Ok(())
    })
    .await
    .unwrap();
    let api: Api<TrainingJob> = site.api();
    assert!(api.get_opt("j").await.unwrap().is_none());
    // Nothing is remembered of it either.
    create(&site, job).await;
    site.reaches("j", JobPhase::Queued).await;
}

#[tokio::test]
async fn a_policy_that_would_not_take_effect_is_refused_with_line_and_caret() {
    let (control_plane, site) = site("caret", 0).await;
    let text = "permit(principal, action, resource)\nwhen { context.gpu > 8 };";
    for object in [about(&site, text, json!({})), own(&site, "x", text)] {
        let (applied, said) = kubectl(&site, &["apply"], &[&object]).await;
        assert!(!applied);
        assert!(said.contains("policies.trellis.dev"), "{said}");
        assert!(said.contains("spec.cedar:2:8: attribute `gpu`"), "{said}");
        assert!(said.contains("2 | when { context.gpu > 8 };\n"), "{said}");
        assert!(said.contains("  |        ^"), "{said}");
    }
    let fails = json!({"tests": [{"name": "denies", "decision": "Allow", "request": {
        "namespace": site.name(), "action": "UseImage", "resource": {"name": "i"}}}]});
    let (applied, said) = kubectl(&site, &["apply"], &[&about(&site, NO_IMAGE, fails)]).await;
    assert!(!applied);
    assert!(said.contains("the test \"denies\" fails"), "{said}");
    // The API server accepts a valid policy and refuses a change that breaks it. The valid version
    // stays.
    apply(control_plane, &about(&site, NO_IMAGE, json!({}))).await;
    let (applied, _) = kubectl(&site, &["apply"], &[&about(&site, "permit(", json!({}))]).await;
    assert!(!applied);
    active(control_plane, site.name()).await;
    delete(control_plane, site.name()).await;
}

#[tokio::test]
async fn quota_policies_and_profiles_that_are_of_no_use_are_refused_and_so_is_who_has_no_room() {
    let (control_plane, site) = site("room", 1).await;
    let selector = json!({"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]});
    let labels = json!({"matchLabels": {"kubernetes.io/metadata.name": site.name()}});
    let quota = |selector: &Value| {
        json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy",
            "metadata": {"name": site.name()},
            "spec": {
                "subject": {"namespaceSelector": selector}, "enforcement": "Deny",
                "limits": {"runningJobs": 1, "gpusPerJob": 4},
            },
        })
    };
    let profile = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile",
        "metadata": {"name": site.name()},
        "spec": {"podTemplate": {"spec": {"initContainers": [{"name": "s", "image": "i"}]}}},
    });
    for (object, words) in [
        (
            quota(&selector),
            "no job starts: spec.subject.namespaceSelector is not a selector",
        ),
        (
            profile,
            "spec.podTemplate.spec.initContainers[0].resources.limits: must name cpu and memory",
        ),
    ] {
        let (passed, said) = kubectl(&site, &["apply"], &[&object]).await;
        assert!(!passed && said.contains("(InvalidSpec)"), "{said}");
        assert!(said.contains(words), "{said}");
    }
    apply(control_plane, &quota(&labels)).await;
    let refused = eventually(Duration::from_secs(20), || async {
        let refused = site.create(site.job("large", 1, 8)).await;
        anyhow::ensure!(refused.is_err(), "it is not refused yet");
        Ok(refused.unwrap_err())
    });
    let (word, said) = refusal(refused.await.unwrap());
    assert_eq!(word, "QuotaPolicyExceeded");
    assert!(said.contains("gpusPerJob is 4"), "{said}");
    create(&site, site.job("first", 1, 1)).await;
    site.reaches("first", JobPhase::Running).await;
    let refused = eventually(Duration::from_secs(20), || async {
        let dry_run = kube::api::PostParams {
            dry_run: true,
            ..Default::default()
        };
        let api: Api<TrainingJob> = site.api();
        let job = serde_json::from_value(site.job("second", 1, 1))?;
        let refused = api.create(&dry_run, &job).await;
        anyhow::ensure!(refused.is_err(), "it is not refused yet");
        Ok(refused.unwrap_err())
    });
    let (word, said) = refusal(refused.await.unwrap());
    assert_eq!(word, "QuotaPolicyExceeded");
    assert!(
        said.contains("runningJobs: needs 1, 1 of 1 are held"),
        "{said}"
    );
    // Once there is room it passes.
    site.delete::<TrainingJob>("first").await;
    eventually(Duration::from_secs(20), || async {
        site.create(site.job("second", 1, 1)).await?;
        Ok(())
    })
    .await
    .unwrap();
    site.reaches("second", JobPhase::Running).await;
}

#[tokio::test]
async fn what_is_applied_together_with_what_allows_it_passes() {
    let (control_plane, site) = site("together", 1).await;
    apply(control_plane, &about(&site, NO_IMAGE, json!({}))).await;
    active(control_plane, site.name()).await;
    let allows = NO_IMAGE.replace(';', " when { resource has tag && resource.tag == \"0\" };");
    let allows = about(&site, &allows, json!({}));
    let (applied, said) = kubectl(&site, &["apply"], &[&allows, &site.job("j", 1, 8)]).await;
    assert!(applied, "{said}");
    site.reaches("j", JobPhase::Running).await;
    // A namespace, and a job in it.
    let name = format!("{}-more", site.name());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let mut job = site.job("j", 1, 8);
    job["metadata"]["namespace"] = json!(name);
    let both = format!("{namespace}\n---\n{job}");
    let applied = control_plane
        .kubectl_with(&["apply", "-f", "-"], &both)
        .await;
    let applied = applied.unwrap();
    assert!(applied.status.success(), "{applied:?}");
    delete(control_plane, site.name()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_floods_it_or_sends_garbage_takes_nothing_from_others() {
    let Stage {
        control_plane,
        port,
        _operator,
    } = start().await;
    let site = Site::new(&control_plane, "flood", Nodes::new(0)).await;
    let caller = Caller::new(&control_plane, port).await.unwrap();
    let large = vec![b' '; (3 << 20) + 1];
    let parts: Vec<_> = large.chunks(1 << 16).map(<[u8]>::to_vec).collect();
    let cases: [(early::Body, u16); 5] = [
        (whole(large.clone()), 413),
        (pieces(stream::iter(parts)), 413),
        (whole(vec![0xff; 4096]), 400),
        (whole(b"[".repeat(1 << 20)), 400),
        (whole("{\"kind\": \"Status\"}"), 400),
    ];
    for (body, expected) in cases {
        // A client that is refused while it sends may only see the connection close.
        match caller.ask(body).await {
            Ok((code, said)) => {
                assert_eq!(code, expected, "{said}");
                assert_eq!(said["kind"], "Status", "{said}");
            }
            Err(error) => assert_eq!(expected, 413, "{error:#}"),
        }
    }

    // Connections on which nothing comes, and bodies that do not end.
    let address = format!("127.0.0.1:{port}");
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(&address).await.unwrap());
    }
    let slow = (0..30).map(|_| {
        let caller = caller.clone();
        tokio::spawn(async move { caller.ask(pieces(stream::pending())).await.map(|a| a.0) })
    });
    let slow: Vec<_> = slow.collect();
    let job = site.job("j", 1, 8);
    is_tried(&site, &job, IN_TIME).await;
    for slow in slow {
        assert_eq!(slow.await.unwrap().unwrap(), 408);
    }
    drop(silent);

    // Two hundred at once: each is answered, with its own uid.
    let all = (0..200).map(|n| {
        let (caller, uid) = (caller.clone(), format!("uid-{n}"));
        let review = review(&uid, "ada", site.name(), &job);
        tokio::spawn(async move {
            let began = Instant::now();
            let (code, answer) = caller.ask(whole(review.to_string())).await?;
            anyhow::Ok((code, answer, uid, began.elapsed()))
        })
    });
    for one in all.collect::<Vec<_>>() {
        let (code, answer, uid, took) = one.await.unwrap().unwrap();
        assert_eq!(code, 200, "{answer}");
        assert_eq!(answer["response"]["uid"], uid);
        assert_eq!(answer["response"]["allowed"], true, "{answer}");
        assert!(took < IN_TURN, "{took:?}");
    }

    // Metrics count all of these requests.
    let token = control_plane.admin_token();
    let (code, metrics) = caller.metrics(token).await.unwrap();
    assert_eq!(code, 200, "{metrics}");
    let is_there = |line: &str| assert!(metrics.contains(line), "{line}: {metrics}");
    is_there("trellis_webhook_requests_total{kind=\"TrainingJob\",decision=\"Allowed\"}");
    is_there("trellis_webhook_unanswered_total{code=\"400\"}");
    is_there("trellis_webhook_unanswered_total{code=\"408\"} 30");
    is_there("trellis_webhook_duration_seconds_bucket");
    is_there("trellis_webhook_certificate_degraded 0");
    assert_eq!(caller.metrics("none").await.unwrap().0, 401);
}

/// An outage of the webhook blocks no client, and no denied job runs. No request fails while the
/// operator shuts down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_nobody_answers_jobs_are_stored_and_denied_all_the_same() {
    let control_plane = operator::control_plane().await.unwrap();
    let port = free_port().unwrap();
    early::install(&control_plane, port, Unanswered::Pass)
        .await
        .unwrap();
    let kubeconfig = kubeconfig(&control_plane).await;
    let launch = early::launch("operator", port);
    let mut operator = Operator::launch(&control_plane, program(), &kubeconfig, &launch).unwrap();
    early::is_asked(&control_plane).await.unwrap();
    let site = Site::new(&control_plane, "outage", Nodes::new(1).gpus(8)).await;
    apply(&control_plane, &about(&site, NO_IMAGE, json!({}))).await;
    active(&control_plane, site.name()).await;
    let refused = site.create(site.job("j", 1, 8)).await.unwrap_err();
    let (_, said) = refusal(refused);

    // The operator reports that it is not ready, goes on answering for a while, and ends.
    let caller = Caller::new(&control_plane, port).await.unwrap();
    assert_eq!(caller.ready().await.unwrap(), 200);
    let job = site.job("j", 1, 8);
    let asked = review("uid", "ada", site.name(), &job).to_string();
    // Its last answers come within a few seconds: it is asked from before the signal on.
    let asks = tokio::spawn(async move {
        let mut last = Vec::new();
        while let Ok(code) = caller.ready().await {
            let Ok((_, answer)) = caller.ask(whole(asked.clone())).await else {
                break;
            };
            if code == 503 {
                last.push(answer);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        last
    });
    let ends = tokio::task::spawn_blocking(move || {
        operator.signal(Signal::Terminate).unwrap();
        operator
    });
    let mut operator = ends.await.unwrap();
    assert!(operator.ended().unwrap().unwrap().success());
    let last = asks.await.unwrap();
    assert!(!last.is_empty(), "it does not answer on");
    for answer in last {
        assert_eq!(answer["response"]["allowed"], false, "{answer}");
    }

    // Without an operator the API server accepts jobs, and they do not run.
    is_tried(&site, &job, IN_TIME * 2).await;
    create(&site, job).await;
    let _operator = Operator::launch(&control_plane, program(), &kubeconfig, &launch).unwrap();
    let denied = site.reaches("j", JobPhase::Refused).await;
    assert!(said.ends_with(&message(&denied)), "{said}");
    assert_eq!(site.pods("j").await.len(), 0);
}
