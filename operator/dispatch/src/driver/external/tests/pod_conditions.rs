//! Conditions of pods, and the pauses between their writes. There is no API server: each test
//! reports the results of writes.

use std::time::Duration;

use trellis_gang::GangExplanation;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

impl ExternalPodsFixture {
    /// Returns the conditions last written to the gang's pods, by uid. Empty after a failed write.
    fn written_conditions(&self, unit: &Key) -> Vec<(String, String)> {
        let conditions = self.driver.external_pods.gangs[unit]
            .conditions
            .written
            .iter();
        let mut conditions: Vec<_> = conditions
            .map(|(uid, condition)| (uid.clone(), condition.reason_prefix.clone()))
            .collect();
        conditions.sort();
        conditions
    }

    /// Ends the task that writes conditions. Its writes to these pods failed. Returns false if no
    /// task was running.
    fn end_condition_task(&mut self, unit: &Key, failed_uids: &[&str]) -> bool {
        let conditions = &self.driver.external_pods.gangs[unit].conditions;
        let Some(number) = conditions.running_task.as_ref().map(|(number, _)| *number) else {
            return false;
        };
        let failed_uids = failed_uids.iter().map(|uid| (*uid).to_owned()).collect();
        let event = SchedulerEvent::ConditionsWritten(unit.clone(), number, failed_uids);
        self.driver.handle_event(event, &mut BTreeSet::new());
        true
    }

    fn record_explanation(&mut self, unit: &Key, reason: Reason, message: &str) {
        let explanation = GangExplanation::waiting(reason, message.to_owned());
        self.driver.record_explanation(unit, explanation);
    }

    /// Advances the time, and handles everything that is due.
    async fn advance_time(&mut self, time: Duration) {
        tokio::time::advance(time).await;
        self.decide_without_task_results();
    }

    fn group(&self, min_member: u32) {
        let group: PodGroup = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "team-a", "uid": "g", "resourceVersion": "1"},
            "spec": {"minMember": min_member},
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

fn conditions(conditions: &[(&str, &str)]) -> Vec<(String, String)> {
    let conditions = conditions.iter();
    conditions
        .map(|(uid, conditions)| ((*uid).to_owned(), (*conditions).to_owned()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn flapping_reason_is_written_at_most_every_ten_seconds() {
    let mut fixture = ExternalPodsFixture::new();
    let unit = external::pod_gang_key(&key("p"));
    fixture.add_pod(pod("p", json!({"trellis.dev/queue": "none"})));
    fixture.decide_without_task_results();
    assert_eq!(
        fixture.written_conditions(&unit),
        conditions(&[("p", "QueueNotFound: ")])
    );
    assert!(fixture.end_condition_task(&unit, &[]));
    fixture.record_explanation(&unit, Reason::InsufficientCapacity, "why");
    assert_eq!(
        fixture.written_conditions(&unit),
        conditions(&[("p", "QueueNotFound: ")])
    );
    tokio::time::advance(10 * SECOND).await;
    fixture.driver.write_delayed_explanation(&unit);
    assert_eq!(
        fixture.written_conditions(&unit),
        conditions(&[("p", "InsufficientCapacity: ")])
    );
    assert!(fixture.end_condition_task(&unit, &[]));
    // A reason that is replaced before the pause ends is not written.
    fixture.record_explanation(&unit, Reason::QuotaExceeded, "why");
    fixture.record_explanation(&unit, Reason::InsufficientCapacity, "why");
    tokio::time::advance(10 * SECOND).await;
    fixture.driver.write_delayed_explanation(&unit);
    assert_eq!(
        fixture.written_conditions(&unit),
        conditions(&[("p", "InsufficientCapacity: ")])
    );
    assert!(
        !fixture.end_condition_task(&unit, &[]),
        "nothing was written"
    );
}

/// The engine reports a refusal once, and the pause of the conditions ends later. The driver looks at
/// the gang again meanwhile.
#[tokio::test(start_paused = true)]
async fn delayed_refusal_is_written_after_the_pause_of_the_reason_before() {
    let mut fixture = ExternalPodsFixture::new();
    let unit = external::pod_group_gang_key(&key("g"));
    fixture.group(3);
    for name in ["a", "b", "c"] {
        fixture.add_pod(pod(
            name,
            json!({"trellis.dev/pod-group": "g", "trellis.dev/queue": "late"}),
        ));
    }
    let all = |reason| ["a", "b", "c"].map(|name| (name, reason));
    fixture.decide_without_task_results();
    assert!(fixture.end_condition_task(&unit, &[]) && fixture.end_journal_write(&unit));
    let expected = conditions(&all("QueueNotFound: "));
    assert_eq!(fixture.written_conditions(&unit), expected);
    fixture.queue("late", json!({"namespaceSelector": {}}));
    for _ in 0..15 {
        fixture.advance_time(SECOND).await;
        fixture.end_condition_task(&unit, &[]);
        fixture.end_journal_write(&unit);
    }
    let expected = conditions(&all("ExceedsCluster: "));
    assert_eq!(fixture.written_conditions(&unit), expected);
}

/// For example, a pod crashes in a loop, or a user switches the queue all the time. Without growing
/// pauses, each change would cause a write for each pod of the gang.
#[tokio::test(start_paused = true)]
async fn endlessly_flapping_reason_is_written_with_growing_pauses() {
    let mut fixture = ExternalPodsFixture::new();
    let unit = external::pod_gang_key(&key("p"));
    fixture.add_pod(pod("p", json!({"trellis.dev/queue": "none"})));
    fixture.decide_without_task_results();
    assert!(
        fixture.end_condition_task(&unit, &[]),
        "the first reason is written at once"
    );
    let reasons = [
        Reason::InsufficientCapacity,
        Reason::QuotaExceeded,
        Reason::QueueNotFound,
    ];
    let mut pauses = Vec::new();
    let mut seconds = 0;
    for reason in reasons.into_iter().cycle().take(131) {
        tokio::time::advance(10 * SECOND).await;
        seconds += 10;
        fixture.record_explanation(&unit, reason, "why");
        if fixture.end_condition_task(&unit, &[]) {
            pauses.push(seconds);
            seconds = 0;
        }
    }
    assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 320, 320]);
    // The last reason is written once.
    tokio::time::advance(290 * SECOND).await;
    fixture.driver.write_delayed_explanation(&unit);
    assert!(fixture.end_condition_task(&unit, &[]));
    assert_eq!(
        fixture.written_conditions(&unit),
        conditions(&[("p", "QuotaExceeded: ")])
    );
    // After a time without changes, a change is written at once, and the next one after 20 s.
    tokio::time::advance(320 * SECOND).await;
    fixture.record_explanation(&unit, Reason::InsufficientCapacity, "why");
    assert!(fixture.end_condition_task(&unit, &[]));
    fixture.record_explanation(&unit, Reason::QuotaExceeded, "why");
    assert!(!fixture.end_condition_task(&unit, &[]));
    tokio::time::advance(20 * SECOND).await;
    fixture.driver.write_delayed_explanation(&unit);
    assert!(fixture.end_condition_task(&unit, &[]));
}

/// Pods that are created one after the other get the same new reason at different times. This
/// counts as one change.
#[tokio::test(start_paused = true)]
async fn change_written_to_pods_at_different_times_counts_once() {
    let mut fixture = ExternalPodsFixture::new();
    let unit = external::pod_group_gang_key(&key("g"));
    fixture.group(1);
    for name in ["a", "b", "c"] {
        fixture.member(name);
        // The gang counts as undecided.
        fixture.driver.events.take_all();
        fixture.record_explanation(&unit, Reason::QuotaExceeded, "why");
        assert!(fixture.end_condition_task(&unit, &[]), "{name}");
        tokio::time::advance(4 * SECOND).await;
    }
    for _ in 0..3 {
        fixture.record_explanation(&unit, Reason::InsufficientCapacity, "why");
        fixture.end_condition_task(&unit, &[]);
        tokio::time::advance(4 * SECOND).await;
    }
    assert_eq!(
        fixture.driver.external_pods.gangs[&unit].conditions.changes,
        1
    );
    let expected = ["a", "b", "c"].map(|name| (name, "InsufficientCapacity: "));
    assert_eq!(fixture.written_conditions(&unit), conditions(&expected));
}

#[tokio::test(start_paused = true)]
async fn failed_condition_write_is_retried_with_growing_pauses() {
    let mut fixture = ExternalPodsFixture::new();
    let unit = external::pod_gang_key(&key("p"));
    fixture.add_pod(pod("p", json!({"trellis.dev/queue": "none"})));
    fixture.decide_without_task_results();
    let mut pauses = Vec::new();
    for _ in 0..8 {
        assert!(fixture.end_condition_task(&unit, &["p"]));
        let mut seconds = 0;
        while fixture.written_conditions(&unit) != conditions(&[("p", "QueueNotFound: ")]) {
            fixture.advance_time(SECOND).await;
            seconds += 1;
        }
        pauses.push(seconds);
    }
    assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 320, 320]);
    assert!(fixture.end_condition_task(&unit, &[]));
    fixture.advance_time(400 * SECOND).await;
    assert!(
        !fixture.end_condition_task(&unit, &[]),
        "the condition is written"
    );
}

/// A reason that appears while the task writes is delayed. Only the last reason is written.
#[tokio::test(start_paused = true)]
async fn pod_conditions_of_a_gang_are_written_by_one_task() {
    let mut fixture = ExternalPodsFixture::new();
    let unit = external::pod_group_gang_key(&key("g"));
    fixture.group(3);
    fixture.member("a");
    fixture.decide_without_task_results();
    fixture.advance_time(2 * SECOND).await;
    assert!(fixture.end_journal_write(&unit));
    let first = fixture.driver.external_pods.gangs[&unit]
        .conditions
        .running_task
        .clone();
    assert!(first.is_some());
    fixture.member("b");
    fixture.decide_without_task_results();
    fixture.advance_time(2 * SECOND).await;
    let current = fixture.driver.external_pods.gangs[&unit]
        .conditions
        .running_task
        .clone();
    assert_eq!(
        current.map(|(number, _)| number),
        first.map(|(number, _)| number)
    );
    assert_eq!(
        fixture.written_conditions(&unit),
        conditions(&[("a", "MembersMissing: ")])
    );
    assert!(fixture.end_condition_task(&unit, &[]));
    let expected = [("a", "MembersMissing: "), ("b", "MembersMissing: ")];
    assert_eq!(fixture.written_conditions(&unit), conditions(&expected));
}

/// A new or deleted pod causes no write to other pods.
#[tokio::test(start_paused = true)]
async fn missing_member_count_is_written_to_the_pod_group_only() {
    let mut fixture = ExternalPodsFixture::new();
    let unit = external::pod_group_gang_key(&key("g"));
    fixture.group(100);
    for number in 0..50 {
        fixture.member(&format!("p{number:02}"));
    }
    fixture.decide_without_task_results();
    fixture.advance_time(2 * SECOND).await;
    assert_eq!(fixture.written_conditions(&unit).len(), 50);
    assert!(fixture.end_condition_task(&unit, &[]) && fixture.end_journal_write(&unit));
    let mut journal_writes = 0;
    for _ in 0..20 {
        let last = key("p49");
        Sink::<SlimPod>::delete(fixture.sink.as_ref(), &last, "p49");
        fixture.decide_without_task_results();
        fixture.advance_time(3 * SECOND).await;
        journal_writes += usize::from(fixture.end_journal_write(&unit));
        assert!(
            !fixture.end_condition_task(&unit, &[]),
            "a deletion writes no condition"
        );
        fixture.member("p49");
        fixture.decide_without_task_results();
        fixture.advance_time(3 * SECOND).await;
        journal_writes += usize::from(fixture.end_journal_write(&unit));
        let conditions = &fixture.driver.external_pods.gangs[&unit].conditions;
        let is_written = conditions.written.len() == 50 && fixture.end_condition_task(&unit, &[]);
        assert!(is_written, "only the new pod gets the condition");
    }
    assert_eq!(journal_writes, 40, "each change is written to the PodGroup");
}

/// Pods are created and deleted all the time. The status lags behind for a limited time.
#[tokio::test(start_paused = true)]
async fn constantly_changing_message_is_written_every_ten_seconds() {
    let mut fixture = ExternalPodsFixture::new();
    let unit = external::pod_group_gang_key(&key("g"));
    fixture.group(1000);
    let mut journal_writes = 0;
    for number in 0..60 {
        fixture.member(&format!("p{number:02}"));
        fixture.decide_without_task_results();
        fixture.advance_time(SECOND).await;
        fixture.end_condition_task(&unit, &[]);
        journal_writes += usize::from(fixture.end_journal_write(&unit));
    }
    assert!((5..=7).contains(&journal_writes), "{journal_writes}");
}

/// The API server does not answer.
#[tokio::test]
async fn failed_condition_writes_are_returned_by_pod_uid() {
    let committer = ExternalPodsFixture::new().driver.committer.clone();
    let pods = vec![("p".to_owned(), "uid".to_owned())];
    let (namespace, message) = ("team-a".to_owned(), "why".to_owned());
    let failed_uids =
        committer.write_pod_conditions(namespace, pods, Reason::QuotaExceeded, message);
    assert_eq!(failed_uids.await, ["uid"]);
}
