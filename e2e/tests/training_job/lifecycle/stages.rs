//! Jobs with stages: a stage is placed when the stages that it depends on are Complete.

use std::collections::BTreeSet;

use kube::ResourceExt;
use serde_json::{Value, json};
use trellis_api::PodGroup;
use trellis_api::job::JobPhase;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{message, pod_uids, reason};

use crate::create_site;

/// Returns a job in which two pods with one GPU prepare, and then two pods with four GPUs train.
fn staged_job(site: &TestSite) -> Value {
    let mut job = site.job("j", 2, 1);
    let groups = job["spec"]["taskGroups"].as_array_mut().unwrap();
    let mut train = groups[0].clone();
    groups[0]["name"] = json!("prepare");
    train["name"] = json!("train");
    train["gpus"] = json!(4);
    train["dependsOn"] = json!([{"group": "prepare", "status": "Complete"}]);
    groups.push(train);
    job
}

/// Returns the stage of a job, its number of stages, and the attempt.
fn stage_and_attempt(job: &trellis_api::TrainingJob) -> (i64, i64, i64) {
    let status = job.status.as_ref().unwrap();
    let stage = status.stage.as_ref().unwrap();
    (stage.number, stage.of, status.attempt.unwrap())
}

async fn min_member(site: &TestSite) -> i64 {
    let group: PodGroup = site.api().get("j").await.unwrap();
    group.spec.min_member
}

#[tokio::test]
async fn stage_is_placed_after_its_predecessor_completes() {
    let site = create_site("stages", 1).await;
    // The free GPUs are enough for the first stage, and not for the second.
    site.submit("other", 1, 4).await;
    site.wait_for_phase("other", JobPhase::Running).await;
    site.create(staged_job(&site)).await.unwrap();
    let first = site.wait_for_phase("j", JobPhase::Running).await;
    assert_eq!(stage_and_attempt(&first), (1, 2, 1));
    assert_eq!(first.status.as_ref().unwrap().gpus, Some(2));
    assert_eq!(min_member(&site).await, 2);
    let prepare = site.wait_for_whole_gang("j", 2).await;
    let env = prepare[0].spec.as_ref().unwrap().containers[0].env.clone();
    let world = env
        .unwrap()
        .into_iter()
        .find(|e| e.name == "TRELLIS_WORLD_SIZE");
    assert_eq!(world.unwrap().value.as_deref(), Some("2"));

    for pod in &prepare {
        site.end_pod(&pod.name_any(), "0").await;
    }
    let pending = site
        .wait_for_status("j", |s| {
            s.stage.as_ref().is_some_and(|s| s.number == 2)
                && s.phase == Some(JobPhase::Queued)
                && s.reason
                    .is_some_and(|r| r.as_str() == "InsufficientCapacity")
        })
        .await;
    assert_eq!(stage_and_attempt(&pending), (2, 2, 2));
    assert!(
        message(&pending).contains("nvidia.com/gpu"),
        "{}",
        message(&pending)
    );
    // The pods of the finished stage remain, with their logs.
    assert_eq!(pod_uids(&site.list_pods("j").await), pod_uids(&prepare));
    site.delete::<trellis_api::TrainingJob>("other").await;
    let second = site
        .wait_for_status("j", |s| s.phase == Some(JobPhase::Running))
        .await;
    let status = second.status.as_ref().unwrap();
    assert_eq!(
        (status.gpus, status.ready.as_deref()),
        (Some(8), Some("2/2"))
    );
    assert_eq!((status.restarts, status.disruptions), (Some(0), Some(0)));
    let pods = site.list_pods("j").await;
    let names: BTreeSet<_> = pods.iter().map(ResourceExt::name_any).collect();
    let expected = ["j-prepare-0", "j-prepare-1", "j-train-0", "j-train-1"];
    assert_eq!(names, expected.map(str::to_owned).into());

    // A failure restarts only its own stage, and no pods of earlier stages.
    site.end_pod("j-train-1", "1").await;
    let restarted = site.wait_for_running_attempt("j", 3).await;
    assert_eq!(stage_and_attempt(&restarted), (2, 2, 3));
    assert!(pod_uids(&site.list_pods("j").await).is_superset(&pod_uids(&prepare)));
    for pod in ["j-train-0", "j-train-1"] {
        site.end_pod(pod, "0").await;
    }
    let complete = site.wait_for_phase("j", JobPhase::Complete).await;
    assert_eq!(stage_and_attempt(&complete), (2, 2, 3));
}

#[tokio::test]
async fn job_is_refused_for_a_later_stage_before_the_first_stage() {
    let site = create_site("stages-no", 1).await;
    let mut job = staged_job(&site);
    job["spec"]["taskGroups"][1]["podTemplate"] = json!({"spec": {"hostNetwork": true}});
    site.create(job).await.unwrap();
    let refused = site.wait_for_phase("j", JobPhase::Refused).await;
    let status_message = message(&refused);
    assert!(
        status_message.starts_with("stage 2 of 2: ") && status_message.contains("hostNetwork"),
        "{status_message}"
    );

    // The operator also refuses specs that no rule of the CRD forbids.
    let mut job = staged_job(&site);
    job["metadata"]["name"] = json!("alone");
    let groups = job["spec"]["taskGroups"].as_array_mut().unwrap();
    let mut extra_group = groups[0].clone();
    extra_group["name"] = json!("beside");
    groups.insert(1, extra_group);
    site.create(job).await.unwrap();
    let refused = site.wait_for_phase("alone", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "InvalidSpec");
    let status_message = message(&refused);
    assert!(
        status_message.contains("must wait so for all"),
        "{status_message}"
    );
}
