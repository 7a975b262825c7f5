//! `trellis what-if`.

use anyhow::ensure;
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::fixtures::shared_fixture;

#[tokio::test]
async fn what_if_shows_the_jobs_that_changes_move() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-what-if", 1).await;
    let mut job = site.job("runs", 1, 8);
    job["spec"]["deadlines"] = json!({"activeSeconds": 3600});
    site.create(job).await.unwrap();
    site.wait_for_phase("runs", JobPhase::Running).await;
    site.create(site.job("waits", 1, 8)).await.unwrap();
    site.wait_for_phase("waits", JobPhase::Queued).await;
    let node = site.nodes().names()[0].clone();
    let (runs, waits) = (
        format!("{}/runs", site.name()),
        format!("{}/waits", site.name()),
    );

    let more = format!("{node}=1");
    let output = eventually(SOON, || async {
        let output = scene.run_trellis(&["what-if", "--add-nodes", &more]).await;
        ensure!(
            output.status == 0 && output.out.contains(&waits),
            "{output:?}"
        );
        Ok(output)
    });
    let output = output.await.unwrap();
    let line = output.line_with(&waits);
    assert!(line.contains("earlier") && line.contains("now"), "{line}");
    assert!(output.out.contains("1 job starts earlier"), "{output:?}");

    let sooner = ["what-if", "--runtime", "runs=10m", "-n", site.name()];
    let sooner = scene.run_trellis(&sooner).await;
    assert!(sooner.line_with(&waits).contains("in 10m"), "{sooner:?}");
    let without = ["what-if", "--remove-job", &runs, "-o", "json"];
    let without = scene.run_trellis(&without).await.json();
    assert_eq!(without["kind"], "Forecast");
    let effects = without["status"]["jobs"].as_array().unwrap().iter();
    let effects: Vec<_> = effects
        .filter(|job| job["namespace"] == site.name())
        .collect();
    assert_eq!(effects.len(), 2, "{without}");

    // The object that it prints is a question again.
    let again = scene
        .run_with_input(&["what-if", "-f", "-"], &without.to_string())
        .await;
    assert!(again.line_with(&runs).contains("removed"), "{again:?}");

    for (arguments, words) in [
        (&["what-if"][..], "no change is given"),
        (
            &["what-if", "--remove-node", "none"],
            "no node is named \"none\"",
        ),
        (&["what-if", "--add-nodes", "none"], "write NAME=VALUE"),
    ] {
        let refused = scene.run_trellis(arguments).await;
        assert_eq!(refused.status, 2, "{refused:?}");
        assert!(refused.err.contains(words), "{refused:?}");
    }
    let denied = scene
        .run_as_viewer(&site, &["what-if", "--remove-node", &node])
        .await;
    assert_eq!(denied.status, 2, "{denied:?}");
    assert!(denied.err.contains("trellis-platform"), "{denied:?}");
}
