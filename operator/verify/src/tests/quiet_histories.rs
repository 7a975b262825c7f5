//! Histories without a fault, and faults that no rule may count.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::gang_history::{
    GangHistory, Kind, WaitingGang, Write, any_options, leader_term, lease, waiting_gang,
    write_messages,
};
use super::write_filters::{choose, is_created_for_good};
use crate::{Health, Rule};

proptest! {
    #[test]
    fn history_without_a_fault_has_no_findings(options in any_options()) {
        let findings = GangHistory::new(options).judge(Health::Healthy);
        prop_assert_eq!(findings, Vec::new());
    }

    #[test]
    fn change_of_the_leader_is_no_violation(options in any_options(), place in any::<prop::sample::Index>()) {
        let mut history = GangHistory::new(options);
        let place = place.index(history.writes.len());
        history.insert(place, [(Kind::Lease, lease(1)), (Kind::LeaderTerm, leader_term(2))]);
        for write in &mut history.writes[place..] {
            if write.kind == Kind::Group {
                write.object["status"]["epoch"] = 2.into();
            }
        }
        prop_assert_eq!(history.judge(Health::Healthy), Vec::new());
    }

    /// A replica that has not written its LeaderTerm has read nothing yet.
    #[test]
    fn journal_write_before_the_next_term_is_no_violation(
        options in any_options(),
        index in any::<prop::sample::Index>(),
        writes_term in any::<bool>(),
    ) {
        let mut history = GangHistory::new(options);
        let journals = history.find(|write| write.kind == Kind::Group);
        let place = journals[index.index(journals.len())];
        for write in &mut history.writes[place + 1..] {
            if write.kind == Kind::Group {
                write.object["status"]["epoch"] = 2.into();
            }
        }
        let time = json!([{"manager": "trellis-scheduler", "operation": "Update",
            "subresource": "status", "time": "2026-01-01T00:00:01Z"}]);
        history.writes[place].object["metadata"]["managedFields"] = time;
        // The first renewal comes after the term, and a renewal before the term begins none.
        let last = match writes_term {
            true => (Kind::LeaderTerm, leader_term(2)),
            false => (Kind::Lease, lease(1)),
        };
        history.insert(place, [(Kind::Lease, lease(1)), last]);
        prop_assert_eq!(history.judge(Health::Healthy), Vec::new());
    }

    /// The garbage collector has not deleted the PodGroup of a deleted job yet.
    #[test]
    fn journal_of_a_job_that_is_gone_takes_no_quota(mut options in any_options()) {
        options.is_preempted = true;
        options.has_stages = false;
        let mut history = GangHistory::new(options);
        let of = |write: &Write, name: &str| write.object["metadata"]["name"] == name;
        let nominated = history.find(|write| write.object["status"]["phase"] == "Nominated")[0];
        let placed = history.find(|write| {
            write.kind == Kind::Job && of(write, "k") && write.object["status"]["phase"] == "Running"
        })[0];
        history.writes.truncate(placed + 1);
        // The job's user deletes it, instead of the preemption.
        let later = history.writes.split_off(nominated);
        let group = history.find(|write| write.kind == Kind::Group && of(write, "j"));
        let mut group = history.writes[*group.last().unwrap()].clone();
        let is_of_preemption = |write: &Write| {
            write.kind == Kind::Group && (of(write, "j") || write.object["status"]["phase"] == "Nominated")
        };
        let later = later.into_iter().filter(|write| !is_of_preemption(write)).map(|mut write| {
            write.is_deletion |= write.kind == Kind::Job && of(&write, "j");
            write
        });
        history.writes.extend(later);
        group.is_deletion = true;
        group.second = history.writes.last().unwrap().second + 20;
        history.writes.push(group);
        prop_assert_eq!(history.judge(Health::Healthy), Vec::new());
    }

    #[test]
    fn deletion_of_the_namespace_is_no_violation(options in any_options()) {
        let mut history = GangHistory::new(options);
        // The pods go first, and the job stays in its phase.
        let running = history.find(|write| write.object["status"]["phase"] == "Running")[0];
        let mut namespace = history.writes[running].clone();
        namespace.kind = Kind::Namespace;
        namespace.object = json!({"metadata": {
            "name": "ns", "deletionTimestamp": "2026-01-01T00:00:00Z",
        }});
        history.writes.truncate(running + 1);
        let pods = history.find(|write| write.kind == Kind::Pod);
        let gone: Vec<_> = pods.into_iter().map(|place| history.writes[place].clone()).collect();
        history.writes.push(namespace);
        history.writes.extend(gone.into_iter().map(|mut pod| {
            pod.is_deletion = true;
            pod
        }));
        prop_assert_eq!(history.judge(Health::Healthy), Vec::new());
    }

    #[test]
    fn lasting_fault_does_not_count_while_the_cluster_is_unhealthy(options in any_options()) {
        let mut history = GangHistory::new(options);
        // No plan is closed.
        let is_closing = |phase: &serde_json::Value| phase == "Placed";
        history.writes.retain(|write| !is_closing(&write.object["status"]["phase"]));
        prop_assert_eq!(history.judge(Health::Unhealthy), Vec::new());
    }

    #[test]
    fn list_after_a_gap_shows_no_order(
        options in any_options(),
        index in any::<prop::sample::Index>(),
    ) {
        let mut history = GangHistory::new(options);
        // The list shows the pods of the last plan before the changes that made room for them.
        let pods = history.find(|write| write.kind == Kind::Pod && !write.is_deletion);
        let place = pods[index.index(pods.len())];
        let mut early = history.writes[place].clone();
        early.object["metadata"]["uid"] = json!("uid-early");
        early.object["metadata"]["name"] = json!("early");
        early.object["metadata"]["labels"]["trellis.dev/attempt"] = json!("9");
        early.object["metadata"]["annotations"]["trellis.dev/plan"] = json!("of-the-gap");
        early.is_listed = true;
        let mut gone = early.clone();
        gone.is_deletion = true;
        history.writes.insert(place + 1, early);
        history.writes.insert(place + 2, gone);
        prop_assert_eq!(history.judge(Health::Healthy), Vec::new());
    }

    #[test]
    fn job_that_does_not_decode_leaks_no_pod(options in any_options()) {
        let mut history = GangHistory::new(options);
        let running = history.find(|write| {
            write.kind == Kind::Job && write.object["status"]["phase"] == "Running"
        });
        let place = *running.last().unwrap();
        let mut unread = history.writes[place].clone();
        unread.kind = Kind::UnreadJob;
        history.writes.truncate(place + 1);
        history.writes.push(unread);
        prop_assert_eq!(history.judge(Health::Healthy), Vec::new());
    }

    #[test]
    fn one_contradiction_after_another_is_no_long_one(options in any_options()) {
        let mut history = GangHistory::new(options);
        let placed = history.find(|write| {
            write.kind == Kind::Job && write.object["status"]["phase"] == "Running"
        });
        let place = *placed.last().unwrap();
        let right = history.writes[place].clone();
        for write in &mut history.writes[place..] {
            write.second += 50;
        }
        let mut queued = right.clone();
        queued.object["status"]["phase"] = json!("Queued");
        queued.object["status"]["conditions"][0]["status"] = json!("False");
        let mut contrary = right.clone();
        contrary.second += 25;
        contrary.object["status"]["conditions"][0]["status"] = json!("False");
        history.writes.splice(place..place, [queued, contrary]);
        prop_assert_eq!(history.judge(Health::Healthy), Vec::new());
    }

    #[test]
    fn status_of_a_job_of_another_manager_is_not_judged(options in any_options()) {
        let mut history = GangHistory::new(options);
        let created = history.find(|write| write.kind == Kind::Job)[0];
        let mut job = history.writes[created].clone();
        job.object["metadata"]["name"] = json!("foreign");
        job.object["metadata"]["uid"] = json!("uid-foreign");
        job.object["spec"]["managedBy"] = json!("kueue.x-k8s.io/multikueue");
        history.writes.insert(created, job);
        prop_assert_eq!(history.judge(Health::Healthy), Vec::new());
    }

    #[test]
    fn condition_of_a_placeholder_is_no_violation(options in any_options()) {
        let mut history = GangHistory::new(options);
        let created = history.find(is_created_for_good)[0];
        let mut pod = history.writes[created].clone();
        pod.object["metadata"] = json!({
            "namespace": "trellis-capacity", "name": "placeholder", "uid": "uid-placeholder",
            "managedFields": [{"manager": "trellis-scheduler", "operation": "Update",
                "subresource": "status", "time": "2026-01-01T00:00:00Z",
                "fieldsV1": {"f:status": {}}}],
        });
        pod.object["spec"] = json!({"schedulerName": "trellis.dev-placeholder", "containers": []});
        history.writes.insert(created, pod);
        prop_assert_eq!(history.judge(Health::Healthy), Vec::new());
    }

    #[test]
    fn renewed_messages_are_no_violation(options in any_options()) {
        let mut history = GangHistory::new(options);
        let place = history.find(|write| {
            write.kind == Kind::Job && write.object["status"]["phase"] == "Running"
        })[0];
        write_messages(&mut history, place, 12, 10);
        prop_assert_eq!(history.judge(Health::Healthy), Vec::new());
    }

    #[test]
    fn late_counts_of_many_pods_are_no_violation(options in any_options()) {
        let mut history = GangHistory::new(options);
        let place = history.find(|write| {
            write.kind == Kind::Job && write.object["status"]["phase"] == "Running"
        })[0];
        write_messages(&mut history, place, 12, 3);
        for (number, write) in history.writes[place..=place + 12].iter_mut().enumerate() {
            write.object["status"]["ready"] = json!(format!("{number}/1000"));
        }
        prop_assert_eq!(history.judge(Health::Healthy), Vec::new());
    }

    #[test]
    fn late_pod_of_a_dropped_plan_takes_no_room(
        options in any_options(),
        index in any::<prop::sample::Index>(),
        delay in 0..2_usize,
    ) {
        let mut history = GangHistory::new(options);
        let place = choose(&history, index, is_created_for_good);
        history.insert_pod_of_dropped_plan(place, delay);
        let broken = history.broken_rules();
        prop_assert!(!broken.contains(&Rule::OverCapacity), "{:?}", broken);
    }

    #[test]
    fn minimum_runtime_ends_with_the_limit_of_the_queue(mut options in any_options()) {
        options.is_preempted = true;
        let mut history = GangHistory::new(options);
        history.set_min_runtime(3600);
        for write in &mut history.writes {
            if write.kind == Kind::Queue {
                write.object["spec"]["maxMinRuntimeSeconds"] = json!(0);
            }
        }
        prop_assert_eq!(history.judge(Health::Healthy), Vec::new());
    }

    #[test]
    fn gang_that_left_for_a_changed_job_is_no_violation(mut options in any_options()) {
        options.is_preempted = true;
        let mut history = GangHistory::new(options);
        let is_preemptor = |write: &Write| {
            write.object["metadata"]["name"] == "k"
                && write.object["status"]["phase"] == "Committing"
        };
        let place = history.find(is_preemptor)[0];
        history.writes.truncate(place);
        // Its user suspends the preemptor.
        let job = history.find(|write| {
            write.kind == Kind::Job && write.object["metadata"]["name"] == "k"
        })[0];
        let mut suspended = history.writes[job].clone();
        suspended.second = history.writes[place - 1].second;
        suspended.object["metadata"]["generation"] = json!(2);
        suspended.object["status"]["observedGeneration"] = json!(2);
        suspended.object["status"]["phase"] = json!("Suspended");
        history.writes.push(suspended);
        prop_assert_eq!(history.judge(Health::Healthy), Vec::new());
    }
}

/// A plan that is carried out on a node that has become unhealthy is no sign that the node is healthy.
#[test]
fn gang_that_waits_for_a_node_marked_after_its_last_plan_is_no_violation() {
    let mark = |node: &mut Value| node["metadata"]["labels"] = json!({"state": "quarantined"});
    let mut history = waiting_gang(2, |gang| mark(&mut gang.nodes[0]));
    let has_plan = |write: &Write| !write.object["status"]["plan"].is_null();
    let plan = history.find(has_plan)[0];
    let node = history.find(|write| write.kind == Kind::Node)[0];
    let mut node = history.writes[node].clone();
    mark(&mut node.object);
    history.writes.insert(plan + 1, node);
    assert_eq!(history.judge(Health::Healthy), Vec::new());
}

#[test]
fn gang_that_waits_for_a_known_reason_is_no_violation() {
    type Case = (&'static str, fn(&mut WaitingGang));
    let cases: [Case; 10] = [
        ("one node too few", |gang| {
            gang.nodes[0]["status"]["allocatable"]["nvidia.com/gpu"] = json!("7");
        }),
        ("a cordoned node", |gang| {
            gang.nodes[0]["spec"] = json!({"unschedulable": true});
        }),
        ("a label of the node that may keep gangs away", |gang| {
            gang.nodes[0]["metadata"]["labels"] = json!({"state": "quarantined"});
        }),
        ("a bad condition of the node", |gang| {
            let conditions = gang.nodes[0]["status"]["conditions"]
                .as_array_mut()
                .unwrap();
            conditions.push(json!({"type": "GpuMemWatch", "status": "True"}));
        }),
        ("the queue's quota", |gang| {
            gang.group["spec"]["groups"][0]["resources"]["nvidia.com/gpu"] = json!("9");
        }),
        ("a back-off", |gang| {
            gang.job["status"]["retryTime"] = json!("2026-01-01T00:00:00Z");
        }),
        ("another reason", |gang| {
            gang.job["status"]["reason"] = json!("ResourceQuotaExceeded");
        }),
        ("a topology", |gang| {
            gang.job["spec"]["topology"] = json!({"required": "rack"});
        }),
        ("a suspension", |gang| {
            gang.job["spec"]["suspend"] = json!(true)
        }),
        ("another manager", |gang| {
            gang.job["spec"]["managedBy"] = json!("kueue.x-k8s.io/multikueue");
        }),
    ];
    for (reason, change) in cases {
        let findings = waiting_gang(3, change).judge(Health::Healthy);
        assert_eq!(findings, Vec::new(), "{reason}");
    }
}
