//! Controllers of the controller manager that tests rely on.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use serde_json::json;
use trellis_e2e::{
    site::namespace::TestNamespace,
    wait::{wait_for, wait_until_deleted},
};

use super::{SOON, shared_control_plane};

#[tokio::test]
async fn children_of_a_deleted_custom_object_are_collected() {
    let control_plane = shared_control_plane().await;
    let namespace = TestNamespace::create(control_plane, "owned").await.unwrap();
    let gvk = GroupVersionKind::gvk("test.trellis.dev", "v1", "Widget");
    let resource = ApiResource::from_gvk(&gvk);
    let widgets: Api<DynamicObject> =
        Api::namespaced_with(control_plane.client(), namespace.name(), &resource);
    let owner = DynamicObject::new("owner", &resource);
    let owner = widgets
        .create(&PostParams::default(), &owner)
        .await
        .unwrap();

    let config_maps: Api<ConfigMap> = namespace.api();
    for (name, owned) in [("owned", true), ("free", false)] {
        let owners = json!([{
            "apiVersion": "test.trellis.dev/v1",
            "kind": "Widget",
            "name": "owner",
            "uid": owner.metadata.uid,
            "controller": true,
        }]);
        let owners = if owned { owners } else { json!([]) };
        let child = json!({"metadata": {"name": name, "ownerReferences": owners}});
        let child = serde_json::from_value(child).unwrap();
        config_maps
            .create(&PostParams::default(), &child)
            .await
            .unwrap();
    }
    widgets
        .delete("owner", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_deleted(&config_maps, "owned", SOON)
        .await
        .unwrap();
    assert!(config_maps.get_opt("free").await.unwrap().is_some());
}

#[tokio::test]
async fn dropped_namespace_is_deleted_with_its_objects() {
    let control_plane = shared_control_plane().await;
    let namespace = TestNamespace::create(control_plane, "dropped")
        .await
        .unwrap();
    let name = namespace.name().to_owned();
    let config_maps: Api<ConfigMap> = namespace.api();
    let config_map = serde_json::from_value(json!({"metadata": {"name": "x"}})).unwrap();
    config_maps
        .create(&PostParams::default(), &config_map)
        .await
        .unwrap();
    drop(namespace);
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(control_plane.client());
    wait_until_deleted(&namespaces, &name, Duration::from_secs(60))
        .await
        .unwrap();
    wait_until_deleted(&config_maps, "x", SOON).await.unwrap();
}

#[tokio::test]
async fn a_namespace_has_the_certificate_authority_of_the_api_server() {
    let control_plane = shared_control_plane().await;
    let namespace = TestNamespace::create(control_plane, "ca").await.unwrap();
    let config_maps: Api<ConfigMap> = namespace.api();
    let has_value = |map: &ConfigMap| {
        map.data
            .as_ref()
            .is_some_and(|data| data["ca.crt"].contains("BEGIN"))
    };
    wait_for(&config_maps, "kube-root-ca.crt", SOON, has_value)
        .await
        .unwrap();
}
