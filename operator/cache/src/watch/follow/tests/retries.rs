//! When the follower retries a broken watch or list.

use super::*;

#[tokio::test(start_paused = true)]
async fn failed_list_is_retried_after_growing_pauses() {
    let followed = follow((0..10).map(|_| Refused(503)).collect()).await;
    assert_eq!(followed.duration, ten_pauses());
}

/// Returns the sum of ten pauses: 0.2 + 0.4 + ... + 12.8, then 15 each.
fn ten_pauses() -> Duration {
    Duration::from_millis(25_400 + 3 * 15_000)
}

/// A list that succeeds does not prove that the watch works.
#[tokio::test(start_paused = true)]
async fn refused_watch_is_retried_after_growing_pauses() {
    let mut answers = Vec::new();
    for _ in 0..10 {
        answers.push(Page(1, vec![], false));
        answers.push(Refused(410));
    }
    assert_eq!(follow(answers).await.duration, ten_pauses());
}

#[tokio::test(start_paused = true)]
async fn watch_that_ends_at_once_is_retried_after_growing_pauses() {
    let mut answers = Vec::new();
    for _ in 0..10 {
        answers.push(Page(1, vec![], false));
        answers.push(Watched(vec![]));
    }
    assert_eq!(follow(answers).await.duration, ten_pauses());
}

#[tokio::test(start_paused = true)]
async fn watch_with_events_or_duration_ends_normally() {
    let mut answers = Vec::new();
    for _ in 0..5 {
        answers.push(Page(1, vec![], false));
        answers.push(Slow(vec![], MIN_WATCH_TIME));
        answers.push(Page(1, vec![], false));
        answers.push(Watched(vec![bookmark(1)]));
    }
    let took = follow(answers).await.duration;
    assert_eq!(took, 5 * MIN_WATCH_TIME + 10 * FIRST_PAUSE);
}

/// A server that sends bookmarks sends one a minute.
#[tokio::test(start_paused = true)]
async fn watch_is_broken_when_its_bookmarks_stop() {
    let silence = Duration::from_secs(3600);
    let answers = vec![
        Slow(vec![], silence),
        Slow(vec![bookmark(1)], silence),
        Silence,
    ];
    let script = Arc::new(ScriptedServer {
        answers: Mutex::new(answers.into()),
        ..ScriptedServer::default()
    });
    let mut follower = Follower::new(script, Arc::<RecordingSink>::default(), Pulse::default());
    let mut ends = Vec::new();
    for _ in 0..3 {
        let began = Instant::now();
        ends.push(follower.watch().await.is_ok());
        assert_eq!(began.elapsed(), WATCH_SILENCE);
    }
    assert_eq!(ends, [true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn healthy_watch_restarts_after_the_first_pause() {
    let mut answers = vec![Page(1, vec![], false)];
    for version in 1..=10 {
        answers.push(Watched(vec![
            added("a", version),
            Err(kube::Error::LinesCodecMaxLineLengthExceeded),
        ]));
        answers.push(Page(version, vec![], false));
    }
    assert_eq!(follow(answers).await.duration, 10 * FIRST_PAUSE);
}

#[tokio::test(start_paused = true)]
async fn unanswered_request_is_repeated() {
    let followed = follow(vec![
        Page(1, vec![object("a", 1)], true),
        Silence,
        Page(2, vec![object("b", 2)], false),
        // The watch stalls, and then the version check gets no answer.
        Silence,
        Silence,
        Page(2, vec![], false),
        Watched(vec![added("c", 3)]),
    ])
    .await;
    assert_eq!(followed.events, ["+a", "+b", "-a uid-a", "synced", "+c"]);
    let requests = [
        "list",
        "list more",
        "list",
        "watch 2",
        "compare",
        "compare",
        "watch 2",
    ];
    assert_eq!(followed.requests, requests);
}

/// Without permission to watch, the follower receives no events although lists succeed.
#[tokio::test(start_paused = true)]
async fn pulse_beats_on_lists_and_events_but_not_on_comparisons() {
    // In each round the version check succeeds, and then the API server refuses the watch.
    let broken = || {
        let mut answers = vec![Page(1, vec![], false)];
        for _ in 0..10 {
            answers.extend([Refused(403), Page(1, vec![], false)]);
        }
        answers
    };
    let followed = follow(broken()).await;
    assert_eq!(
        followed.requests.iter().filter(|a| *a == "compare").count(),
        10
    );
    assert_eq!(followed.age, followed.duration);
    assert!(followed.age > Duration::from_secs(60), "{:?}", followed.age);
    for sign in [
        vec![Watched(vec![added("a", 2)]), Refused(403)],
        vec![Watched(vec![bookmark(2)]), Refused(403)],
        vec![Slow(vec![], MIN_WATCH_TIME), Refused(403)],
        vec![Refused(410), Page(2, vec![], false)],
    ] {
        let mut answers = broken();
        answers.extend(sign);
        let followed = follow(answers).await;
        assert!(
            followed.age < Duration::from_secs(20),
            "{:?}",
            followed.requests
        );
        assert!(followed.duration > Duration::from_secs(60));
    }
}

/// A watch that has gone silent may have missed events.
#[tokio::test(start_paused = true)]
async fn silent_watch_is_followed_by_a_list() {
    let followed = follow(vec![
        Page(1, vec![object("a", 1)], false),
        Slow(vec![bookmark(1)], Duration::from_secs(3600)),
        Page(2, vec![], false),
    ])
    .await;
    assert_eq!(followed.requests, ["list", "watch 1", "list"]);
    assert_eq!(followed.events, ["+a", "synced", "-a uid-a", "synced"]);
}

/// After a break, a kind may have no events for a long time.
#[tokio::test(start_paused = true)]
async fn established_watch_beats_without_events() {
    let script = Arc::new(ScriptedServer {
        answers: Mutex::new(vec![Silence].into()),
        ..ScriptedServer::default()
    });
    let pulse = Pulse::default();
    let mut follower = Follower::new(script, Arc::<RecordingSink>::default(), pulse.clone());
    let minute = Duration::from_secs(60);
    tokio::time::advance(minute).await;
    assert!(
        tokio::time::timeout(minute, follower.watch())
            .await
            .is_err()
    );
    assert_eq!(pulse.age(), minute - MIN_WATCH_TIME);
}
