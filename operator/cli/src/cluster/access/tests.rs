use std::path::Path;

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    reach: Reach,
}

fn reach(arguments: &[&str]) -> Access {
    let all = ["trellis"].iter().chain(arguments);
    Line::try_parse_from(all).unwrap().reach.access()
}

const TWO: &str = r#"
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
async fn cluster_user_and_impersonation_are_as_kubectl_has_them() {
    let (_folder, path) = file(TWO);
    let path = path.to_str().unwrap();
    let plain = reach(&["--kubeconfig", path]).config().await.unwrap();
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
    let other = reach(&arguments).config().await.unwrap();
    assert_eq!(other.cluster_url.host(), Some("b.example"));
    let who = other.auth_info;
    assert_eq!(who.username.as_deref(), Some("bob"));
    assert_eq!(who.impersonate.as_deref(), Some("ada"));
    assert_eq!(
        who.impersonate_groups,
        Some(vec!["x".to_owned(), "y".to_owned()])
    );
    assert!(Line::try_parse_from(["trellis", "--as-group=x"]).is_err());
}

#[test]
fn a_question_may_take_as_long_as_is_said() {
    let patience = |arguments: &[&str]| reach(arguments).patience();
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
    assert!(reach(&["--as=ada"]).is_given() && !reach(&[]).is_given());
}

/// Whose file is broken, or may not be read, meant that file, and no other cluster.
#[test]
fn only_where_no_kubeconfig_is_at_all_is_it_the_pods_own_cluster() {
    let of = |path: &Path| Absent::of_home(Kubeconfig::read_from(path).unwrap_err());
    let (folder, broken) = file("clusters: {");
    assert!(matches!(of(&broken), Absent::Useless(_)));
    assert!(matches!(of(folder.path()), Absent::Useless(_)));
    assert!(matches!(
        of(&folder.path().join("none")),
        Absent::Nowhere(_)
    ));
    assert!(matches!(of(&broken.join("none")), Absent::Nowhere(_)));
    let named = Access {
        kubeconfig: Some(folder.path().join("none")),
        ..Access::default()
    };
    assert!(matches!(named.read(), Err(Absent::Useless(_))));
}

#[test]
fn of_several_files_those_that_are_not_there_are_passed_over() {
    let (folder, two) = file(TWO);
    let at = |name: &str| folder.path().join(name);
    let (none, other, broken) = (at("none"), at("other"), at("broken"));
    let text = "{apiVersion: v1, kind: Config, current-context: b, \
        contexts: [{name: b, context: {cluster: b, user: b}}]}";
    std::fs::write(&other, text).unwrap();
    std::fs::write(&broken, "clusters: {").unwrap();
    let of = |files: &[&PathBuf]| merged(files.iter().map(|file| file.to_path_buf()));

    let both = of(&[&none, &two, &other]).unwrap().unwrap();
    assert_eq!(both.current_context.as_deref(), Some("a"), "the first wins");
    let names: Vec<_> = both.contexts.iter().map(|of| of.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let swapped = of(&[&other, &none, &two]).unwrap().unwrap();
    assert_eq!(swapped.current_context.as_deref(), Some("b"));

    assert!(of(&[]).unwrap().is_none());
    let error = of(&[&none, &at("neither")]).unwrap_err().to_string();
    assert!(error.contains(none.to_str().unwrap()), "{error}");
    for useless in [&broken, &folder.path().to_path_buf()] {
        assert!(of(&[&two, useless]).is_err(), "{useless:?}");
    }
}
