//! The proxy: counting and breaking.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{runtime::Runtime, time::timeout};
use trellis_e2e::{
    namespace::TestNamespace,
    proxy::{Fault, Moment, Proxy, Request, Verb},
};

use super::shared;

struct Place {
    proxy: Proxy,
    namespace: TestNamespace,
    /// Through the proxy.
    api: Api<ConfigMap>,
    /// Past it.
    direct: Api<ConfigMap>,
}

async fn place(prefix: &str) -> Place {
    let control_plane = shared().await;
    let namespace = TestNamespace::create(control_plane, prefix).await.unwrap();
    let proxy = Proxy::start(control_plane).await.unwrap();
    let client = proxy.client(control_plane.admin_token()).unwrap();
    let api = Api::namespaced(client, namespace.name());
    let direct = namespace.api();
    Place {
        proxy,
        namespace,
        api,
        direct,
    }
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

fn is_config_map(request: &Request) -> bool {
    request.resource == "configmaps"
}

async fn count(api: &Api<ConfigMap>) -> usize {
    let all = api.list(&ListParams::default()).await.unwrap();
    // The controller manager puts one into every namespace.
    all.iter()
        .filter(|map| map.metadata.name.as_deref() != Some("kube-root-ca.crt"))
        .count()
}

#[tokio::test]
async fn requests_are_counted_by_agent_verb_resource_and_dry_run() {
    let place = place("count").await;
    let control_plane = shared().await;
    let mut config = Config::new(place.proxy.url().parse().unwrap());
    config.auth_info =
        serde_json::from_value(json!({"token": control_plane.admin_token()})).unwrap();
    config.headers = vec![(
        http::header::USER_AGENT,
        http::HeaderValue::from_static("counted/1"),
    )];
    let client = Client::try_from(config).unwrap();
    let api: Api<ConfigMap> = Api::namespaced(client, place.namespace.name());

    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    api.create(&dry_run, &config_map("a")).await.unwrap();
    api.create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
    api.create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap_err();
    let patch = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}});
    api.patch("a", &PatchParams::apply("test"), &Patch::Apply(&patch))
        .await
        .unwrap();
    api.get("a").await.unwrap();
    place.api.list(&ListParams::default()).await.unwrap();

    let counts = place.proxy.counts();
    assert_eq!(counts.of(Verb::Create, "configmaps"), 2);
    assert_eq!(counts.dry_runs(Verb::Create, "configmaps"), 1);
    assert_eq!(counts.of(Verb::Apply, "configmaps"), 1);
    assert_eq!(counts.of(Verb::Get, "configmaps"), 1);
    assert_eq!(counts.of(Verb::List, "configmaps"), 1);
    assert_eq!((counts.writes(), counts.requests()), (3, 6));
    let counted = counts.sum(|key| key.user_agent == "counted/1");
    assert_eq!((counted.requests, counted.failures), (5, 1));
    assert!(
        counted.request_bytes > 100 && counted.response_bytes > 500,
        "{counted:?}"
    );
    assert!(counts.to_string().contains("apply configmaps"), "{counts}");
    place.proxy.reset_counts();
    assert_eq!(place.proxy.counts().requests(), 0);
}

#[tokio::test]
async fn the_api_server_sees_who_asks() {
    let place = place("who").await;
    let token = shared()
        .await
        .service_account_token(place.namespace.name(), "default")
        .await
        .unwrap();
    let client = place.proxy.client(&token).unwrap();
    let api: Api<ConfigMap> = Api::namespaced(client, place.namespace.name());
    let error = api
        .list(&ListParams::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&format!(
            "system:serviceaccount:{}:default",
            place.namespace.name()
        )),
        "{error}"
    );

    let kubeconfig = place.proxy.kubeconfig("someone", &token).unwrap();
    let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &Default::default())
        .await
        .unwrap();
    assert_eq!(
        config.cluster_url.to_string().trim_end_matches('/'),
        place.proxy.url()
    );
}

#[tokio::test]
async fn requests_fail_with_a_status() {
    let place = place("status").await;
    for (fault, code) in [
        (Fault::too_many_requests(7), 429),
        (Fault::internal_error(), 500),
        (Fault::unavailable(), 503),
    ] {
        place.proxy.on_request(move |request| match request.verb {
            Verb::Create => fault,
            _ => Fault::Pass,
        });
        let error = place
            .api
            .create(&PostParams::default(), &config_map("a"))
            .await
            .unwrap_err();
        assert!(
            matches!(&error, kube::Error::Api(status) if status.code == code),
            "{error}"
        );
        assert!(place.api.get_opt("a").await.unwrap().is_none());
    }
    place.proxy.on_request(|_| Fault::too_many_requests(7));
    let request = http::Request::get("/version").body(Vec::new()).unwrap();
    let client = place.proxy.client("whatever").unwrap();
    let answer = client.send(request.map(Into::into)).await.unwrap();
    assert_eq!(answer.headers()["retry-after"], "7");
    place.proxy.heal();
    place
        .api
        .create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_held_request_goes_through_once_the_proxy_is_healed() {
    let place = place("held").await;
    place.proxy.on_request(|_| Fault::Hold);
    let (params, map) = (PostParams::default(), config_map("held"));
    let mut create = Box::pin(place.api.create(&params, &map));
    let early = timeout(Duration::from_millis(300), &mut create).await;
    assert!(early.is_err(), "it was answered");
    assert!(place.direct.get_opt("held").await.unwrap().is_none());
    place.proxy.heal();
    create.await.unwrap();
    assert!(place.direct.get_opt("held").await.unwrap().is_some());
}

/// How long an answer may take, or the end of a connection.
const ANSWERED: Duration = Duration::from_secs(30);
/// How long no answer is to come. A write reaches the API server well within it.
const SILENT: Duration = Duration::from_secs(2);

#[tokio::test]
async fn connections_are_cut_before_or_after_the_write() {
    let place = place("cut").await;
    let fault_for = |request: &Request| match request.object_name().as_deref() {
        Some("before") => Fault::DropRequest,
        Some("after") => Fault::DropAnswer,
        Some("silent") => Fault::HangAnswer,
        Some("never") => Fault::Hang,
        Some("late") => Fault::Delay(Duration::from_millis(700)),
        _ => Fault::Pass,
    };
    place.proxy.on_request(fault_for);
    let create = async |name: &str, limit: Duration| {
        let map = config_map(name);
        timeout(limit, place.api.create(&PostParams::default(), &map)).await
    };
    assert!(matches!(create("before", ANSWERED).await, Ok(Err(_))));
    assert!(matches!(create("after", ANSWERED).await, Ok(Err(_))));
    assert!(create("silent", SILENT).await.is_err(), "it was answered");
    assert!(create("never", SILENT).await.is_err(), "it was answered");
    let started = Instant::now();
    create("late", ANSWERED).await.unwrap().unwrap();
    assert!(started.elapsed() >= Duration::from_millis(700));

    let mut there = Vec::new();
    for name in ["before", "after", "silent", "never", "late"] {
        there.push((name, place.direct.get_opt(name).await.unwrap().is_some()));
    }
    let expected = [
        ("before", false),
        ("after", true),
        ("silent", true),
        ("never", false),
        ("late", true),
    ];
    assert_eq!(there, expected);
}

/// Creates ten objects with four in flight, and says how many creates were answered.
async fn create_ten(api: &Api<ConfigMap>) -> usize {
    stream::iter(0..10)
        .map(|index| {
            let api = api.clone();
            async move {
                api.create(&PostParams::default(), &config_map(&format!("c-{index}")))
                    .await
            }
        })
        .buffer_unordered(4)
        .filter(|answer| std::future::ready(answer.is_ok()))
        .count()
        .await
}

#[tokio::test]
async fn exactly_k_writes_happen_before_the_callback() {
    for (moment, k) in [
        (Moment::BeforeAnswer, 1),
        (Moment::BeforeAnswer, 4),
        (Moment::AfterAnswer, 3),
    ] {
        let place = place("trap").await;
        let calls = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&calls);
        let (looked, may_return) = std::sync::mpsc::channel::<()>();
        let mut fired = place.proxy.after_write(k, moment, is_config_map, move || {
            counted.fetch_add(1, Ordering::SeqCst);
            // Waits until the test has checked the objects, or has failed.
            let _ = may_return.recv_timeout(ANSWERED);
        });
        let working = tokio::spawn({
            let api = place.api.clone();
            async move { create_ten(&api).await }
        });
        while calls.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // In the middle of the callback.
        assert_eq!(count(&place.direct).await as u64, k);
        assert!(!fired.now());
        looked.send(()).unwrap();
        fired.wait(ANSWERED).await.unwrap();
        let answered = working.await.unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        // The trap has cut the writes that waited in it. Later writes have passed.
        assert_eq!(count(&place.direct).await, answered);
        assert!(answered < 10 && answered as u64 >= k, "{answered}");
    }
}

#[tokio::test]
async fn a_trap_waits_for_the_writes_it_is_set_for() {
    let place = place("trap-for").await;
    let secrets = |request: &Request| request.resource == "secrets";
    let mut fired = place
        .proxy
        .after_write(1, Moment::BeforeAnswer, secrets, || {});
    assert_eq!(create_ten(&place.api).await, 10);
    assert!(fired.wait(Duration::from_millis(50)).await.is_err());
    place.proxy.heal();
    let error = fired.wait(Duration::from_secs(5)).await.unwrap_err();
    assert!(error.to_string().contains("taken away"), "{error}");
}

#[tokio::test]
async fn a_client_is_killed_after_its_kth_write() {
    for (moment, k) in [(Moment::BeforeAnswer, 3), (Moment::AfterAnswer, 2)] {
        let place = place("kill").await;
        // A runtime that is shut down leaves its peers what a killed process leaves them: all its
        // connections closed in mid-request.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        let client = Arc::new(Mutex::new(None::<Runtime>));
        let victim = Arc::clone(&client);
        let mut fired = place.proxy.after_write(k, moment, is_config_map, move || {
            let victim = victim.lock().unwrap().take().unwrap();
            victim.shutdown_timeout(Duration::from_secs(5));
        });
        let through_the_proxy = {
            let _inside = runtime.enter();
            place.proxy.client(shared().await.admin_token()).unwrap()
        };
        let api: Api<ConfigMap> = Api::namespaced(through_the_proxy, place.namespace.name());
        let inside = runtime.handle().clone();
        *client.lock().unwrap() = Some(runtime);
        inside.spawn(async move { create_ten(&api).await });

        fired.wait(Duration::from_secs(30)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(count(&place.direct).await as u64, k);
    }
}
