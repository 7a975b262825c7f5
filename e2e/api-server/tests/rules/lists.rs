//! Lists: pages, selectors, snapshots.

use serde_json::{Value, json};

use super::{CONFIG_MAPS, Cluster, version};

fn item_names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().expect("a list has items").iter();
    items
        .map(|item| item["metadata"]["name"].as_str().expect("a name"))
        .collect()
}

#[test]
fn pages_of_a_list_are_of_one_snapshot() {
    let mut cluster = Cluster::new();
    for name in ["m1", "m2", "m3", "m4"] {
        cluster.config_map(name, &json!({}));
    }
    let (_, first) = cluster.get(&format!("{CONFIG_MAPS}?limit=2"));
    assert_eq!(item_names(&first), ["m1", "m2"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 2);
    cluster.delete(&format!("{CONFIG_MAPS}/m4"), &Value::Null);
    cluster.change(&format!("{CONFIG_MAPS}/m3"), &json!({"data": {"k": "new"}}));
    cluster.config_map("m5", &json!({}));
    let token = first["metadata"]["continue"]
        .as_str()
        .expect("a token")
        .to_owned();
    let (_, second) = cluster.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}"));
    assert_eq!(item_names(&second), ["m3", "m4"]);
    assert_eq!(second["items"][0].get("data"), None);
    assert_eq!(version(&second), version(&first));
    assert_eq!(second["metadata"].get("continue"), None);
}

#[test]
fn page_after_a_compaction_is_gone_and_offers_a_token_of_now() {
    let mut cluster = Cluster::new();
    for name in ["m1", "m2", "m3"] {
        cluster.config_map(name, &json!({}));
    }
    let (_, first) = cluster.get(&format!("{CONFIG_MAPS}?limit=1"));
    let token = first["metadata"]["continue"]
        .as_str()
        .expect("a token")
        .to_owned();
    cluster.config_map("m4", &json!({}));
    cluster.server.compact(cluster.server.revision());
    let (code, status) = cluster.get(&format!("{CONFIG_MAPS}?limit=1&continue={token}"));
    assert_eq!((code, status["reason"].as_str()), (410, Some("Expired")));
    let token = status["metadata"]["continue"]
        .as_str()
        .expect("a token")
        .to_owned();
    let (_, rest) = cluster.get(&format!("{CONFIG_MAPS}?continue={token}"));
    assert_eq!(item_names(&rest), ["m2", "m3", "m4"]);
}

#[test]
fn list_shows_objects_that_selectors_match() {
    let mut cluster = Cluster::new();
    cluster.config_map("m1", &json!({"app": "x"}));
    cluster.config_map("m2", &json!({"app": "y"}));
    let (_, list) = cluster.get(&format!("{CONFIG_MAPS}?labelSelector=app%3Dx"));
    assert_eq!(item_names(&list), ["m1"]);
    let (_, list) = cluster.get(&format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dm2"));
    assert_eq!(item_names(&list), ["m2"]);
    let (code, _) = cluster.get(&format!("{CONFIG_MAPS}?fieldSelector=data.x%3D1"));
    assert_eq!(code, 400);
}

#[test]
fn list_of_all_namespaces_has_the_order_of_keys() {
    let mut cluster = Cluster::new();
    cluster.create("/api/v1/namespaces", &json!({"metadata": {"name": "a-b"}}));
    cluster.config_map("m", &json!({}));
    let object = json!({"metadata": {"name": "n"}});
    cluster.create("/api/v1/namespaces/a-b/configmaps", &object);
    let (_, list) = cluster.get("/api/v1/configmaps");
    assert_eq!(item_names(&list), ["n", "m"], "a-b/n is before a/m");
    let (_, list) = cluster.get(CONFIG_MAPS);
    assert_eq!(item_names(&list), ["m"]);
}

#[test]
fn items_of_a_built_in_kind_have_no_kind() {
    let mut cluster = Cluster::new();
    cluster.config_map("m", &json!({}));
    let (_, list) = cluster.get(CONFIG_MAPS);
    assert_eq!(list["kind"], "ConfigMapList");
    assert_eq!(list["items"][0].get("kind"), None);
}
