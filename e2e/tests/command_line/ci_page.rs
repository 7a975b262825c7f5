//! Runs the pipeline and the program of docs/ci-and-python.md.

use std::path::Path;

use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;
use trellis_e2e::admission::PodPolicy;
use trellis_e2e::kubelet;
use trellis_e2e::site::TestSite;

use super::fixtures::{
    CommandLineFixture, CommandOutput, run_command, shared_fixture, trellis_program,
};

/// Returns the first block of a language below a heading of the page.
fn page_block(heading: &str, language: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/ci-and-python.md");
    let page = std::fs::read_to_string(page).unwrap();
    let below = page.split_once(&format!("## {heading}\n")).unwrap().1;
    let block = below.split_once(&format!("```{language}\n")).unwrap().1;
    block.split_once("```").unwrap().0.to_owned()
}

/// Creates a folder with `eval.yaml`, and a PATH with `trellis`.
fn pipeline_folder(site: &TestSite, job: &serde_json::Value) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut job = job.clone();
    job["metadata"] = json!({"generateName": "eval-", "namespace": site.name()});
    std::fs::write(folder.path().join("eval.yaml"), job.to_string()).unwrap();
    std::os::unix::fs::symlink(trellis_program(), folder.path().join("trellis")).unwrap();
    folder
}

async fn run_pipeline(
    scene: &CommandLineFixture,
    folder: &Path,
    command: &[&str],
) -> CommandOutput {
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let (first, rest) = command.split_first().unwrap();
    let mut command = Command::new(first);
    command.args(rest).current_dir(folder).env("PATH", path);
    run_command(command, &scene.control_plane.kubeconfig(), "").await
}

#[tokio::test]
async fn pipeline_of_docs_succeeds_with_its_job() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-ci", 2).await;
    let words = [(kubelet::RUN_FOR, "1s")];
    let policy = PodPolicy::annotate_for_kubelets(&scene.control_plane, site.name(), &words);
    let short = policy.await.unwrap();
    let job = site.job("x", 1, 1);
    let folder = pipeline_folder(&site, &job);
    // The page uses the namespace of the context.
    let script = page_block("A pipeline", "sh").replace(
        "trellis logs ",
        &format!("trellis logs -n {} ", site.name()),
    );
    for _ in 0..2 {
        let run = run_pipeline(scene, folder.path(), &["sh", "-c", &script]).await;
        assert_eq!((run.status, run.out.as_str()), (0, ""), "{run:?}");
        assert!(run.err.contains("Complete"), "{run:?}");
    }
    let name = std::fs::read_to_string(folder.path().join("job")).unwrap();
    assert!(name.starts_with("trainingjob.trellis.dev/eval-"), "{name}");

    let python = page_block("Python", "python");
    let python = format!(
        "{python}\njob, complete = train(\"eval.yaml\")\nprint(job[\"metadata\"][\"name\"], complete)\n"
    );
    let run = run_pipeline(scene, folder.path(), &["python3", "-c", &python]).await;
    assert!(
        run.out.starts_with("eval-") && run.out.ends_with("True\n"),
        "{run:?}"
    );

    short.delete().await.unwrap();
    let mut bad = job;
    bad["spec"]["image"] = json!("no field");
    std::fs::write(folder.path().join("eval.yaml"), bad.to_string()).unwrap();
    let run = run_pipeline(scene, folder.path(), &["sh", "-c", &script]).await;
    assert_eq!(run.status, 2, "{run:?}");
}

#[tokio::test]
async fn pipeline_of_docs_fails_with_its_job() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-ci-fails", 1).await;
    let words = [(kubelet::RUN_FOR, "1s"), (kubelet::EXIT, "3")];
    let policy = PodPolicy::annotate_for_kubelets(&scene.control_plane, site.name(), &words);
    let _fails = policy.await.unwrap();
    let mut job = site.job("x", 1, 1);
    job["spec"]["restart"] = json!({"limit": 0});
    let folder = pipeline_folder(&site, &job);
    let script = page_block("A pipeline", "sh");
    let done = run_pipeline(scene, folder.path(), &["sh", "-c", &script]).await;
    assert_eq!(done.status, 1, "{done:?}");
    let python = page_block("Python", "python");
    let python = format!("{python}\nprint(train(\"eval.yaml\")[1])\n");
    let done = run_pipeline(scene, folder.path(), &["python3", "-c", &python]).await;
    assert_eq!(done.out, "False\n", "{done:?}");
}
