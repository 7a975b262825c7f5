//! The proxy: stalled watches and lost events.

use std::{pin::pin, time::Duration};

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;
use tokio::time::timeout;
use trellis_e2e::{
    proxy::{Proxy, ProxyFault, Verb},
    site::namespace::TestNamespace,
};

use super::{SOON, shared_control_plane};

fn config_map(name: &str) -> ConfigMap {
    let labels = json!({"watched": "yes"});
    serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap()
}

/// Returns the next added name. None: no object is added within `patience`.
async fn next_added_name(
    events: &mut (impl Stream<Item = kube::Result<WatchEvent<ConfigMap>>> + Unpin),
    patience: Duration,
) -> Option<String> {
    loop {
        match timeout(patience, events.next()).await {
            Ok(Some(Ok(WatchEvent::Added(map)))) => return map.metadata.name,
            Ok(Some(Ok(_))) => {}
            Ok(other) => panic!("the watch has ended: {other:?}"),
            Err(_) => return None,
        }
    }
}

const NO_EVENT_TIME: Duration = Duration::from_millis(700);

#[tokio::test]
async fn watches_pass_stall_and_lose_events() {
    let control_plane = shared_control_plane().await;
    let namespace = TestNamespace::create(control_plane, "watch").await.unwrap();
    let proxy = Proxy::start(control_plane).await.unwrap();
    let client = proxy.client(control_plane.admin_token()).unwrap();
    let api: Api<ConfigMap> = Api::namespaced(client, namespace.name());
    let direct: Api<ConfigMap> = namespace.api();
    let create = async |name: &str| {
        direct
            .create(&PostParams::default(), &config_map(name))
            .await
            .unwrap();
    };

    let params = WatchParams::default().labels("watched=yes");
    let mut events = pin!(api.watch(&params, "0").await.unwrap());
    create("one").await;
    assert_eq!(
        next_added_name(&mut events, SOON).await.as_deref(),
        Some("one")
    );
    assert_eq!(proxy.counts().count_of(Verb::Watch, "configmaps"), 1);

    proxy.stall_watches(|watch| watch.resource == "configmaps");
    create("two").await;
    create("three").await;
    assert_eq!(
        next_added_name(&mut events, NO_EVENT_TIME).await,
        None,
        "a stalled watch has delivered events"
    );
    proxy.resume_watches();
    assert_eq!(
        next_added_name(&mut events, SOON).await.as_deref(),
        Some("two")
    );
    assert_eq!(
        next_added_name(&mut events, SOON).await.as_deref(),
        Some("three")
    );

    proxy.stall_watches(|watch| watch.resource == "pods");
    proxy.drop_events(|_, event| event["object"]["metadata"]["name"] == "four");
    create("four").await;
    create("five").await;
    assert_eq!(
        next_added_name(&mut events, SOON).await.as_deref(),
        Some("five"),
        "the proxy must drop the event of \"four\""
    );

    proxy.remove_faults();
    create("six").await;
    assert_eq!(
        next_added_name(&mut events, SOON).await.as_deref(),
        Some("six")
    );
    assert!(
        proxy
            .counts()
            .sum(|key| key.verb == Verb::Watch)
            .response_bytes
            > 1000
    );

    proxy.cut_watches(|watch| watch.resource == "pods");
    create("seven").await;
    assert_eq!(
        next_added_name(&mut events, SOON).await.as_deref(),
        Some("seven")
    );
    proxy.cut_watches(|watch| watch.resource == "configmaps");
    let end = timeout(SOON, async { while events.next().await.is_some() {} }).await;
    assert!(end.is_ok(), "a cut watch does not end");

    proxy.on_request(|_| ProxyFault::ExpireVersion);
    let mut events = pin!(api.watch(&params, "1").await.unwrap());
    let first = timeout(SOON, events.next())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(
        matches!(&first, WatchEvent::Error(status) if status.code == 410),
        "{first:?}"
    );
    let listed = api.list(&ListParams::default()).await.unwrap_err();
    assert!(
        matches!(&listed, kube::Error::Api(status) if status.code == 410),
        "{listed:?}"
    );
}
