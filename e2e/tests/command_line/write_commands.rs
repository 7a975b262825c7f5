//! Commands that write.

use kube::Api;
use serde_json::{Value, json};
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::admission::PodPolicy;
use trellis_e2e::kubelet;

use crate::fixtures::shared_fixture;

#[tokio::test]
async fn a_job_is_suspended_resumed_and_cancelled() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-acts", 1).await;
    site.submit("j", 2, 4).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let at = ["-n", site.name()];
    let act = async |arguments: &[&str]| {
        let arguments = [arguments, &at].concat();
        scene.run_trellis(&arguments).await
    };
    let suspended = act(&["suspend", "j", "--wait", "--timeout", "60s"]).await;
    assert_eq!(suspended.status, 0, "{suspended:?}");
    assert_eq!(suspended.out, "trainingjob.trellis.dev/j suspended\n");
    site.wait_for_phase("j", JobPhase::Suspended).await;
    let repeated = act(&["suspend", "tj/j"]).await;
    assert_eq!(
        (repeated.status, repeated.out.as_str()),
        (0, "trainingjob.trellis.dev/j already suspended\n")
    );
    let resumed = act(&["resume", "j", "--wait", "--timeout", "60s"]).await;
    assert_eq!(resumed.status, 0, "{resumed:?}");
    site.wait_for_phase("j", JobPhase::Running).await;
    // A wait that times out is reported, and the job still stops.
    site.delay_pod_stop("j", "5s").await;
    let timed_out = act(&["suspend", "j", "--wait", "--timeout", "1s"]).await;
    assert_eq!(timed_out.status, 124, "{timed_out:?}");
    assert!(
        timed_out.err.contains("`trellis status j`"),
        "{timed_out:?}"
    );
    let cancelled = act(&["cancel", "j", "--wait", "--timeout", "60s"]).await;
    assert_eq!(cancelled.status, 0, "{cancelled:?}");
    let jobs: Api<TrainingJob> = site.api();
    assert!(jobs.get_opt("j").await.unwrap().is_none());
    assert!(site.list_pods("j").await.is_empty());
    let missing = act(&["cancel", "j"]).await;
    assert_eq!(missing.status, 1, "{missing:?}");
}

/// Argo CD reverts a suspension of a job that it delivers, and the command warns about that.
#[tokio::test]
async fn suspend_warns_when_argo_cd_delivers_the_job() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-argo", 1).await;
    let mut job = site.job("j", 1, 1);
    let id = "team-a:trellis.dev/TrainingJob:ns/j";
    job["metadata"]["annotations"] = json!({"argocd.argoproj.io/tracking-id": id});
    site.create(job).await.unwrap();
    let output = scene
        .run_trellis(&["suspend", "j", "-n", site.name()])
        .await;
    assert_eq!(output.status, 0);
    assert!(
        output
            .err
            .contains("note: Argo CD (team-a) deploys this job"),
        "{output:?}"
    );
    let output = scene.run_trellis(&["cancel", "j", "-n", site.name()]).await;
    assert_eq!(output.status, 0);
    assert!(output.err.contains("may create it again"), "{output:?}");
}

/// Another controller manages the job, so the command cannot know whether it obeys.
#[tokio::test]
async fn suspend_does_not_wait_for_an_externally_managed_job() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-managed", 1).await;
    let mut job = site.job("j", 1, 1);
    job["spec"]["managedBy"] = json!("kueue.x-k8s.io/multikueue");
    site.create(job).await.unwrap();
    let output = scene
        .run_trellis(&["suspend", "j", "--wait", "-n", site.name()])
        .await;
    assert_eq!(output.status, 1, "{output:?}");
    assert!(output.out.contains("j suspended"), "{output:?}");
    assert!(
        output.err.contains("kueue.x-k8s.io/multikueue manages j"),
        "{output:?}"
    );

    let mut external_job = site.job("theirs", 1, 1);
    external_job["spec"]["managedBy"] = json!("kueue.x-k8s.io/multikueue");
    let submit = ["submit", "-f", "-", "-n", site.name(), "--wait"];
    // The command gives up after a minute with an exit status other than 1.
    let submit = [&submit[..], &["--timeout", "60s"]].concat();
    let output = scene
        .run_with_input(&submit, &external_job.to_string())
        .await;
    assert_eq!(output.status, 1, "{output:?}");
    assert_eq!(output.out, "trainingjob.trellis.dev/theirs submitted\n");
    let note = "note: kueue.x-k8s.io/multikueue manages theirs (spec.managedBy)";
    assert!(output.err.starts_with(note), "{output:?}");
}

/// Each refused object has its own error, and the command creates the other objects.
#[tokio::test]
async fn command_continues_with_other_objects_after_a_refusal() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-several", 1).await;
    site.submit("a", 1, 1).await;
    site.submit("b", 1, 1).await;
    let at = ["-n", site.name()];
    let denied = scene
        .run_as_viewer(&site, &[&["cancel", "a", "b"][..], &at].concat())
        .await;
    assert_eq!(denied.status, 2, "{denied:?}");
    for name in ["a", "b"] {
        let expected = format!("error: {name}: cannot delete trainingjobs");
        assert!(denied.err.contains(&expected), "{denied:?}");
    }
    let outcome = scene
        .run_trellis(&[&["suspend", "absent", "b"][..], &at].concat())
        .await;
    assert_eq!(outcome.status, 1, "{outcome:?}");
    assert!(outcome.out.contains("b suspended"), "{outcome:?}");

    // `a` exists; the command still waits for `c`.
    let control_plane = &scene.control_plane;
    let words = [(kubelet::RUN_FOR, "1s")];
    let _short = PodPolicy::annotate_for_kubelets(control_plane, site.name(), &words)
        .await
        .unwrap();
    let file = ["a", "c"].map(|name| site.job(name, 1, 1).to_string());
    let file = file.join("\n---\n");
    let submit = ["submit", "-f", "-", "--wait", "--timeout", "90s"];
    let outcome = scene
        .run_with_input(&[&submit[..], &at].concat(), &file)
        .await;
    assert_eq!(outcome.status, 1, "{outcome:?}");
    assert!(outcome.err.contains("\"a\" already exists"), "{outcome:?}");
    assert!(outcome.out.trim_end().ends_with("Complete"), "{outcome:?}");
}

/// A 403 of RBAC is a missing right. A 403 of a webhook is not.
#[tokio::test]
async fn submit_names_the_missing_right() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-unable", 1).await;
    let job = site.job("j", 1, 1).to_string();
    let submit = ["submit", "-f", "-", "-n", site.name()];
    // The impersonated requests show that the ServiceAccount exists.
    scene
        .run_as_viewer(&site, &["queue", "-n", site.name()])
        .await;
    let viewer = format!("--as=system:serviceaccount:{}:viewer", site.name());
    let denied = scene
        .run_with_input(&[&submit[..], &[&viewer]].concat(), &job)
        .await;
    assert_eq!(denied.status, 2, "{denied:?}");
    for words in ["the right to do so is missing", "create trainingjobs"] {
        assert!(denied.err.contains(words), "{words}: {denied:?}");
    }
}

fn job_yaml(job: &Value) -> String {
    job.to_string()
}

#[tokio::test]
async fn submit_waits_for_the_job_and_prints_its_progress() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-submit", 1).await;
    let submit = ["submit", "-f", "-", "-n", site.name()];
    let waited = [&submit[..], &["--wait", "--timeout", "90s"]].concat();
    let control_plane = &scene.control_plane;
    let words = [(kubelet::RUN_FOR, "2s")];
    let _short = PodPolicy::annotate_for_kubelets(control_plane, site.name(), &words)
        .await
        .unwrap();
    let good = scene
        .run_with_input(&waited, &job_yaml(&site.job("good", 2, 1)))
        .await;
    assert_eq!(good.status, 0, "{good:?}");
    assert!(
        good.out
            .starts_with("trainingjob.trellis.dev/good submitted\n"),
        "{good:?}"
    );
    assert!(good.line_with("Running").contains("2/2 pods"), "{good:?}");
    assert!(good.out.trim_end().ends_with("Complete"), "{good:?}");
    let twice = scene
        .run_with_input(&submit, &job_yaml(&site.job("good", 2, 1)))
        .await;
    assert_eq!(twice.status, 1);
    assert!(twice.err.contains("already exists"), "{twice:?}");
    let mut refused = site.job("refused", 1, 1);
    refused["spec"]["queueName"] = json!("no-such-queue");
    let dry = [&submit[..], &["--dry-run=server"]].concat();
    let dry = scene.run_with_input(&dry, &job_yaml(&refused)).await;
    assert!(dry.out.contains("(dry run)"), "{dry:?}");
    assert!(
        site.api::<TrainingJob>()
            .get_opt("refused")
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn submit_exits_with_the_error_of_a_failed_job() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-fails", 1).await;
    let words = [
        (kubelet::RUN_FOR, "1s"),
        (kubelet::EXIT, "3"),
        (kubelet::TERMINATION_MESSAGE, "out of data"),
    ];
    let control_plane = &scene.control_plane;
    let _fail = PodPolicy::annotate_for_kubelets(control_plane, site.name(), &words)
        .await
        .unwrap();
    let mut job = site.job("bad", 1, 1);
    job["spec"]["restart"] = json!({"limit": 0});
    let arguments = [
        "submit",
        "-f",
        "-",
        "-n",
        site.name(),
        "--wait",
        "--timeout",
        "90s",
    ];
    let bad = scene.run_with_input(&arguments, &job_yaml(&job)).await;
    assert_eq!(bad.status, 1, "{bad:?}");
    let failure = bad.line_with("Failure");
    assert!(
        failure.contains("with exit code 3: out of data"),
        "{failure}"
    );
    let status = scene
        .run_trellis(&["status", "bad", "-n", site.name()])
        .await;
    assert!(status.out.contains("out of data"), "{status:?}");
}

#[tokio::test]
async fn submit_reports_all_file_errors_and_creates_nothing() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-wrong", 0).await;
    let good = site.job("good", 1, 1);
    let mut bad = site.job("bad", 0, 1);
    bad["spec"]["taskGroups"][0]["replica"] = json!(1);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
    let file = [&good, &bad, &pod].map(Value::to_string).join("\n---\n");
    let output = scene
        .run_with_input(&["submit", "-f", "-", "-n", site.name()], &file)
        .await;
    assert_eq!(output.status, 2, "{output:?}");
    assert!(output.out.is_empty());
    for words in ["spec.taskGroups[0].replica", "kubectl apply -f"] {
        assert!(output.err.contains(words), "{words}: {output:?}");
    }
    assert!(
        site.api::<TrainingJob>()
            .get_opt("good")
            .await
            .unwrap()
            .is_none()
    );
    let none = scene
        .run_trellis(&["submit", "-f", "/no/such/file.yaml"])
        .await;
    assert_eq!(none.status, 2);
    assert!(none.err.contains("cannot be read"), "{none:?}");
}
