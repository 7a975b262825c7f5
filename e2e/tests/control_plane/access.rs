//! Authentication and authorization on a test control plane.

use k8s_openapi::api::{
    authentication::v1::SelfSubjectReview,
    core::v1::{ConfigMap, Pod},
};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use trellis_e2e::{
    binaries::KubernetesVersion, control_plane::apply, site::jobs::SOON,
    site::namespace::TestNamespace, wait::eventually,
};

use super::shared_control_plane;

/// Returns the user name of the client in the API server.
async fn user_name(client: Client) -> String {
    let api: Api<SelfSubjectReview> = Api::all(client);
    let answer = api
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await
        .unwrap();
    answer.status.unwrap().user_info.unwrap().username.unwrap()
}

async fn kubeconfig_client(kubeconfig: std::path::PathBuf) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    Client::try_from(config).unwrap()
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

#[tokio::test]
async fn api_server_reports_the_built_version() {
    let control_plane = shared_control_plane().await;
    let version = control_plane.client().apiserver_version().await.unwrap();
    let chosen = KubernetesVersion::chosen().unwrap();
    assert_eq!(version.git_version, chosen.release());
    assert_eq!(
        format!("{}.{}", version.major, version.minor),
        chosen.name()
    );
    let version_output = control_plane.kubectl_ok(&["version"]).await.unwrap();
    for line in [
        "Client Version: v1.37.1".to_owned(),
        format!("Server Version: {}", chosen.release()),
    ] {
        assert!(version_output.contains(&line), "{version_output}");
    }
}

#[tokio::test]
async fn service_account_has_only_its_rbac_rights() {
    let control_plane = shared_control_plane().await;
    let namespace = TestNamespace::create(control_plane, "rbac").await.unwrap();
    let name = namespace.name();
    let rights = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules:
- {apiGroups: [''], resources: [configmaps], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects:
- {kind: ServiceAccount, name: reader, namespace: NAMESPACE}
";
    control_plane
        .apply_yaml_in(name, &rights.replace("NAMESPACE", name))
        .await
        .unwrap();
    let kubeconfig = control_plane
        .service_account_kubeconfig(name, "reader")
        .await
        .unwrap();
    let client = kubeconfig_client(kubeconfig).await;
    assert_eq!(
        user_name(client.clone()).await,
        format!("system:serviceaccount:{name}:reader")
    );

    let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), name);
    // The API server watches roles, so the right takes effect late.
    eventually(SOON, || async {
        config_maps.list(&ListParams::default()).await?;
        Ok(())
    })
    .await
    .unwrap();
    assert!(is_forbidden(&config_maps.get("any").await.unwrap_err()));
    let pods: Api<Pod> = Api::namespaced(client.clone(), name);
    assert!(is_forbidden(
        &pods.list(&ListParams::default()).await.unwrap_err()
    ));
    let all: Api<ConfigMap> = Api::all(client);
    assert!(is_forbidden(
        &all.list(&ListParams::default()).await.unwrap_err()
    ));

    // The ServiceAccount `default` has no rights.
    let without_rights = control_plane
        .service_account_client(name, "default")
        .await
        .unwrap();
    let config_maps: Api<ConfigMap> = Api::namespaced(without_rights, name);
    assert!(is_forbidden(
        &config_maps.list(&ListParams::default()).await.unwrap_err()
    ));
}

#[tokio::test]
async fn impersonated_users_have_their_name_and_groups() {
    let control_plane = shared_control_plane().await;
    assert_eq!(user_name(control_plane.client()).await, "admin");
    let ann = control_plane.client_for_user("ann", &["team-a"]).unwrap();
    assert_eq!(user_name(ann).await, "ann");
    let kubeconfig = control_plane
        .kubeconfig_for_user("ann", &["team-a"])
        .unwrap();
    assert_eq!(user_name(kubeconfig_client(kubeconfig).await).await, "ann");
    let kubeconfig = control_plane
        .kubeconfig_for_token("again", control_plane.admin_token())
        .unwrap();
    assert_eq!(
        user_name(kubeconfig_client(kubeconfig).await).await,
        "admin"
    );
}

#[tokio::test]
async fn yaml_is_applied_strictly_and_in_order() {
    let control_plane = shared_control_plane().await;
    let namespace = TestNamespace::create(control_plane, "yaml").await.unwrap();
    let yaml = "
apiVersion: v1
kind: ConfigMap
metadata: {name: one}
data: {a: 'b'}
---
# nothing here
---
apiVersion: test.trellis.dev/v1
kind: Widget
metadata: {name: two}
spec: {size: 3}
";
    let stored = control_plane
        .apply_yaml_in(namespace.name(), yaml)
        .await
        .unwrap();
    let names: Vec<_> = stored
        .iter()
        .filter_map(|object| object.metadata.name.as_deref())
        .collect();
    assert_eq!(names, ["one", "two"]);
    assert_eq!(stored[1].data["spec"]["size"], 3);

    let misspelt =
        "{apiVersion: test.trellis.dev/v1, kind: Widget, metadata: {name: x}, spec: {syze: 3}}";
    let refused = control_plane
        .apply_yaml_in(namespace.name(), misspelt)
        .await
        .unwrap_err();
    assert!(format!("{refused:#}").contains("syze"), "{refused:#}");
    let unknown = "{apiVersion: test.trellis.dev/v1, kind: Gadget, metadata: {name: x}}";
    assert!(control_plane.apply_yaml(unknown).await.is_err());

    let ann = control_plane.client_for_user("ann", &[]).unwrap();
    let config_map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}";
    let refused = apply(&ann, config_map, namespace.name()).await.unwrap_err();
    assert!(
        is_forbidden(refused.downcast_ref::<kube::Error>().unwrap()),
        "{refused:#}"
    );
}

#[tokio::test]
async fn kubectl_reads_its_input_and_reports_errors() {
    let control_plane = shared_control_plane().await;
    let namespace = TestNamespace::create(control_plane, "kubectl")
        .await
        .unwrap();
    let config_map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}";
    let arguments = ["apply", "-n", namespace.name(), "-f", "-"];
    let output = control_plane
        .kubectl_with(&arguments, config_map)
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let error = control_plane
        .kubectl_ok(&["get", "gadgets"])
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the server doesn't have a resource type"),
        "{error}"
    );
}
