use std::path::Path;

use clap::Parser;

use super::*;

#[derive(Parser)]
struct KubeconfigCommandLine {
    #[command(flatten)]
    cluster: ClusterOptions,
}

fn parse_options(arguments: &[&str]) -> KubeconfigOptions {
    let all = ["trellis"].iter().chain(arguments);
    KubeconfigCommandLine::try_parse_from(all)
        .unwrap()
        .cluster
        .to_kubeconfig_options()
}

const TWO_CONTEXTS: &str = r#"
apiVersion: v1
kind: Config
current-context: a
contexts:
- {name: a, context: {cluster: a, user: a}}
clusters:
- {name: a, cluster: {server: "https://a.example:6443"}}
- {name: b, cluster: {server: "https://b.example:6443"}}
users:
- {name: a, user: {token: one}}
- {name: b, user: {username: bob}}
"#;

fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

#[tokio::test]
async fn cluster_options_match_kubectl() {
    let (_folder, path) = file(TWO_CONTEXTS);
    let path = path.to_str().unwrap();
    let plain = parse_options(&["--kubeconfig", path])
        .load_config()
        .await
        .unwrap();
    assert_eq!(plain.cluster_url.host(), Some("a.example"));
    assert_eq!(plain.auth_info.impersonate, None);
    let arguments = [
        "--kubeconfig",
        path,
        "--cluster=b",
        "--user=b",
        "--as=ada",
        "--as-group=x",
        "--as-group=y",
    ];
    let other = parse_options(&arguments).load_config().await.unwrap();
    assert_eq!(other.cluster_url.host(), Some("b.example"));
    let user = other.auth_info;
    assert_eq!(user.username.as_deref(), Some("bob"));
    assert_eq!(user.impersonate.as_deref(), Some("ada"));
    assert_eq!(
        user.impersonate_groups,
        Some(vec!["x".to_owned(), "y".to_owned()])
    );
    assert!(KubeconfigCommandLine::try_parse_from(["trellis", "--as-group=x"]).is_err());
}

#[test]
fn request_timeout_bounds_each_request() {
    let patience = |arguments: &[&str]| parse_options(arguments).request_timeout();
    assert_eq!(patience(&[]), None);
    assert_eq!(patience(&["--request-timeout=0"]), Some(None));
    assert_eq!(
        patience(&["--request-timeout=7"]),
        Some(Some(Duration::from_secs(7)))
    );
    assert_eq!(
        patience(&["--request-timeout=2m"]),
        Some(Some(Duration::from_secs(120)))
    );
    assert!(parse_options(&["--as=ada"]).is_set() && !parse_options(&[]).is_set());
}

/// A kubeconfig that exists but is invalid or unreadable is an error.
/// The command must not use another cluster instead.
#[test]
fn in_cluster_config_is_used_only_without_a_kubeconfig() {
    let failure_for = |path: &Path| {
        KubeconfigFailure::from_default_file(Kubeconfig::read_from(path).unwrap_err())
    };
    let (folder, broken) = file("clusters: {");
    assert!(matches!(
        failure_for(&broken),
        KubeconfigFailure::Unusable(_)
    ));
    assert!(matches!(
        failure_for(folder.path()),
        KubeconfigFailure::Unusable(_)
    ));
    assert!(matches!(
        failure_for(&folder.path().join("none")),
        KubeconfigFailure::Missing(_)
    ));
    assert!(matches!(
        failure_for(&broken.join("none")),
        KubeconfigFailure::Missing(_)
    ));
    let named = KubeconfigOptions {
        kubeconfig: Some(folder.path().join("none")),
        ..KubeconfigOptions::default()
    };
    assert!(matches!(
        named.read_kubeconfig(),
        Err(KubeconfigFailure::Unusable(_))
    ));
}

#[test]
fn missing_kubeconfig_files_are_skipped() {
    let (folder, two) = file(TWO_CONTEXTS);
    let at = |name: &str| folder.path().join(name);
    let (none, other, broken) = (at("none"), at("other"), at("broken"));
    let text = "{apiVersion: v1, kind: Config, current-context: b, \
        contexts: [{name: b, context: {cluster: b, user: b}}]}";
    std::fs::write(&other, text).unwrap();
    std::fs::write(&broken, "clusters: {").unwrap();
    let merge = |files: &[&PathBuf]| merge_kubeconfigs(files.iter().map(|file| file.to_path_buf()));

    let merged = merge(&[&none, &two, &other]).unwrap().unwrap();
    assert_eq!(
        merged.current_context.as_deref(),
        Some("a"),
        "the current context of the first file must be used"
    );
    let names: Vec<_> = merged
        .contexts
        .iter()
        .map(|merge| merge.name.as_str())
        .collect();
    assert_eq!(names, ["a", "b"]);
    let swapped = merge(&[&other, &none, &two]).unwrap().unwrap();
    assert_eq!(swapped.current_context.as_deref(), Some("b"));

    assert!(merge(&[]).unwrap().is_none());
    let error = merge(&[&none, &at("neither")]).unwrap_err().to_string();
    assert!(error.contains(none.to_str().unwrap()), "{error}");
    for useless in [&broken, &folder.path().to_path_buf()] {
        assert!(merge(&[&two, useless]).is_err(), "{useless:?}");
    }
}
