//! The proxy: counts and faults.

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
    proxy::{Proxy, ProxyFault, Request, TrapTiming, Verb},
    site::namespace::TestNamespace,
};

use super::shared_control_plane;

struct ProxyFixture {
    proxy: Proxy,
    namespace: TestNamespace,
    /// A client that uses the proxy.
    api: Api<ConfigMap>,
    /// A client without the proxy.
    direct_api: Api<ConfigMap>,
}

async fn start_fixture(prefix: &str) -> ProxyFixture {
    let control_plane = shared_control_plane().await;
    let namespace = TestNamespace::create(control_plane, prefix).await.unwrap();
    let proxy = Proxy::start(control_plane).await.unwrap();
    let client = proxy.client(control_plane.admin_token()).unwrap();
    let api = Api::namespaced(client, namespace.name());
    let direct = namespace.api();
    ProxyFixture {
        proxy,
        namespace,
        api,
        direct_api: direct,
    }
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

fn is_config_map(request: &Request) -> bool {
    request.resource == "configmaps"
}

async fn count_config_maps(api: &Api<ConfigMap>) -> usize {
    let all = api.list(&ListParams::default()).await.unwrap();
    // The controller manager creates one in every namespace.
    all.iter()
        .filter(|map| map.metadata.name.as_deref() != Some("kube-root-ca.crt"))
        .count()
}

#[tokio::test]
async fn requests_are_counted_by_agent_verb_resource_and_dry_run() {
    let place = start_fixture("count").await;
    let control_plane = shared_control_plane().await;
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
    assert_eq!(counts.count_of(Verb::Create, "configmaps"), 2);
    assert_eq!(counts.count_dry_runs(Verb::Create, "configmaps"), 1);
    assert_eq!(counts.count_of(Verb::Apply, "configmaps"), 1);
    assert_eq!(counts.count_of(Verb::Get, "configmaps"), 1);
    assert_eq!(counts.count_of(Verb::List, "configmaps"), 1);
    assert_eq!((counts.total_writes(), counts.total_requests()), (3, 6));
    let counted = counts.sum(|key| key.user_agent == "counted/1");
    assert_eq!((counted.requests, counted.failures), (5, 1));
    assert!(
        counted.request_bytes > 100 && counted.response_bytes > 500,
        "{counted:?}"
    );
    assert!(counts.to_string().contains("apply configmaps"), "{counts}");
    place.proxy.reset_counts();
    assert_eq!(place.proxy.counts().total_requests(), 0);
}

#[tokio::test]
async fn proxy_forwards_the_client_credentials() {
    let place = start_fixture("who").await;
    let token = shared_control_plane()
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
    let place = start_fixture("status").await;
    for (fault, code) in [
        (ProxyFault::too_many_requests(7), 429),
        (ProxyFault::internal_error(), 500),
        (ProxyFault::unavailable(), 503),
    ] {
        place.proxy.on_request(move |request| match request.verb {
            Verb::Create => fault,
            _ => ProxyFault::Pass,
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
    place.proxy.on_request(|_| ProxyFault::too_many_requests(7));
    let request = http::Request::get("/version").body(Vec::new()).unwrap();
    let client = place.proxy.client("any-client").unwrap();
    let answer = client.send(request.map(Into::into)).await.unwrap();
    assert_eq!(answer.headers()["retry-after"], "7");
    place.proxy.remove_faults();
    place
        .api
        .create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_held_request_is_forwarded_when_the_proxy_is_healed() {
    let place = start_fixture("held").await;
    place.proxy.on_request(|_| ProxyFault::Hold);
    let (params, map) = (PostParams::default(), config_map("held"));
    let mut create = Box::pin(place.api.create(&params, &map));
    let early = timeout(Duration::from_millis(300), &mut create).await;
    assert!(early.is_err(), "the request was answered");
    assert!(place.direct_api.get_opt("held").await.unwrap().is_none());
    place.proxy.remove_faults();
    create.await.unwrap();
    assert!(place.direct_api.get_opt("held").await.unwrap().is_some());
}

/// Longest time until an answer or the end of a connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Time without an answer. A write reaches the API server in far less time.
const NO_ANSWER_TIME: Duration = Duration::from_secs(2);

#[tokio::test]
async fn connection_is_cut_before_or_after_the_write() {
    let place = start_fixture("cut").await;
    let fault_for = |request: &Request| match request.object_name().as_deref() {
        Some("before") => ProxyFault::DropRequest,
        Some("after") => ProxyFault::DropResponse,
        Some("silent") => ProxyFault::HangResponse,
        Some("never") => ProxyFault::Hang,
        Some("late") => ProxyFault::Delay(Duration::from_millis(700)),
        _ => ProxyFault::Pass,
    };
    place.proxy.on_request(fault_for);
    let create = async |name: &str, limit: Duration| {
        let map = config_map(name);
        timeout(limit, place.api.create(&PostParams::default(), &map)).await
    };
    assert!(matches!(create("before", ANSWER_TIMEOUT).await, Ok(Err(_))));
    assert!(matches!(create("after", ANSWER_TIMEOUT).await, Ok(Err(_))));
    assert!(
        create("silent", NO_ANSWER_TIME).await.is_err(),
        "the request was answered"
    );
    assert!(
        create("never", NO_ANSWER_TIME).await.is_err(),
        "the request was answered"
    );
    let started = Instant::now();
    create("late", ANSWER_TIMEOUT).await.unwrap().unwrap();
    assert!(started.elapsed() >= Duration::from_millis(700));

    let mut existing = Vec::new();
    for name in ["before", "after", "silent", "never", "late"] {
        existing.push((
            name,
            place.direct_api.get_opt(name).await.unwrap().is_some(),
        ));
    }
    let expected = [
        ("before", false),
        ("after", true),
        ("silent", true),
        ("never", false),
        ("late", true),
    ];
    assert_eq!(existing, expected);
}

/// Creates ten objects, four at a time. Returns the number of answered creates.
async fn create_ten_objects(api: &Api<ConfigMap>) -> usize {
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
async fn trap_lets_exactly_k_writes_pass_before_the_callback() {
    for (moment, k) in [
        (TrapTiming::BeforeAnswer, 1),
        (TrapTiming::BeforeAnswer, 4),
        (TrapTiming::AfterAnswer, 3),
    ] {
        let place = start_fixture("trap").await;
        let calls = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&calls);
        let (looked, may_return) = std::sync::mpsc::channel::<()>();
        let mut fired = place
            .proxy
            .call_after_write(k, moment, is_config_map, move || {
                counted.fetch_add(1, Ordering::SeqCst);
                // The callback waits until the test has checked the objects or has failed.
                let _ = may_return.recv_timeout(ANSWER_TIMEOUT);
            });
        let working = tokio::spawn({
            let api = place.api.clone();
            async move { create_ten_objects(&api).await }
        });
        while calls.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The callback is running.
        assert_eq!(count_config_maps(&place.direct_api).await as u64, k);
        assert!(!fired.has_fired());
        looked.send(()).unwrap();
        fired.wait_until_fired(ANSWER_TIMEOUT).await.unwrap();
        let answered = working.await.unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        // The trap has cut the writes that waited in it. Later writes have passed.
        assert_eq!(count_config_maps(&place.direct_api).await, answered);
        assert!(answered < 10 && answered as u64 >= k, "{answered}");
    }
}

#[tokio::test]
async fn trap_ignores_writes_that_do_not_match() {
    let place = start_fixture("trap-for").await;
    let secrets = |request: &Request| request.resource == "secrets";
    let mut fired = place
        .proxy
        .call_after_write(1, TrapTiming::BeforeAnswer, secrets, || {});
    assert_eq!(create_ten_objects(&place.api).await, 10);
    assert!(
        fired
            .wait_until_fired(Duration::from_millis(50))
            .await
            .is_err()
    );
    place.proxy.remove_faults();
    let error = fired
        .wait_until_fired(Duration::from_secs(5))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("removed before"), "{error}");
}

#[tokio::test]
async fn trap_does_not_count_refused_writes() {
    let place = start_fixture("trap-refused").await;
    let params = PostParams::default();
    let map = config_map("a");
    place.direct_api.create(&params, &map).await.unwrap();
    let mut fired = place
        .proxy
        .call_after_write(1, TrapTiming::BeforeAnswer, is_config_map, || {});
    let refused = place.api.create(&params, &map).await.unwrap_err();
    assert!(refused.to_string().contains("already exists"), "{refused}");
    assert!(!fired.has_fired());
    let next = config_map("b");
    place.api.create(&params, &next).await.unwrap();
    fired.wait_until_fired(ANSWER_TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn a_client_is_killed_after_its_kth_write() {
    for (moment, k) in [(TrapTiming::BeforeAnswer, 3), (TrapTiming::AfterAnswer, 2)] {
        let place = start_fixture("kill").await;
        // The shutdown of a runtime has the same effect for peers as a killed process: all
        // connections close in the middle of their requests.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        let client = Arc::new(Mutex::new(None::<Runtime>));
        let victim = Arc::clone(&client);
        let mut fired = place
            .proxy
            .call_after_write(k, moment, is_config_map, move || {
                let victim = victim.lock().unwrap().take().unwrap();
                victim.shutdown_timeout(Duration::from_secs(5));
            });
        let through_the_proxy = {
            let _inside = runtime.enter();
            place
                .proxy
                .client(shared_control_plane().await.admin_token())
                .unwrap()
        };
        let api: Api<ConfigMap> = Api::namespaced(through_the_proxy, place.namespace.name());
        let inside = runtime.handle().clone();
        *client.lock().unwrap() = Some(runtime);
        inside.spawn(async move { create_ten_objects(&api).await });

        fired
            .wait_until_fired(Duration::from_secs(30))
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(count_config_maps(&place.direct_api).await as u64, k);
    }
}
