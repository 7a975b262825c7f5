//! Histories with one fault. The rule about it must report each.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::story::{Kind, Plot, Story, Write, any_plot, lease, set_phase};
use crate::Rule;

/// Chooses one of the writes for which `matches` is true.
fn choose(story: &Story, index: Index, matches: impl Fn(&Write) -> bool) -> usize {
    let places = story.find(matches);
    places[index.index(places.len())]
}

fn phase(write: &Write) -> &Value {
    &write.object["status"]["phase"]
}

fn name(write: &Write) -> &Value {
    &write.object["metadata"]["name"]
}

fn is_created(write: &Write) -> bool {
    write.kind == Kind::Pod
        && phase(write) == "Running"
        && write.object["metadata"]["deletionTimestamp"].is_null()
        && !write.is_deletion
}

/// The first write of a pod of a plan that is carried out.
fn is_created_for_good(write: &Write) -> bool {
    is_created(write) && plan(write) != "rolled-back"
}

fn plan(write: &Write) -> &Value {
    &write.object["metadata"]["annotations"]["trellis.dev/plan"]
}

fn is_placed(write: &Write) -> bool {
    write.kind == Kind::Group && phase(write) == "Placed"
}

/// Gives the gang the time after its placement that a rule allows.
fn run_for_long(story: &mut Story) {
    let end = story.find(|write| write.kind == Kind::Pod && phase(write) == "Succeeded")[0];
    for write in &mut story.writes[end..] {
        write.second += 1000;
    }
}

fn plot(pods: usize) -> Plot {
    Plot {
        pods,
        is_rolled_back_first: false,
        has_second_attempt: false,
        stop_seconds: 5,
    }
}

proptest! {
    #[test]
    fn gang_without_one_of_its_pods_is_torn(mut plot in any_plot(), index in any::<Index>()) {
        plot.has_second_attempt = false;
        let mut story = Story::new(plot);
        let place = choose(&story, index, is_created_for_good);
        let missing = story.writes[place].object["metadata"]["uid"].clone();
        story.writes.retain(|write| write.object["metadata"]["uid"] != missing);
        run_for_long(&mut story);
        prop_assert!(story.broken_rules().contains(&Rule::Torn), "{:?}", story.broken_rules());
    }

    #[test]
    fn gang_of_which_one_pod_vanishes_is_torn(mut plot in any_plot(), index in any::<Index>()) {
        plot.has_second_attempt = false;
        let mut story = Story::new(plot);
        let place = choose(&story, index, is_created_for_good);
        let mut gone = story.writes[place].clone();
        let missing = gone.object["metadata"]["uid"].clone();
        gone.is_deletion = true;
        let placed = story.find(is_placed)[0];
        gone.second = story.writes[placed].second;
        let mut place = 0;
        story.writes.retain(|write| {
            place += 1;
            place <= placed || write.object["metadata"]["uid"] != missing
        });
        story.writes.insert(placed + 1, gone);
        run_for_long(&mut story);
        prop_assert!(story.broken_rules().contains(&Rule::Torn), "{:?}", story.broken_rules());
    }

    #[test]
    fn pod_that_runs_on_beside_the_next_attempt_is_reported(
        mut plot in any_plot(),
        index in any::<Index>(),
    ) {
        plot.has_second_attempt = true;
        let mut story = Story::new(plot);
        // The pod with index 0 has failed, so it may stay.
        let place = choose(&story, index, |write| {
            is_created(write) && plan(write) == "plan-1" && name(write) != "j-worker-0"
        });
        let kept = story.writes[place].object["metadata"]["uid"].clone();
        let mut at = 0;
        story.writes.retain(|write| {
            at += 1;
            at - 1 <= place || write.object["metadata"]["uid"] != kept
        });
        for write in &mut story.writes[place..] {
            if plan(write) == "plan-2" {
                let later = format!("{}-later", name(write).as_str().unwrap());
                write.object["metadata"]["name"] = json!(later);
            }
        }
        let broken = story.broken_rules();
        prop_assert!(broken.contains(&Rule::TwoAttempts), "{:?}", broken);
    }

    #[test]
    fn pods_beyond_the_capacity_of_their_node_are_reported(
        plot in any_plot(),
        index in any::<Index>(),
    ) {
        let mut story = Story::new(plot);
        let moved = choose(&story, index, |write| {
            is_created_for_good(write) && name(write) != "j-worker-0"
        });
        story.writes[moved].object["spec"]["nodeName"] = json!("node-0");
        let broken = story.broken_rules();
        prop_assert!(broken.contains(&Rule::OverCapacity), "{:?}", broken);
    }

    #[test]
    fn gang_beyond_the_quota_of_its_queue_is_reported(plot in any_plot()) {
        let mut story = Story::new(plot);
        let queue = story.find(|write| write.kind == Kind::Queue)[0];
        let less = json!(8 * plot.pods - 1);
        story.writes[queue].object["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]
            ["nominalQuota"] = less;
        let broken = story.broken_rules();
        prop_assert!(broken.contains(&Rule::OverQuota), "{:?}", broken);
    }

    #[test]
    fn pod_of_an_unknown_plan_is_reported(plot in any_plot(), index in any::<Index>()) {
        let mut story = Story::new(plot);
        let place = choose(&story, index, is_created_for_good);
        story.writes[place].object["metadata"]["annotations"]["trellis.dev/plan"] = json!("foreign");
        let broken = story.broken_rules();
        prop_assert!(broken.contains(&Rule::UnplannedPod), "{:?}", broken);
    }

    #[test]
    fn journal_write_after_the_term_of_its_leader_is_reported(
        plot in any_plot(),
        index in any::<Index>(),
    ) {
        let mut story = Story::new(plot);
        let place = choose(&story, index, is_placed);
        let mut takeover = story.writes[place].clone();
        takeover.kind = Kind::Lease;
        takeover.object = lease(1);
        let write = |time: &str| json!([
            {"manager": "trellis-scheduler", "operation": "Update", "subresource": "status",
             "time": time},
        ]);
        story.writes[place - 1].object["metadata"]["managedFields"] = write("2026-01-01T00:00:00Z");
        story.writes[place].object["metadata"]["managedFields"] = write("2026-01-01T00:00:01Z");
        story.writes.insert(place, takeover);
        let broken = story.broken_rules();
        prop_assert!(broken.contains(&Rule::StaleJournal), "{:?}", broken);
    }

    #[test]
    fn journal_whose_epoch_falls_is_reported(plot in any_plot(), index in any::<Index>()) {
        let mut story = Story::new(plot);
        let place = choose(&story, index, is_placed);
        story.writes[place].object["status"]["epoch"] = json!(0);
        let broken = story.broken_rules();
        prop_assert!(broken.contains(&Rule::StaleJournal), "{:?}", broken);
    }

    #[test]
    fn status_that_falls_back_is_reported(
        mut plot in any_plot(),
        field in prop::sample::select(vec!["observedGeneration", "attempt", "phase"]),
    ) {
        plot.has_second_attempt = true;
        let mut story = Story::new(plot);
        let complete = story.find(|write| write.kind == Kind::Job && phase(write) == "Complete")[0];
        let mut later = story.writes[complete].clone();
        match field {
            "phase" => set_phase(&mut later.object, "Queued", 2),
            field => later.object["status"][field] = json!(0),
        }
        story.writes.insert(complete + 1, later);
        let broken = story.broken_rules();
        prop_assert!(broken.contains(&Rule::Backwards), "{:?}", broken);
    }

    #[test]
    fn status_that_says_queued_while_the_gang_is_placed_is_reported(plot in any_plot()) {
        let mut story = Story::new(plot);
        story.writes.retain(|write| write.kind != Kind::Job || phase(write) != "Running");
        let broken = story.broken_rules();
        prop_assert!(broken.contains(&Rule::UntrueStatus), "{:?}", broken);
    }

    #[test]
    fn condition_that_contradicts_the_phase_is_reported(plot in any_plot()) {
        let mut story = Story::new(plot);
        for write in &mut story.writes {
            if write.kind == Kind::Job && phase(write) == "Running" {
                write.object["status"]["conditions"][0]["status"] = json!("False");
            }
        }
        let broken = story.broken_rules();
        prop_assert!(broken.contains(&Rule::UntrueStatus), "{:?}", broken);
    }

    #[test]
    fn plan_that_is_never_closed_is_reported(mut plot in any_plot()) {
        plot.has_second_attempt = false;
        let mut story = Story::new(plot);
        story.writes.retain(|write| !is_placed(write));
        run_for_long(&mut story);
        let broken = story.broken_rules();
        prop_assert!(broken.contains(&Rule::StuckPlan), "{:?}", broken);
    }

    #[test]
    fn pod_that_outlives_its_job_is_reported(plot in any_plot(), index in any::<Index>()) {
        let mut story = Story::new(plot);
        let place = choose(&story, index, |write| {
            write.kind == Kind::Pod && write.is_deletion && phase(write) == "Succeeded"
        });
        story.writes.remove(place);
        let broken = story.broken_rules();
        prop_assert!(broken.contains(&Rule::Leak), "{:?}", broken);
    }
}

#[test]
fn finding_names_rule_object_time_and_revision() {
    let mut story = Story::new(plot(2));
    let placed = story.find(is_placed)[0];
    story.writes[placed].object["status"]["epoch"] = json!(0);
    let findings = story.judge(crate::Health::Healthy);
    assert_eq!(
        findings[0].to_string(),
        "stale-journal: PodGroup ns/j: its epoch fell from 1 to 0 (since 1970-01-01T00:01:04Z, revision 22)"
    );
}
