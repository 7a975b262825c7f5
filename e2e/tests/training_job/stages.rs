//! Jobs of stages: a stage that waits for another to be Complete is placed once it is.

use std::collections::BTreeSet;

use kube::ResourceExt;
use serde_json::{Value, json};
use trellis_api::PodGroup;
use trellis_api::job::JobPhase;
use trellis_e2e::jobs::{message, reason, uids};
use trellis_e2e::site::Site;

use super::site;

/// Two pods of one GPU prepare, then two of four train.
fn staged(site: &Site) -> Value {
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

/// Its stage, how many there are, and the attempt.
fn at(job: &trellis_api::TrainingJob) -> (i64, i64, i64) {
    let status = job.status.as_ref().unwrap();
    let stage = status.stage.as_ref().unwrap();
    (stage.number, stage.of, status.attempt.unwrap())
}

async fn members(site: &Site) -> i64 {
    let group: PodGroup = site.api().get("j").await.unwrap();
    group.spec.min_member
}

#[tokio::test]
async fn a_stage_is_placed_once_the_one_before_is_complete() {
    let site = site("stages", 1).await;
    // The free GPUs are enough for the first stage, and not for the second.
    site.submit("other", 1, 4).await;
    site.reaches("other", JobPhase::Running).await;
    site.create(staged(&site)).await.unwrap();
    let first = site.reaches("j", JobPhase::Running).await;
    assert_eq!(at(&first), (1, 2, 1));
    assert_eq!(first.status.as_ref().unwrap().gpus, Some(2));
    assert_eq!(members(&site).await, 2);
    let prepare = site.whole("j", 2).await;
    let env = prepare[0].spec.as_ref().unwrap().containers[0].env.clone();
    let world = env
        .unwrap()
        .into_iter()
        .find(|e| e.name == "TRELLIS_WORLD_SIZE");
    assert_eq!(world.unwrap().value.as_deref(), Some("2"));

    for pod in &prepare {
        site.exit(&pod.name_any(), "0").await;
    }
    let waits = site
        .becomes("j", |s| {
            s.stage.as_ref().is_some_and(|s| s.number == 2)
                && s.phase == Some(JobPhase::Queued)
                && s.reason
                    .is_some_and(|r| r.as_str() == "InsufficientCapacity")
        })
        .await;
    assert_eq!(at(&waits), (2, 2, 2));
    assert!(
        message(&waits).contains("nvidia.com/gpu"),
        "{}",
        message(&waits)
    );
    // The pods of the finished stage remain, with their logs.
    assert_eq!(uids(&site.pods("j").await), uids(&prepare));
    site.delete::<trellis_api::TrainingJob>("other").await;
    let second = site
        .becomes("j", |s| s.phase == Some(JobPhase::Running))
        .await;
    let status = second.status.as_ref().unwrap();
    assert_eq!(
        (status.gpus, status.ready.as_deref()),
        (Some(8), Some("2/2"))
    );
    assert_eq!((status.restarts, status.disruptions), (Some(0), Some(0)));
    let pods = site.pods("j").await;
    let names: BTreeSet<_> = pods.iter().map(ResourceExt::name_any).collect();
    let expected = ["j-prepare-0", "j-prepare-1", "j-train-0", "j-train-1"];
    assert_eq!(names, expected.map(str::to_owned).into());

    // A failure restarts its own stage, and no pods of the stage before.
    site.exit("j-train-1", "1").await;
    let again = site.runs_again("j", 3).await;
    assert_eq!(at(&again), (2, 2, 3));
    assert!(uids(&site.pods("j").await).is_superset(&uids(&prepare)));
    for pod in ["j-train-0", "j-train-1"] {
        site.exit(pod, "0").await;
    }
    let done = site.reaches("j", JobPhase::Complete).await;
    assert_eq!(at(&done), (2, 2, 3));
}

#[tokio::test]
async fn what_a_later_stage_may_not_is_told_before_the_first() {
    let site = site("stages-no", 1).await;
    let mut job = staged(&site);
    job["spec"]["taskGroups"][1]["podTemplate"] = json!({"spec": {"hostNetwork": true}});
    site.create(job).await.unwrap();
    let refused = site.reaches("j", JobPhase::Refused).await;
    let says = message(&refused);
    assert!(
        says.starts_with("stage 2 of 2: ") && says.contains("hostNetwork"),
        "{says}"
    );

    // The operator also refuses specs that no rule of the CRD forbids.
    let mut job = staged(&site);
    job["metadata"]["name"] = json!("alone");
    let groups = job["spec"]["taskGroups"].as_array_mut().unwrap();
    let mut more = groups[0].clone();
    more["name"] = json!("beside");
    groups.insert(1, more);
    site.create(job).await.unwrap();
    let refused = site.reaches("alone", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "InvalidSpec");
    let says = message(&refused);
    assert!(says.contains("must wait so for all"), "{says}");
}
