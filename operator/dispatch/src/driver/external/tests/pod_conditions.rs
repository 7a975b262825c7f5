//! Conditions of pods, and how often they are written. Writes have no API server here: the test
//! reports their results.

use std::time::Duration;

use trellis_gang::GangExplanation;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

impl ExternalPodsFixture {
    /// Returns the conditions last written to the gang's pods, by uid. Empty after a failed write.
    fn written_conditions(&self, unit: &Key) -> Vec<(String, String)> {
        let told = self.driver.external_pods.gangs[unit]
            .conditions
            .written
            .iter();
        let mut told: Vec<_> = told
            .map(|(uid, told)| (uid.clone(), told.reason_prefix.clone()))
            .collect();
        told.sort();
        told
    }

    /// Ends the task that writes conditions, which has missed these pods. Returns false if no task
    /// was running.
    fn end_condition_task(&mut self, unit: &Key, missed: &[&str]) -> bool {
        let telling = &self.driver.external_pods.gangs[unit].conditions;
        let Some(number) = telling.running_task.as_ref().map(|(number, _)| *number) else {
            return false;
        };
        let missed = missed.iter().map(|uid| (*uid).to_owned()).collect();
        let feed = SchedulerEvent::ConditionsWritten(unit.clone(), number, missed);
        self.driver.handle_event(feed, &mut BTreeSet::new());
        true
    }

    fn record_explanation(&mut self, unit: &Key, reason: Reason, message: &str) {
        let certificate = GangExplanation::waiting(reason, message.to_owned());
        self.driver.record_explanation(unit, certificate);
    }

    /// Advances the time, and handles everything that is due.
    async fn advance_time(&mut self, time: Duration) {
        tokio::time::advance(time).await;
        self.decide_without_task_results();
    }

    fn group(&self, least: u32) {
        let group: PodGroup = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "team-a", "uid": "g", "resourceVersion": "1"},
            "spec": {"minMember": least},
        }));
        self.sink.apply(key("g"), group);
    }

    fn member(&self, name: &str) {
        self.add_pod(pod(name, json!({"trellis.dev/pod-group": "g"})));
    }

    /// Ends the running write of the journal.
    fn end_journal_write(&mut self, unit: &Key) -> bool {
        let state = self.driver.external_pods.gangs.get_mut(unit);
        state.and_then(|state| state.task.take()).is_some()
    }
}

fn conditions(words: &[(&str, &str)]) -> Vec<(String, String)> {
    let words = words.iter();
    words
        .map(|(uid, words)| ((*uid).to_owned(), (*words).to_owned()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn flapping_reason_is_written_at_most_every_ten_seconds() {
    let mut scene = ExternalPodsFixture::new();
    let unit = external::pod_gang_key(&key("p"));
    scene.add_pod(pod("p", json!({"trellis.dev/queue": "none"})));
    scene.decide_without_task_results();
    assert_eq!(
        scene.written_conditions(&unit),
        conditions(&[("p", "QueueNotFound: ")])
    );
    assert!(scene.end_condition_task(&unit, &[]));
    scene.record_explanation(&unit, Reason::InsufficientCapacity, "why");
    assert_eq!(
        scene.written_conditions(&unit),
        conditions(&[("p", "QueueNotFound: ")])
    );
    tokio::time::advance(10 * SECOND).await;
    scene.driver.write_delayed_explanation(&unit);
    assert_eq!(
        scene.written_conditions(&unit),
        conditions(&[("p", "InsufficientCapacity: ")])
    );
    assert!(scene.end_condition_task(&unit, &[]));
    // A reason that held only for a moment is not written.
    scene.record_explanation(&unit, Reason::QuotaExceeded, "why");
    scene.record_explanation(&unit, Reason::InsufficientCapacity, "why");
    tokio::time::advance(10 * SECOND).await;
    scene.driver.write_delayed_explanation(&unit);
    assert_eq!(
        scene.written_conditions(&unit),
        conditions(&[("p", "InsufficientCapacity: ")])
    );
    assert!(!scene.end_condition_task(&unit, &[]), "nothing was written");
}

/// A controller that crashes one pod in a loop, or a user who switches the queue: each change would
/// be a write for each pod of the gang.
#[tokio::test(start_paused = true)]
async fn endlessly_flapping_reason_is_written_with_growing_pauses() {
    let mut scene = ExternalPodsFixture::new();
    let unit = external::pod_gang_key(&key("p"));
    scene.add_pod(pod("p", json!({"trellis.dev/queue": "none"})));
    scene.decide_without_task_results();
    assert!(scene.end_condition_task(&unit, &[]), "the first at once");
    let reasons = [
        Reason::InsufficientCapacity,
        Reason::QuotaExceeded,
        Reason::QueueNotFound,
    ];
    let mut waits = Vec::new();
    let mut waited = 0;
    for reason in reasons.into_iter().cycle().take(131) {
        tokio::time::advance(10 * SECOND).await;
        waited += 10;
        scene.record_explanation(&unit, reason, "why");
        if scene.end_condition_task(&unit, &[]) {
            waits.push(waited);
            waited = 0;
        }
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 320, 320]);
    // The last reason is written in the end, once.
    tokio::time::advance(290 * SECOND).await;
    scene.driver.write_delayed_explanation(&unit);
    assert!(scene.end_condition_task(&unit, &[]));
    assert_eq!(
        scene.written_conditions(&unit),
        conditions(&[("p", "QuotaExceeded: ")])
    );
    // After a quiet time a change is written at once again, and the next one soon.
    tokio::time::advance(320 * SECOND).await;
    scene.record_explanation(&unit, Reason::InsufficientCapacity, "why");
    assert!(scene.end_condition_task(&unit, &[]));
    scene.record_explanation(&unit, Reason::QuotaExceeded, "why");
    assert!(!scene.end_condition_task(&unit, &[]));
    tokio::time::advance(20 * SECOND).await;
    scene.driver.write_delayed_explanation(&unit);
    assert!(scene.end_condition_task(&unit, &[]));
}

/// Pods that come one after the other get the same new reason at different times. This counts as
/// one change.
#[tokio::test(start_paused = true)]
async fn change_written_to_pods_at_different_times_counts_once() {
    let mut scene = ExternalPodsFixture::new();
    let unit = external::pod_group_gang_key(&key("g"));
    scene.group(1);
    for name in ["a", "b", "c"] {
        scene.member(name);
        // The gang counts as undecided.
        scene.driver.events.take_all();
        scene.record_explanation(&unit, Reason::QuotaExceeded, "why");
        assert!(scene.end_condition_task(&unit, &[]), "{name}");
        tokio::time::advance(4 * SECOND).await;
    }
    for _ in 0..3 {
        scene.record_explanation(&unit, Reason::InsufficientCapacity, "why");
        scene.end_condition_task(&unit, &[]);
        tokio::time::advance(4 * SECOND).await;
    }
    assert_eq!(
        scene.driver.external_pods.gangs[&unit].conditions.changes,
        1
    );
    let all = ["a", "b", "c"].map(|name| (name, "InsufficientCapacity: "));
    assert_eq!(scene.written_conditions(&unit), conditions(&all));
}

#[tokio::test(start_paused = true)]
async fn failed_condition_write_is_retried_with_growing_pauses() {
    let mut scene = ExternalPodsFixture::new();
    let unit = external::pod_gang_key(&key("p"));
    scene.add_pod(pod("p", json!({"trellis.dev/queue": "none"})));
    scene.decide_without_task_results();
    let mut waits = Vec::new();
    for _ in 0..8 {
        assert!(scene.end_condition_task(&unit, &["p"]));
        let mut waited = 0;
        while scene.written_conditions(&unit) != conditions(&[("p", "QueueNotFound: ")]) {
            scene.advance_time(SECOND).await;
            waited += 1;
        }
        waits.push(waited);
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 320, 320]);
    assert!(scene.end_condition_task(&unit, &[]));
    scene.advance_time(400 * SECOND).await;
    assert!(!scene.end_condition_task(&unit, &[]), "it has been told");
}

/// Reasons that come while a task writes are delayed, and only the last is written.
#[tokio::test(start_paused = true)]
async fn pod_conditions_of_a_gang_are_written_by_one_task() {
    let mut scene = ExternalPodsFixture::new();
    let unit = external::pod_group_gang_key(&key("g"));
    scene.group(3);
    scene.member("a");
    scene.decide_without_task_results();
    scene.advance_time(2 * SECOND).await;
    assert!(scene.end_journal_write(&unit));
    let first = scene.driver.external_pods.gangs[&unit]
        .conditions
        .running_task
        .clone();
    assert!(first.is_some());
    scene.member("b");
    scene.decide_without_task_results();
    scene.advance_time(2 * SECOND).await;
    let now = scene.driver.external_pods.gangs[&unit]
        .conditions
        .running_task
        .clone();
    assert_eq!(
        now.map(|(number, _)| number),
        first.map(|(number, _)| number)
    );
    assert_eq!(
        scene.written_conditions(&unit),
        conditions(&[("a", "MembersMissing: ")])
    );
    assert!(scene.end_condition_task(&unit, &[]));
    let both = [("a", "MembersMissing: "), ("b", "MembersMissing: ")];
    assert_eq!(scene.written_conditions(&unit), conditions(&both));
}

/// Pods that come and go cause no write to other pods.
#[tokio::test(start_paused = true)]
async fn missing_member_count_is_written_to_the_pod_group_only() {
    let mut scene = ExternalPodsFixture::new();
    let unit = external::pod_group_gang_key(&key("g"));
    scene.group(100);
    for number in 0..50 {
        scene.member(&format!("p{number:02}"));
    }
    scene.decide_without_task_results();
    scene.advance_time(2 * SECOND).await;
    assert_eq!(scene.written_conditions(&unit).len(), 50);
    assert!(scene.end_condition_task(&unit, &[]) && scene.end_journal_write(&unit));
    let mut notes = 0;
    for _ in 0..20 {
        let last = key("p49");
        Sink::<SlimPod>::delete(scene.sink.as_ref(), &last, "p49");
        scene.decide_without_task_results();
        scene.advance_time(3 * SECOND).await;
        notes += usize::from(scene.end_journal_write(&unit));
        assert!(!scene.end_condition_task(&unit, &[]), "one has gone");
        scene.member("p49");
        scene.decide_without_task_results();
        scene.advance_time(3 * SECOND).await;
        notes += usize::from(scene.end_journal_write(&unit));
        let telling = &scene.driver.external_pods.gangs[&unit].conditions;
        let only = telling.written.len() == 50 && scene.end_condition_task(&unit, &[]);
        assert!(only, "the new one is told");
    }
    assert_eq!(notes, 40, "the status is right as soon as it is quiet");
}

/// Pods come and go all the time. The status lags behind for a limited time, and is not written
/// each time.
#[tokio::test(start_paused = true)]
async fn constantly_changing_message_is_written_every_ten_seconds() {
    let mut scene = ExternalPodsFixture::new();
    let unit = external::pod_group_gang_key(&key("g"));
    scene.group(1000);
    let mut notes = 0;
    for number in 0..60 {
        scene.member(&format!("p{number:02}"));
        scene.decide_without_task_results();
        scene.advance_time(SECOND).await;
        scene.end_condition_task(&unit, &[]);
        notes += usize::from(scene.end_journal_write(&unit));
    }
    assert!((5..=7).contains(&notes), "{notes}");
}

/// The API server does not answer.
#[tokio::test]
async fn failed_condition_writes_are_returned_by_pod_uid() {
    let committer = ExternalPodsFixture::new().driver.committer.clone();
    let pods = vec![("p".to_owned(), "uid".to_owned())];
    let (namespace, message) = ("team-a".to_owned(), "why".to_owned());
    let told = committer.write_pod_conditions(namespace, pods, Reason::QuotaExceeded, message);
    assert_eq!(told.await, ["uid"]);
}
