//! Conditions of pods, and how often they are written. Writes have no API server here: the test
//! reports their results.

use std::time::Duration;

use trellis_gang::Certificate;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

impl Scene {
    /// Conditions last written to the gang's pods, by uid. Empty after a failed write.
    fn words(&self, unit: &Key) -> Vec<(String, String)> {
        let told = self.driver.external_pods.gangs[unit].telling.told.iter();
        let mut told: Vec<_> = told
            .map(|(uid, told)| (uid.clone(), told.words.clone()))
            .collect();
        told.sort();
        told
    }

    /// The task that tells pods of the gang has ended, and has not told these. False: none was
    /// under way.
    fn told_all_but(&mut self, unit: &Key, missed: &[&str]) -> bool {
        let telling = &self.driver.external_pods.gangs[unit].telling;
        let Some(number) = telling.under_way.as_ref().map(|(number, _)| *number) else {
            return false;
        };
        let missed = missed.iter().map(|uid| (*uid).to_owned()).collect();
        let feed = Feed::Told(unit.clone(), number, missed);
        self.driver.hear(feed, &mut BTreeSet::new());
        true
    }

    fn say(&mut self, unit: &Key, reason: Reason, message: &str) {
        let certificate = Certificate::waits(reason, message.to_owned());
        self.driver.say(unit, certificate);
    }

    /// So much time passes, and what is due then is looked at.
    async fn pass(&mut self, time: Duration) {
        tokio::time::advance(time).await;
        self.decide_unanswered();
    }

    fn group(&self, least: u32) {
        let group: PodGroup = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "team-a", "uid": "g", "resourceVersion": "1"},
            "spec": {"minMember": least},
        }));
        self.watched.apply(key("g"), group);
    }

    fn member(&self, name: &str) {
        self.see(pod(name, json!({"trellis.dev/pod-group": "g"})));
    }

    /// The journal is being written. Ends that.
    fn writes(&mut self, unit: &Key) -> bool {
        let state = self.driver.external_pods.gangs.get_mut(unit);
        state.and_then(|state| state.task.take()).is_some()
    }
}

fn told(words: &[(&str, &str)]) -> Vec<(String, String)> {
    let words = words.iter();
    words
        .map(|(uid, words)| ((*uid).to_owned(), (*words).to_owned()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_reason_that_comes_and_goes_is_no_stream_of_writes() {
    let mut scene = Scene::new();
    let unit = external::of_pod(&key("p"));
    scene.see(pod("p", json!({"trellis.dev/queue": "none"})));
    scene.decide_unanswered();
    assert_eq!(scene.words(&unit), told(&[("p", "QueueNotFound: ")]));
    assert!(scene.told_all_but(&unit, &[]));
    scene.say(&unit, Reason::InsufficientCapacity, "why");
    assert_eq!(scene.words(&unit), told(&[("p", "QueueNotFound: ")]));
    tokio::time::advance(10 * SECOND).await;
    scene.driver.say_what_is_left(&unit);
    assert_eq!(scene.words(&unit), told(&[("p", "InsufficientCapacity: ")]));
    assert!(scene.told_all_but(&unit, &[]));
    // A reason that held only for a moment is not written.
    scene.say(&unit, Reason::QuotaExceeded, "why");
    scene.say(&unit, Reason::InsufficientCapacity, "why");
    tokio::time::advance(10 * SECOND).await;
    scene.driver.say_what_is_left(&unit);
    assert_eq!(scene.words(&unit), told(&[("p", "InsufficientCapacity: ")]));
    assert!(!scene.told_all_but(&unit, &[]), "nothing was written");
}

/// A controller that crashes one pod in a loop, or a user who switches the queue: each change would
/// be a write for each pod of the gang.
#[tokio::test(start_paused = true)]
async fn a_reason_that_comes_and_goes_for_ever_is_told_ever_more_seldom() {
    let mut scene = Scene::new();
    let unit = external::of_pod(&key("p"));
    scene.see(pod("p", json!({"trellis.dev/queue": "none"})));
    scene.decide_unanswered();
    assert!(scene.told_all_but(&unit, &[]), "the first at once");
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
        scene.say(&unit, reason, "why");
        if scene.told_all_but(&unit, &[]) {
            waits.push(waited);
            waited = 0;
        }
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 320, 320]);
    // The last reason is written in the end, once.
    tokio::time::advance(290 * SECOND).await;
    scene.driver.say_what_is_left(&unit);
    assert!(scene.told_all_but(&unit, &[]));
    assert_eq!(scene.words(&unit), told(&[("p", "QuotaExceeded: ")]));
    // After a quiet time a change is written at once again, and the next one soon.
    tokio::time::advance(320 * SECOND).await;
    scene.say(&unit, Reason::InsufficientCapacity, "why");
    assert!(scene.told_all_but(&unit, &[]));
    scene.say(&unit, Reason::QuotaExceeded, "why");
    assert!(!scene.told_all_but(&unit, &[]));
    tokio::time::advance(20 * SECOND).await;
    scene.driver.say_what_is_left(&unit);
    assert!(scene.told_all_but(&unit, &[]));
}

/// Pods that come one after the other are told of one change at different times: that is one.
#[tokio::test(start_paused = true)]
async fn a_change_that_each_pod_is_told_of_when_it_may_be_is_one() {
    let mut scene = Scene::new();
    let unit = external::of_group(&key("g"));
    scene.group(1);
    for name in ["a", "b", "c"] {
        scene.member(name);
        // As one that is not decided on.
        scene.driver.heard.take();
        scene.say(&unit, Reason::QuotaExceeded, "why");
        assert!(scene.told_all_but(&unit, &[]), "{name}");
        tokio::time::advance(4 * SECOND).await;
    }
    for _ in 0..3 {
        scene.say(&unit, Reason::InsufficientCapacity, "why");
        scene.told_all_but(&unit, &[]);
        tokio::time::advance(4 * SECOND).await;
    }
    assert_eq!(scene.driver.external_pods.gangs[&unit].telling.changes, 1);
    let all = ["a", "b", "c"].map(|name| (name, "InsufficientCapacity: "));
    assert_eq!(scene.words(&unit), told(&all));
}

#[tokio::test(start_paused = true)]
async fn who_could_not_be_told_is_told_again_ever_more_seldom() {
    let mut scene = Scene::new();
    let unit = external::of_pod(&key("p"));
    scene.see(pod("p", json!({"trellis.dev/queue": "none"})));
    scene.decide_unanswered();
    let mut waits = Vec::new();
    for _ in 0..8 {
        assert!(scene.told_all_but(&unit, &["p"]));
        let mut waited = 0;
        while scene.words(&unit) != told(&[("p", "QueueNotFound: ")]) {
            scene.pass(SECOND).await;
            waited += 1;
        }
        waits.push(waited);
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 320, 320]);
    assert!(scene.told_all_but(&unit, &[]));
    scene.pass(400 * SECOND).await;
    assert!(!scene.told_all_but(&unit, &[]), "it has been told");
}

/// Reasons that come while a task writes are delayed, and only the last is written.
#[tokio::test(start_paused = true)]
async fn one_task_at_a_time_tells_the_pods_of_a_gang() {
    let mut scene = Scene::new();
    let unit = external::of_group(&key("g"));
    scene.group(3);
    scene.member("a");
    scene.decide_unanswered();
    scene.pass(2 * SECOND).await;
    assert!(scene.writes(&unit));
    let first = scene.driver.external_pods.gangs[&unit]
        .telling
        .under_way
        .clone();
    assert!(first.is_some());
    scene.member("b");
    scene.decide_unanswered();
    scene.pass(2 * SECOND).await;
    let now = scene.driver.external_pods.gangs[&unit]
        .telling
        .under_way
        .clone();
    assert_eq!(
        now.map(|(number, _)| number),
        first.map(|(number, _)| number)
    );
    assert_eq!(scene.words(&unit), told(&[("a", "MembersMissing: ")]));
    assert!(scene.told_all_but(&unit, &[]));
    let both = [("a", "MembersMissing: "), ("b", "MembersMissing: ")];
    assert_eq!(scene.words(&unit), told(&both));
}

/// Pods that come and go cause no write to the others.
#[tokio::test(start_paused = true)]
async fn how_many_are_missing_is_said_by_the_group_and_not_by_each_pod() {
    let mut scene = Scene::new();
    let unit = external::of_group(&key("g"));
    scene.group(100);
    for number in 0..50 {
        scene.member(&format!("p{number:02}"));
    }
    scene.decide_unanswered();
    scene.pass(2 * SECOND).await;
    assert_eq!(scene.words(&unit).len(), 50);
    assert!(scene.told_all_but(&unit, &[]) && scene.writes(&unit));
    let mut notes = 0;
    for _ in 0..20 {
        let last = key("p49");
        Sink::<SlimPod>::delete(scene.watched.as_ref(), &last, "p49");
        scene.decide_unanswered();
        scene.pass(3 * SECOND).await;
        notes += usize::from(scene.writes(&unit));
        assert!(!scene.told_all_but(&unit, &[]), "one has gone");
        scene.member("p49");
        scene.decide_unanswered();
        scene.pass(3 * SECOND).await;
        notes += usize::from(scene.writes(&unit));
        let telling = &scene.driver.external_pods.gangs[&unit].telling;
        let only = telling.told.len() == 50 && scene.told_all_but(&unit, &[]);
        assert!(only, "the new one is told");
    }
    assert_eq!(notes, 40, "the status is right as soon as it is quiet");
}

/// Pods that come and go all the time: the status is behind, but not for ever, and not each time.
#[tokio::test(start_paused = true)]
async fn what_never_settles_is_said_now_and_then() {
    let mut scene = Scene::new();
    let unit = external::of_group(&key("g"));
    scene.group(1000);
    let mut notes = 0;
    for number in 0..60 {
        scene.member(&format!("p{number:02}"));
        scene.decide_unanswered();
        scene.pass(SECOND).await;
        scene.told_all_but(&unit, &[]);
        notes += usize::from(scene.writes(&unit));
    }
    assert!((5..=7).contains(&notes), "{notes}");
}

/// The API server does not answer.
#[tokio::test]
async fn to_whom_it_could_not_be_written_is_said() {
    let committer = Scene::new().driver.committer.clone();
    let pods = vec![("p".to_owned(), "uid".to_owned())];
    let (namespace, message) = ("team-a".to_owned(), "why".to_owned());
    let told = committer.tell_pods(namespace, pods, Reason::QuotaExceeded, message);
    assert_eq!(told.await, ["uid"]);
}
