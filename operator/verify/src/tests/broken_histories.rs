//! Histories with one fault. The rule about it must report each.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::gang_history::{
    GangHistory, HistoryOptions, JOB, Kind, Write, any_options, any_options_of_one_attempt,
    set_phase, waiting_gang, write_messages,
};
use super::write_filters::{
    choose, is_created, is_created_for_good, is_placed, name, phase, plan, run_for_long,
};
use crate::Rule;

/// Returns a history that ends while the job waits to run again, and all its pods are gone.
fn restart_without_pods(mut options: HistoryOptions) -> GangHistory {
    options.has_second_attempt = true;
    let mut history = GangHistory::new(options);
    let is_in_phase = |write: &Write, name| write.kind == Kind::Job && phase(write) == name;
    let restarting = history.find(|write| is_in_phase(write, "Restarting"))[0];
    let later = &history.writes[restarting..];
    let queued = later.iter().position(|write| is_in_phase(write, "Queued"));
    history.writes.truncate(restarting + queued.unwrap());
    history
}

proptest! {
    #[test]
    fn gang_without_one_of_its_pods_is_torn(
        mut options in any_options_of_one_attempt(),
        index in any::<Index>(),
    ) {
        options.restarts_pod = false;
        let mut history = GangHistory::new(options);
        let place = choose(&history, index, is_created_for_good);
        let missing = history.writes[place].object["metadata"]["uid"].clone();
        history.writes.retain(|write| write.object["metadata"]["uid"] != missing);
        run_for_long(&mut history);
        prop_assert!(history.broken_rules().contains(&Rule::Torn), "{:?}", history.broken_rules());
    }

    #[test]
    fn gang_of_which_one_pod_vanishes_is_torn(
        mut options in any_options_of_one_attempt(),
        index in any::<Index>(),
    ) {
        options.restarts_pod = false;
        let mut history = GangHistory::new(options);
        let place = choose(&history, index, is_created_for_good);
        let mut gone = history.writes[place].clone();
        let missing = gone.object["metadata"]["uid"].clone();
        gone.is_deletion = true;
        let placed = history.find(is_placed)[0];
        gone.second = history.writes[placed].second;
        let mut place = 0;
        history.writes.retain(|write| {
            place += 1;
            place <= placed || write.object["metadata"]["uid"] != missing
        });
        history.writes.insert(placed + 1, gone);
        run_for_long(&mut history);
        prop_assert!(history.broken_rules().contains(&Rule::Torn), "{:?}", history.broken_rules());
    }

    #[test]
    fn pod_that_runs_on_beside_the_next_attempt_is_reported(
        mut options in any_options_of_one_attempt(),
        index in any::<Index>(),
    ) {
        options.has_second_attempt = true;
        let mut history = GangHistory::new(options);
        // The pod with index 0 has failed, so it may stay.
        let place = choose(&history, index, |write| {
            is_created(write) && plan(write) == "plan-1" && name(write) != "j-worker-0"
        });
        let kept = history.writes[place].object["metadata"]["uid"].clone();
        let mut at = 0;
        history.writes.retain(|write| {
            at += 1;
            at - 1 <= place || write.object["metadata"]["uid"] != kept
        });
        for write in &mut history.writes[place..] {
            if plan(write) == "plan-2" {
                let later = format!("{}-later", name(write).as_str().unwrap());
                write.object["metadata"]["name"] = json!(later);
            }
        }
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::TwoAttempts), "{:?}", broken);
    }

    #[test]
    fn pods_beyond_the_capacity_of_their_node_are_reported(
        options in any_options(),
        index in any::<Index>(),
    ) {
        let mut history = GangHistory::new(options);
        let moved = choose(&history, index, |write| {
            is_created_for_good(write) && write.object["spec"]["nodeName"] != "node-0"
        });
        history.writes[moved].object["spec"]["nodeName"] = json!("node-0");
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::OverCapacity), "{:?}", broken);
    }

    /// The watch of pods is late: the journal had the plan when the pod was created.
    #[test]
    fn pod_older_than_the_journal_takes_room(options in any_options(), index in any::<Index>()) {
        let mut history = GangHistory::new(options);
        let place = choose(&history, index, is_created_for_good);
        history.insert_pod_of_dropped_plan(place, 1);
        for journal in history.find(|write| write.kind == Kind::Group) {
            history.writes[journal].object["metadata"]["resourceVersion"] = json!("1000000");
        }
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::OverCapacity), "{:?}", broken);
    }

    #[test]
    fn gang_beyond_the_quota_of_its_queue_is_reported(options in any_options()) {
        let mut history = GangHistory::new(options);
        let queue = history.find(|write| write.kind == Kind::Queue)[0];
        let less = json!(8 * options.pods - 1);
        history.writes[queue].object["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]
            ["nominalQuota"] = less;
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::OverQuota), "{:?}", broken);
    }

    #[test]
    fn pod_of_an_unknown_plan_is_reported(options in any_options(), index in any::<Index>()) {
        let mut history = GangHistory::new(options);
        let place = choose(&history, index, is_created_for_good);
        history.writes[place].object["metadata"]["annotations"]["trellis.dev/plan"] = json!("foreign");
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::UnplannedPod), "{:?}", broken);
    }

    #[test]
    fn status_that_falls_back_is_reported(
        options in any_options(),
        field in prop::sample::select(vec!["observedGeneration", "attempt", "phase"]),
        is_lost in any::<bool>(),
    ) {
        let mut history = GangHistory::new(options);
        let complete = history.find(|write| write.kind == Kind::Job && phase(write) == "Complete")[0];
        let mut later = history.writes[complete].clone();
        match field {
            "phase" if is_lost => later.object["status"]["phase"] = Value::Null,
            "phase" => set_phase(&mut later.object, "Queued", 2),
            field if is_lost => later.object["status"][field] = Value::Null,
            field => later.object["status"][field] = json!(0),
        }
        history.writes.insert(complete + 1, later);
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::Backwards), "{:?}", broken);
    }

    #[test]
    fn status_that_says_queued_while_the_gang_is_placed_is_reported(options in any_options()) {
        let mut history = GangHistory::new(options);
        history.writes.retain(|write| write.kind != Kind::Job || phase(write) != "Running");
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::UntrueStatus), "{:?}", broken);
    }

    #[test]
    fn status_that_waits_for_pods_that_are_gone_is_reported(options in any_options()) {
        let broken = restart_without_pods(options).broken_rules();
        prop_assert!(broken.contains(&Rule::UntrueStatus), "{:?}", broken);
    }

    /// A user has created a pod that the job controls, without Trellis's labels.
    #[test]
    fn status_that_waits_for_a_pod_of_a_user_is_not_reported(options in any_options()) {
        let mut history = restart_without_pods(options);
        history.insert(0, [(Kind::Pod, json!({
            "metadata": {
                "name": "of-a-user", "namespace": "ns", "uid": "uid-of-a-user",
                "ownerReferences": [{
                    "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob", "name": "j",
                    "uid": JOB, "controller": true,
                }],
            },
            "spec": {"nodeName": "nowhere", "containers": []},
        }))]);
        let broken = history.broken_rules();
        prop_assert!(!broken.contains(&Rule::UntrueStatus), "{:?}", broken);
    }

    #[test]
    fn condition_that_contradicts_the_phase_is_reported(options in any_options()) {
        let mut history = GangHistory::new(options);
        for write in &mut history.writes {
            if write.kind == Kind::Job && phase(write) == "Running" {
                write.object["status"]["conditions"][0]["status"] = json!("False");
            }
        }
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::UntrueStatus), "{:?}", broken);
    }

    #[test]
    fn pod_that_outlives_its_job_is_reported(options in any_options(), index in any::<Index>()) {
        let mut history = GangHistory::new(options);
        let place = choose(&history, index, |write| {
            write.kind == Kind::Pod && write.is_deletion && phase(write) == "Succeeded"
        });
        history.writes.remove(place);
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::Leak), "{:?}", broken);
    }

    #[test]
    fn pod_that_is_neither_awaited_nor_there_tears_its_gang(
        mut options in any_options_of_one_attempt(),
    ) {
        options.restarts_pod = true;
        let mut history = GangHistory::new(options);
        // The pod that runs again is never created, although the status has stopped awaiting it.
        history.writes.retain(|write| write.object["metadata"]["uid"] != "uid-restarted");
        run_for_long(&mut history);
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::Torn), "{:?}", broken);
    }

    #[test]
    fn pod_that_still_stops_beside_the_next_attempt_is_reported(
        mut options in any_options_of_one_attempt(),
        index in any::<Index>(),
    ) {
        options.has_second_attempt = true;
        let mut history = GangHistory::new(options);
        // The pod with index 0 has failed, so it may stay.
        let place = choose(&history, index, |write| {
            write.kind == Kind::Pod
                && write.is_deletion
                && plan(write) == "plan-1"
                && name(write) != "j-worker-0"
        });
        let mut gone = history.writes.remove(place);
        for write in &mut history.writes[place..] {
            if plan(write) == "plan-2" {
                let later = format!("{}-later", name(write).as_str().unwrap());
                write.object["metadata"]["name"] = json!(later);
            }
        }
        let created = history.find(|write| is_created(write) && plan(write) == "plan-2")[0];
        gone.second = history.writes[created].second;
        history.writes.insert(created + 1, gone);
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::TwoAttempts), "{:?}", broken);
    }

    #[test]
    fn attempt_that_is_placed_twice_is_reported(mut options in any_options_of_one_attempt()) {
        options.has_second_attempt = true;
        let mut history = GangHistory::new(options);
        let journals = history
            .writes
            .iter_mut()
            .filter(|write| write.kind == Kind::Group);
        for plan in journals.filter_map(|write| write.object.pointer_mut("/status/plan")) {
            if plan["hash"] == "plan-2" {
                plan["attempt"] = json!(1);
            }
        }
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::TwoAttempts), "{:?}", broken);
    }

    #[test]
    fn pod_that_an_ended_job_leaves_running_is_reported(
        options in any_options(),
        index in any::<Index>(),
    ) {
        let mut history = GangHistory::new(options);
        let ends = |write: &Write| {
            write.kind == Kind::Pod
                && phase(write) == "Succeeded"
                && name(write).as_str().is_some_and(|name| name.starts_with("j-worker"))
                && !write.is_deletion
        };
        let place = choose(&history, index, ends);
        history.writes.remove(place);
        // The user deletes the job later.
        let deleted = history.find(|write| {
            write.kind == Kind::Job && name(write) == "j" && write.is_deletion
        })[0];
        history.writes.truncate(deleted);
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::Leak), "{:?}", broken);
    }

    #[test]
    fn write_of_the_scheduler_in_a_users_object_is_reported(
        options in any_options(),
        kind in prop::sample::select(vec![Kind::Job, Kind::Queue, Kind::Node]),
    ) {
        let mut history = GangHistory::new(options);
        let place = history.find(|write| write.kind == kind)[0];
        let mut later = history.writes[place].clone();
        later.object["metadata"]["managedFields"] = json!([{
            "manager": "trellis-scheduler", "operation": "Update",
            "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {}},
        }]);
        history.writes.insert(place + 1, later);
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::Foreign), "{:?}", broken);
    }

    #[test]
    fn pod_of_a_job_in_another_namespace_is_reported(options in any_options()) {
        let mut history = GangHistory::new(options);
        let place = history.find(is_created_for_good)[0];
        let mut pod = history.writes[place].clone();
        pod.object["metadata"]["namespace"] = json!("elsewhere");
        pod.object["metadata"]["managedFields"] = json!([{"manager": "trellis-scheduler"}]);
        history.writes.insert(place + 1, pod);
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::Foreign), "{:?}", broken);
    }

    #[test]
    fn status_that_is_written_again_and_again_is_reported(options in any_options()) {
        let mut history = GangHistory::new(options);
        let place = history.find(|write| write.kind == Kind::Job && phase(write) == "Running")[0];
        write_messages(&mut history, place, 9, 6);
        let broken = history.broken_rules();
        prop_assert!(broken.contains(&Rule::Writes), "{:?}", broken);
    }

    #[test]
    fn head_of_the_queue_that_fits_and_waits_is_reported(pods in 2_usize..6) {
        let broken = waiting_gang(pods, |_| {}).broken_rules();
        prop_assert!(broken.contains(&Rule::Progress), "{:?}", broken);
    }
}

#[test]
fn later_job_of_the_same_name_is_reported_again() {
    let mut history = GangHistory::new(HistoryOptions::plain(2));
    let complete = history.find(|write| write.kind == Kind::Job && phase(write) == "Complete")[0];
    let mut writes = Vec::new();
    for uid in ["uid-1", "uid-2"] {
        let mut ended = history.writes[complete].clone();
        ended.object["metadata"]["name"] = json!("again");
        ended.object["metadata"]["uid"] = json!(uid);
        let mut fallen = ended.clone();
        set_phase(&mut fallen.object, "Queued", 0);
        let mut gone = fallen.clone();
        gone.is_deletion = true;
        writes.extend([ended, fallen, gone]);
    }
    history.writes.splice(complete..complete, writes);
    assert_eq!(history.broken_rules(), [Rule::Backwards, Rule::Backwards]);
}

#[test]
fn finding_names_rule_object_time_and_revision() {
    let mut history = GangHistory::new(HistoryOptions::plain(2));
    let placed = history.find(is_placed)[0];
    history.writes[placed].object["status"]["epoch"] = json!(0);
    let findings = history.judge(crate::Health::Healthy);
    assert_eq!(
        findings[0].to_string(),
        "stale-journal: PodGroup ns/j: its epoch fell from 1 to 0 (since 1970-01-01T00:01:04Z, revision 24)"
    );
}
