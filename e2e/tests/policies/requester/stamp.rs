//! Every write of a job's spec stamps the job with the user who made it, whichever API call it
//! uses. Other writes do not change the stamp.

use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_api::names::REQUESTED_BY;
use trellis_e2e::admission::wait_for_stamping;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::users::{self, jobs_as, parse_stamp, stamp_text, user_client};
use crate::{create_site, shared_control_plane};

fn typed_job(job: Value) -> TrainingJob {
    serde_json::from_value(job).unwrap()
}

async fn create_job(api: &Api<TrainingJob>, job: Value) -> TrainingJob {
    let created = api.create(&PostParams::default(), &typed_job(job)).await;
    created.unwrap()
}

async fn merge_patch(api: &Api<TrainingJob>, patch: Value) -> kube::Result<TrainingJob> {
    let params = PatchParams::default();
    api.patch("j", &params, &Patch::Merge(&patch)).await
}

async fn apply_job(api: &Api<TrainingJob>, manager: &str, job: &Value) -> TrainingJob {
    let params = PatchParams::apply(manager).force();
    api.patch("j", &params, &Patch::Apply(job)).await.unwrap()
}

/// Replaces the whole job, and retries if its status was written in between.
async fn replace_job(api: &Api<TrainingJob>, change: impl Fn(&mut TrainingJob)) -> TrainingJob {
    loop {
        let mut read = api.get("j").await.unwrap();
        change(&mut read);
        match api.replace("j", &PostParams::default(), &read).await {
            Err(kube::Error::Api(status)) if status.is_conflict() => {}
            replaced => return replaced.unwrap(),
        }
    }
}

/// Returns a job that is never placed.
fn suspended_job(site: &TestSite) -> Value {
    let mut job = site.job("j", 1, 1);
    job["spec"]["suspend"] = json!(true);
    job
}

fn restart_limit_patch(limit: u32) -> Value {
    json!({"spec": {"restart": {"limit": limit}}})
}

#[tokio::test]
async fn only_spec_changes_change_the_requester_stamp() {
    let control_plane = shared_control_plane().await;
    let site = create_site("stamp", 0).await;
    users::grant_user_rights(control_plane).await;
    wait_for_stamping(control_plane).await;
    let ada = jobs_as(&site, &user_client(control_plane, "ada", &["ml"]));
    let bob = jobs_as(&site, &user_client(control_plane, "bob", &["ops"]));

    let job = create_job(&ada, suspended_job(&site)).await;
    let adas = parse_stamp(&job);
    assert_eq!(adas.user, "ada");
    for group in ["people", "ml"] {
        assert!(adas.groups.iter().any(|g| g == group), "{adas:?}");
    }
    let of_ada = stamp_text(&job).unwrap().to_owned();

    let labelled = merge_patch(&bob, json!({"metadata": {"labels": {"tier": "gold"}}}));
    assert_eq!(stamp_text(&labelled.await.unwrap()), Some(of_ada.as_str()));
    // A status write, like those of the operator, does not change the stamp.
    let status = json!({"status": {"message": "by hand"},
        "metadata": {"annotations": {REQUESTED_BY: "bob"}}});
    let params = PatchParams::default();
    let status = bob.patch_status("j", &params, &Patch::Merge(&status)).await;
    assert_eq!(stamp_text(&status.unwrap()), Some(of_ada.as_str()));

    let changed = merge_patch(&bob, restart_limit_patch(5)).await.unwrap();
    assert_eq!(parse_stamp(&changed).user, "bob");

    // This client sends the whole object with the stamp that it has read.
    let limited = |job: &mut TrainingJob| {
        job.spec.restart.get_or_insert_default().limit = Some(6);
    };
    assert_eq!(parse_stamp(&replace_job(&ada, limited).await).user, "ada");
    // A replace with the manifest from git also keeps the stamp.
    let replaced = replace_job(&bob, |job| job.metadata.annotations = None).await;
    assert_eq!(stamp_text(&replaced), Some(of_ada.as_str()));
    let removed = json!({"metadata": {"annotations": {REQUESTED_BY: null}}});
    let stamped = merge_patch(&bob, removed).await.unwrap();
    assert_eq!(stamp_text(&stamped), Some(of_ada.as_str()));
    site.delete::<TrainingJob>("j").await;
}

#[tokio::test]
async fn applied_job_has_the_stamp_of_its_last_spec_change() {
    let control_plane = shared_control_plane().await;
    let site = create_site("applied", 0).await;
    users::grant_user_rights(control_plane).await;
    wait_for_stamping(control_plane).await;
    let ada = jobs_as(&site, &user_client(control_plane, "ada", &["ml"]));
    let bob = jobs_as(&site, &user_client(control_plane, "bob", &["ops"]));
    let mut job = suspended_job(&site);

    let first = apply_job(&ada, "git", &job).await;
    assert_eq!(parse_stamp(&first).user, "ada");
    // A repeated apply by the same manager changes nothing. The operator writes a status once,
    // which may come between two applies.
    site.wait_for_phase("j", JobPhase::Suspended).await;
    eventually(SOON, || async {
        let before = apply_job(&ada, "git", &job).await.metadata.resource_version;
        let second_version = apply_job(&ada, "git", &job).await.metadata.resource_version;
        anyhow::ensure!(
            second_version == before,
            "{before:?} has become {second_version:?}"
        );
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(parse_stamp(&apply_job(&bob, "git", &job).await).user, "ada");
    assert_eq!(
        parse_stamp(&apply_job(&bob, "other", &job).await).user,
        "ada"
    );
    job["spec"]["restart"]["limit"] = json!(7);
    assert_eq!(parse_stamp(&apply_job(&bob, "git", &job).await).user, "bob");
    job["metadata"]["labels"] = json!({"tier": "gold"});
    assert_eq!(parse_stamp(&apply_job(&ada, "git", &job).await).user, "bob");

    // kubectl also stores the last applied object in an annotation.
    job["spec"]["restart"]["limit"] = json!(8);
    job["metadata"]["name"] = json!("k");
    job["metadata"]["namespace"] = json!(site.name());
    let kubeconfig = control_plane
        .kubeconfig_for_user("eve", &["people"])
        .unwrap();
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    for suspend in [true, false, true] {
        job["spec"]["suspend"] = json!(suspend);
        let (arguments, text) = (["apply", "-f", "-", &kubeconfig], job.to_string());
        let applied = control_plane.kubectl_with(&arguments, &text).await.unwrap();
        assert!(applied.status.success(), "{applied:?}");
        assert_eq!(parse_stamp(&ada.get("k").await.unwrap()).user, "eve");
    }
}

#[tokio::test]
async fn every_create_request_is_stamped() {
    let control_plane = shared_control_plane().await;
    let site = create_site("ways", 0).await;
    users::grant_user_rights(control_plane).await;
    wait_for_stamping(control_plane).await;
    let ada = jobs_as(&site, &user_client(control_plane, "ada", &[]));

    let mut nameless = suspended_job(&site);
    nameless["metadata"] = json!({"generateName": "some-"});
    assert_eq!(parse_stamp(&create_job(&ada, nameless).await).user, "ada");
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let tried = ada
        .create(&dry, &typed_job(suspended_job(&site)))
        .await
        .unwrap();
    assert_eq!(parse_stamp(&tried).user, "ada");
    // Users may write `annotations` without a value.
    for (name, annotations) in [
        ("null", json!(null)),
        ("none", json!({})),
        ("some", json!({"a": "b"})),
    ] {
        let mut job = suspended_job(&site);
        job["metadata"] = json!({"name": name, "annotations": annotations});
        let request = kube::core::Request::new(format!(
            "/apis/trellis.dev/v1alpha1/namespaces/{}/trainingjobs",
            site.name()
        ));
        let request = request.create(&PostParams::default(), job.to_string().into_bytes());
        let client = user_client(control_plane, "ada", &[]);
        let created: TrainingJob = client.request(request.unwrap()).await.unwrap();
        assert_eq!(parse_stamp(&created).user, "ada", "{name}");
    }
    // User names are texts of an identity provider.
    let odd = r#"o"dd \ "}, {"#;
    let by_odd = jobs_as(&site, &user_client(control_plane, odd, &[odd]));
    let read = parse_stamp(&create_job(&by_odd, suspended_job(&site)).await);
    assert_eq!(read.user, odd);
    assert!(read.groups.iter().any(|g| g == odd), "{read:?}");

    // A list of groups that is too long for an annotation is not cut: the job then has no stamp.
    let groups: Vec<String> = (0..2_500).map(|i| format!("group-number-{i:04}")).collect();
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    let many = jobs_as(&site, &user_client(control_plane, "many", &groups));
    let accepted = merge_patch(&many, restart_limit_patch(5)).await.unwrap();
    assert_eq!(stamp_text(&accepted), None);
    let mut next = suspended_job(&site);
    next["metadata"]["name"] = json!("next");
    assert_eq!(stamp_text(&create_job(&many, next).await), None);
    // 1,000 groups are not too many.
    let fewer = jobs_as(
        &site,
        &user_client(control_plane, "fewer", &groups[..1_000]),
    );
    let accepted = merge_patch(&fewer, restart_limit_patch(6)).await.unwrap();
    assert!(parse_stamp(&accepted).groups.len() > 1_000);
}

#[tokio::test]
async fn a_forged_stamp_is_refused() {
    let control_plane = shared_control_plane().await;
    let site = create_site("forged", 0).await;
    users::grant_user_rights(control_plane).await;
    wait_for_stamping(control_plane).await;
    let ada = jobs_as(&site, &user_client(control_plane, "ada", &["ml"]));
    let bob = jobs_as(&site, &user_client(control_plane, "bob", &["ops"]));
    let refused = |answer: kube::Result<TrainingJob>| {
        let kube::Error::Api(status) = answer.unwrap_err() else {
            panic!("no answer of the API server");
        };
        assert_eq!(status.code, 403);
        let words = "only Trellis may write the annotation trellis.dev/requested-by, because it \
                     records the author of the job's spec: remove the annotation";
        assert!(status.message.contains(words), "{}", status.message);
    };
    let job = create_job(&ada, suspended_job(&site)).await;
    let of_ada = stamp_text(&job).unwrap().to_owned();
    let claim = |stamp: &str| json!({"metadata": {"annotations": {REQUESTED_BY: stamp}}});

    let mut other = suspended_job(&site);
    other["metadata"]["name"] = json!("other");
    for forged in [
        of_ada.as_str(),
        r#"{"user": "bob", "groups": ["ml"]}"#,
        "bob",
    ] {
        other["metadata"]["annotations"] = json!({REQUESTED_BY: forged});
        let params = PostParams::default();
        refused(bob.create(&params, &typed_job(other.clone())).await);
        if forged != of_ada {
            refused(merge_patch(&bob, claim(forged)).await);
            let mut with_spec = claim(forged);
            with_spec["spec"] = restart_limit_patch(9)["spec"].clone();
            refused(merge_patch(&bob, with_spec).await);
        }
    }
    // Without a change of the spec, a user cannot even write her own name, because ada wrote the
    // spec.
    let mut of_bob = suspended_job(&site);
    of_bob["metadata"]["name"] = json!("of-bob");
    let of_bob = create_job(&bob, of_bob).await;
    refused(merge_patch(&bob, claim(stamp_text(&of_bob).unwrap())).await);
    // The user may write her own stamp, because it is correct.
    other["metadata"]["annotations"] = json!({REQUESTED_BY: of_ada});
    assert_eq!(
        stamp_text(&create_job(&ada, other).await),
        Some(of_ada.as_str())
    );
    assert_eq!(
        stamp_text(&ada.get("j").await.unwrap()),
        Some(of_ada.as_str())
    );
}
