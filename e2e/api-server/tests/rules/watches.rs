//! Watches: order, selectors, bookmarks, ends.

use serde_json::{Value, json};

use super::{CONFIG_MAPS, Cluster, names, version};

#[test]
fn watch_shows_changes_after_its_version_in_order() {
    let mut cluster = Cluster::new();
    let first = cluster.config_map("m1", &json!({}));
    let from = version(&first);
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=true&resourceVersion={from}"));
    cluster.config_map("m2", &json!({}));
    cluster.change(&format!("{CONFIG_MAPS}/m1"), &json!({"data": {"k": "v"}}));
    cluster.delete(&format!("{CONFIG_MAPS}/m2"), &Value::Null);
    let expected = names(&[("ADDED", "m2"), ("MODIFIED", "m1"), ("DELETED", "m2")]);
    assert_eq!(cluster.event_names(&mut watch), expected);
    assert_eq!(cluster.event_names(&mut watch), []);
}

#[test]
fn deletion_carries_its_own_revision() {
    let mut cluster = Cluster::new();
    let object = cluster.config_map("m", &json!({}));
    let from = version(&object);
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}"));
    cluster.delete(&format!("{CONFIG_MAPS}/m"), &Value::Null);
    let (events, _) = cluster.events(&mut watch);
    assert_eq!(version(&events[0]["object"]), from + 1);
    let entry = cluster.server.history().last().expect("an entry");
    assert_eq!((entry.revision, entry.after.is_none()), (from + 1, true));
}

#[test]
fn object_appears_and_disappears_when_its_labels_change() {
    let mut cluster = Cluster::new();
    let path = format!("{CONFIG_MAPS}?watch=1&labelSelector=app%3Dx&resourceVersion=2");
    let mut watch = cluster.watch(&path);
    cluster.config_map("m", &json!({"app": "y"}));
    cluster.change(
        &format!("{CONFIG_MAPS}/m"),
        &json!({"metadata": {"labels": {"app": "x"}}}),
    );
    cluster.change(&format!("{CONFIG_MAPS}/m"), &json!({"data": {"k": "v"}}));
    cluster.change(
        &format!("{CONFIG_MAPS}/m"),
        &json!({"metadata": {"labels": {"app": "y"}}}),
    );
    cluster.delete(&format!("{CONFIG_MAPS}/m"), &Value::Null);
    let (events, _) = cluster.events(&mut watch);
    let types: Vec<_> = events.iter().map(|event| event["type"].as_str()).collect();
    assert_eq!(types, [Some("ADDED"), Some("MODIFIED"), Some("DELETED")]);
    // It shows the labels of before, with the revision of the change.
    assert_eq!(events[2]["object"]["metadata"]["labels"]["app"], "x");
    assert_eq!(
        version(&events[2]["object"]),
        version(&events[1]["object"]) + 1
    );
}

#[test]
fn watch_without_a_version_begins_with_all_objects() {
    let mut cluster = Cluster::new();
    cluster.config_map("m1", &json!({}));
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=1"));
    cluster.config_map("m2", &json!({}));
    let expected = names(&[("ADDED", "m1"), ("ADDED", "m2")]);
    assert_eq!(cluster.event_names(&mut watch), expected);
}

#[test]
fn bookmark_comes_each_minute_with_the_version_of_the_store() {
    let mut cluster = Cluster::new();
    let path = format!("{CONFIG_MAPS}?watch=1&allowWatchBookmarks=true&resourceVersion=2");
    let mut watch = cluster.watch(&path);
    // Another kind.
    cluster.pod("p", None);
    cluster.pass(59);
    assert_eq!(cluster.events(&mut watch).0, [] as [Value; 0]);
    cluster.pass(1);
    let revision = cluster.server.revision().to_string();
    let bookmark = json!({"type": "BOOKMARK", "object": {
        "kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": revision}}});
    assert_eq!(cluster.events(&mut watch), (vec![bookmark], false));
    cluster.pass(60);
    assert_eq!(cluster.events(&mut watch).0.len(), 1);
}

#[test]
fn watch_ends_after_its_time() {
    let mut cluster = Cluster::new();
    let mut watch = cluster.watch(&format!(
        "{CONFIG_MAPS}?watch=1&resourceVersion=2&timeoutSeconds=10"
    ));
    cluster.pass(9);
    assert_eq!(cluster.events(&mut watch), (vec![], false));
    cluster.pass(1);
    assert_eq!(cluster.events(&mut watch), (vec![], true));
}

#[test]
fn watch_from_a_compacted_version_gets_one_error() {
    let mut cluster = Cluster::new();
    cluster.config_map("m", &json!({}));
    let mut open = cluster.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion=2"));
    cluster.config_map("n", &json!({}));
    cluster.server.compact(cluster.server.revision());
    let mut late = cluster.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion=2"));
    for watch in [&mut open, &mut late] {
        let (events, has_ended) = cluster.events(watch);
        assert_eq!((events.len(), has_ended), (1, true));
        let object = &events[0]["object"];
        assert_eq!(
            (&events[0]["type"], &object["code"]),
            (&json!("ERROR"), &json!(410))
        );
    }
}

#[test]
fn version_of_the_future_is_accepted_and_silent() {
    let mut cluster = Cluster::new();
    let future = cluster.server.revision() + 2;
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={future}"));
    cluster.config_map("m1", &json!({}));
    cluster.config_map("m2", &json!({}));
    assert_eq!(cluster.event_names(&mut watch), []);
    cluster.config_map("m3", &json!({}));
    assert_eq!(cluster.event_names(&mut watch), names(&[("ADDED", "m3")]));
}

#[test]
fn restore_puts_the_state_back_and_ends_watches() {
    let mut cluster = Cluster::new();
    let old = cluster.config_map("m1", &json!({}));
    let at = cluster.server.revision();
    cluster.change(&format!("{CONFIG_MAPS}/m1"), &json!({"data": {"k": "v"}}));
    cluster.config_map("m2", &json!({}));
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={at}"));
    cluster.server.restore(at);
    assert_eq!(cluster.events(&mut watch), (vec![], true));
    assert_eq!(cluster.get(&format!("{CONFIG_MAPS}/m1")), (200, old));
    assert_eq!(cluster.get(&format!("{CONFIG_MAPS}/m2")).0, 404);
    let again = cluster.config_map("m3", &json!({}));
    assert_eq!(version(&again), at + 1, "revisions count on from then");
    let restored = cluster
        .server
        .history()
        .iter()
        .filter(|entry| entry.restored);
    assert_eq!(restored.count(), 2);
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={at}"));
    assert_eq!(cluster.event_names(&mut watch), names(&[("ADDED", "m3")]));
}

#[test]
fn frames_of_one_event_are_shared() {
    let mut cluster = Cluster::new();
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion=2");
    let mut watches = [cluster.watch(&path), cluster.watch(&path)];
    cluster.config_map("m", &json!({}));
    let lines =
        watches.each_mut().map(
            |watch| match cluster.server.poll_watch(watch, cluster.now) {
                trellis_api_server::WatchPoll::Event(frame) => frame.line.as_ptr(),
                other => panic!("no event: {other:?}"),
            },
        );
    assert_eq!(lines[0], lines[1]);
}
