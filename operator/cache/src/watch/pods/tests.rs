use serde_json::json;
use trellis_gang::observed::{PodCheckpoint, PodPhase};

use super::*;

fn pod(uid: &str, phase: &str) -> SlimPod {
    serde_json::from_value(json!({
        "metadata": {
            "name": "j-worker-0", "namespace": "ns", "uid": uid,
            "labels": {"trellis.dev/job": "j", "trellis.dev/job-uid": "job"},
            "ownerReferences": [{
                "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob", "name": "j",
                "uid": "job", "controller": true,
            }],
        },
        "spec": {"nodeName": "n"},
        "status": {"phase": phase},
    }))
    .unwrap()
}

#[test]
fn pod_change_has_an_urgency() {
    let index = PodIndex::default();
    let key = Key::new("ns", "j-worker-0");
    let change = |pod: &SlimPod| index.apply(&key, pod).unwrap()[0].1;
    assert_eq!(change(&pod("a", "Pending")), ChangeUrgency::New);
    assert_eq!(change(&pod("a", "Pending")), ChangeUrgency::None);
    assert_eq!(change(&pod("a", "Running")), ChangeUrgency::Progress);
    assert_eq!(change(&pod("a", "Failed")), ChangeUrgency::Urgent);
    assert_eq!(
        change(&pod("b", "Pending")),
        ChangeUrgency::Urgent,
        "another pod"
    );
    let mut going = pod("b", "Pending");
    going.metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert_eq!(change(&going), ChangeUrgency::Urgent);
}

#[test]
fn late_create_answer_does_not_restore_a_deleted_pod() {
    let index = PodIndex::default();
    let key = Key::new("ns", "j-worker-0");
    assert!(index.insert_created(&key, &pod("a", "Pending")));
    assert!(!index.insert_created(&key, &pod("a", "Pending")), "known");
    assert_eq!(
        index.apply(&key, &pod("a", "Pending")).unwrap()[0].1,
        ChangeUrgency::None
    );
    index.delete(&key, "a");
    assert!(!index.insert_created(&key, &pod("a", "Pending")));
    assert!(index.pods_of_job(&Key::new("ns", "j")).is_empty());
}

#[test]
fn accepted_delete_marks_the_pod_before_the_watch_shows_it() {
    let index = PodIndex::default();
    let key = Key::new("ns", "j-worker-0");
    index.apply(&key, &pod("a", "Running"));
    let deleting = || index.pods_of_job(&Key::new("ns", "j"))["j-worker-0"].deleting;
    index.mark_deleting(&key, "another");
    assert!(!deleting());
    index.mark_deleting(&key, "a");
    assert!(deleting());
    index.apply(&key, &pod("a", "Failed"));
    assert!(deleting(), "an event of before the delete");
    index.apply(&key, &pod("b", "Running"));
    assert!(!deleting(), "another pod");
}

#[test]
fn late_deletion_does_not_remove_a_created_pod() {
    let index = PodIndex::default();
    let key = Key::new("ns", "j-worker-0");
    assert!(index.insert_created(&key, &pod("b", "Pending")));
    assert_eq!(index.delete(&key, "a"), None);
    assert_eq!(index.pods_of_job(&Key::new("ns", "j")).len(), 1);
}

/// A pod of the same name was created and deleted before Trellis created its own. The watch shows
/// both late.
#[test]
fn late_watch_of_an_earlier_pod_keeps_the_created_pod() {
    let index = PodIndex::default();
    let key = Key::new("ns", "j-worker-0");
    let uid = || {
        index.pods_of_job(&Key::new("ns", "j"))["j-worker-0"]
            .uid
            .clone()
    };
    assert!(index.insert_created(&key, &pod_of_version("ours", 7)));
    assert!(index.apply(&key, &pod_of_version("earlier", 5)).is_none());
    assert_eq!(uid(), "ours");
    assert_eq!(index.delete(&key, "earlier"), None);
    assert_eq!(uid(), "ours");
    assert!(index.apply(&key, &pod_of_version("ours", 7)).is_some());
    assert!(index.apply(&key, &pod_of_version("later", 9)).is_some());
    assert_eq!(uid(), "later");
}

/// Users may remove owner references, and `kubectl delete --cascade=orphan` does so too.
#[test]
fn pod_without_its_owner_stays_with_its_job() {
    let index = PodIndex::default();
    let key = Key::new("ns", "j-worker-0");
    let job = Key::new("ns", "j");
    index.apply(&key, &pod("a", "Running"));
    let mut orphan = pod("a", "Running");
    orphan.metadata.owner_references = None;
    let changes = index.apply(&key, &orphan).unwrap();
    assert_eq!(changes, [(job.clone(), ChangeUrgency::Urgent)]);
    assert_eq!(index.pods_of_job(&job)["j-worker-0"].job_uid, "job");
    let changes = index.apply(&key, &orphan).unwrap();
    assert_eq!(changes, [(job.clone(), ChangeUrgency::None)]);
    assert_eq!(index.delete(&key, "a"), Some(job));
}

#[test]
fn pod_with_a_patched_owner_stays_with_its_job() {
    let index = PodIndex::default();
    let key = Key::new("ns", "j-worker-0");
    let job = Key::new("ns", "j");
    index.apply(&key, &pod("a", "Running"));
    let mut moved = pod("a", "Running");
    let owner = &mut moved.metadata.owner_references.as_mut().unwrap()[0];
    (owner.name, owner.uid) = ("other".to_owned(), "other".to_owned());
    let changes = index.apply(&key, &moved).unwrap();
    assert_eq!(changes, [(job.clone(), ChangeUrgency::Urgent)]);
    assert_eq!(index.pods_of_job(&job)["j-worker-0"].job_uid, "job");
    assert!(index.pods_of_job(&Key::new("ns", "other")).is_empty());
}

/// Pods without the labels: those that older versions created, and those of other controllers.
#[test]
fn pod_without_labels_belongs_to_its_controlling_job() {
    let index = PodIndex::default();
    let key = Key::new("ns", "j-worker-0");
    let (job, other) = (Key::new("ns", "j"), Key::new("ns", "other"));
    let unlabelled = || {
        let mut pod = pod("a", "Running");
        pod.metadata.labels = None;
        pod
    };
    index.apply(&key, &unlabelled());
    let mut moved = unlabelled();
    moved.metadata.owner_references.as_mut().unwrap()[0].name = "other".to_owned();
    assert_eq!(
        index.apply(&key, &moved).unwrap(),
        [
            (job.clone(), ChangeUrgency::Urgent),
            (other.clone(), ChangeUrgency::New)
        ]
    );
    assert!(index.pods_of_job(&job).is_empty());
    assert_eq!(index.pods_of_job(&other).len(), 1);
}

fn pod_of_version(uid: &str, version: u64) -> SlimPod {
    let mut pod = pod(uid, "Pending");
    pod.metadata.resource_version = Some(version.to_string());
    pod
}

#[test]
fn created_pod_is_removed_when_a_later_list_lacks_it() {
    let index = PodIndex::default();
    let (key, job) = (Key::new("ns", "j-worker-0"), Key::new("ns", "j"));
    let none = HashSet::new();
    assert!(index.insert_created(&key, &pod_of_version("a", 5)));
    assert_eq!(index.unlisted_pods(&none, 4), [], "it came after the list");
    assert_eq!(index.unlisted_pods(&HashSet::from([key.clone()]), 5), []);
    assert_eq!(
        index.unlisted_pods(&none, 5),
        [(key.clone(), "a".to_owned())]
    );
    assert_eq!(index.delete(&key, "a"), Some(job.clone()));
    assert!(index.inner.read().unobserved.is_empty());

    // This answer is older than the list.
    assert!(!index.insert_created(&key, &pod_of_version("b", 5)));
    assert!(index.pods_of_job(&job).is_empty());

    // If the watch has shown a pod, only the watch can end it.
    assert!(index.insert_created(&key, &pod_of_version("c", 6)));
    index.apply(&key, &pod_of_version("c", 6)).unwrap();
    assert_eq!(index.unlisted_pods(&none, 7), []);
    assert_eq!(index.pods_of_job(&job).len(), 1);
}

/// Returns the phase of a pod with a sidecar, an init container and a main container.
fn phase_of(phase: &str, sidecar: i32, init: i32, main: i32) -> PodPhase {
    let ended = |name: &str, code: i32| {
        let reason = if code == 0 { "Completed" } else { "Error" };
        json!({"name": name, "state": {"terminated": {"exitCode": code, "reason": reason}}})
    };
    let pod: SlimPod = serde_json::from_value(json!({
        "metadata": {"name": "j-worker-0"},
        "spec": {
            "initContainers": [{"name": "proxy", "restartPolicy": "Always"}, {"name": "init"}],
            "containers": [{"name": "main"}],
        },
        "status": {
            "phase": phase,
            "initContainerStatuses": [ended("proxy", sidecar), ended("init", init)],
            "containerStatuses": [ended("main", main)],
        },
    }))
    .unwrap();
    trellis_gang::observed::pod_phase(&pod)
}

#[test]
fn pod_phase_ignores_the_exit_code_of_sidecars() {
    for code in [1, 137, 143] {
        assert_eq!(phase_of("Succeeded", code, 0, 0), PodPhase::Succeeded);
        let failed = |exit_code| PodPhase::Failed {
            exit_code,
            reason: "Error".to_owned(),
            at: None,
            last_line: None,
        };
        assert_eq!(phase_of("Failed", code, 0, 3), failed(Some(3)));
        assert_eq!(phase_of("Failed", code, 4, 0), failed(Some(4)));
        assert_eq!(
            phase_of("Failed", code, 4, 3),
            failed(Some(3)),
            "main first"
        );
        assert_eq!(phase_of("Failed", code, 0, 0), failed(None));
    }
}

#[test]
fn last_line_skips_lines_without_letters_or_digits() {
    let last_line = |message: &str| {
        let pod: SlimPod = serde_json::from_value(json!({
            "metadata": {"name": "j-worker-0"},
            "status": {"phase": "Failed", "containerStatuses": [{
                "name": "main",
                "state": {"terminated": {"exitCode": 1, "message": message}},
            }]},
        }))
        .unwrap();
        match trellis_gang::observed::pod_phase(&pod) {
            PodPhase::Failed { last_line, .. } => last_line,
            other => panic!("{other:?}"),
        }
    };
    // The last output of torchrun.
    let table = "  exitcode  : -9 (pid: 20)\n  traceback : Signal 9 (SIGKILL) received by PID 20\n\
                 ============================================================\n";
    let last = "traceback : Signal 9 (SIGKILL) received by PID 20";
    assert_eq!(last_line(table).as_deref(), Some(last));
    assert_eq!(
        last_line("out of memory\n\n").as_deref(),
        Some("out of memory")
    );
    assert_eq!(last_line("=====\n"), None);
}

#[test]
fn checkpoint_is_read_from_the_annotation_named_by_the_pod() {
    let last = |annotations: serde_json::Value| {
        let mut pod = pod("a", "Running");
        pod.metadata.annotations = serde_json::from_value(annotations).unwrap();
        let (_, view) = PodView::from_pod(&pod).unwrap();
        view.checkpoint.map(|last| (*last).clone())
    };
    let key = "trellis.dev/checkpoint-annotation";
    let at = "2026-11-30T12:00:00Z";
    assert_eq!(last(json!({"acme.example/saved": at})), None);
    assert_eq!(last(json!({key: "acme.example/saved"})), None);
    let checkpoint = last(json!({key: "acme.example/saved", "acme.example/saved": at}));
    assert_eq!(checkpoint, Some(PodCheckpoint::At(at.parse().unwrap())));
    let checkpoint = last(json!({key: "saved", "saved": "1796040000"}));
    let Some(PodCheckpoint::Unreadable(why)) = checkpoint else {
        panic!("{checkpoint:?}");
    };
    assert!(
        why.contains("\"1796040000\", which is no time of RFC 3339"),
        "{why}"
    );
}

/// A thousand pods write a checkpoint report every few minutes.
#[test]
fn checkpoint_change_is_not_urgent() {
    let index = PodIndex::default();
    let key = Key::new("ns", "a");
    let mut changed = pod("a", "Running");
    index.apply(&key, &changed);
    let annotations =
        json!({"trellis.dev/checkpoint-annotation": "k", "k": "2026-11-30T12:00:00Z"});
    changed.metadata.annotations = serde_json::from_value(annotations).unwrap();
    let changes = index.apply(&key, &changed).unwrap();
    assert_eq!(changes[0].1, ChangeUrgency::Progress);
}
