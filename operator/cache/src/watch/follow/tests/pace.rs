//! When a broken watch or list is tried again.

use super::*;

#[tokio::test(start_paused = true)]
async fn lists_that_fail_are_tried_again_later_each_time() {
    let came = follow((0..10).map(|_| Refused(503)).collect()).await;
    assert_eq!(came.took, tens_of_pauses());
}

/// Ten pauses: 0.2 + 0.4 + ... + 12.8, then 15 each.
fn tens_of_pauses() -> Duration {
    Duration::from_millis(25_400 + 3 * 15_000)
}

/// A list that succeeds does not prove that the watch works.
#[tokio::test(start_paused = true)]
async fn lists_whose_watches_are_refused_are_tried_again_later_each_time() {
    let mut answers = Vec::new();
    for _ in 0..10 {
        answers.push(Page(1, vec![], false));
        answers.push(Refused(410));
    }
    assert_eq!(follow(answers).await.took, tens_of_pauses());
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_are_tried_again_later_each_time() {
    let mut answers = Vec::new();
    for _ in 0..10 {
        answers.push(Page(1, vec![], false));
        answers.push(Watched(vec![]));
    }
    assert_eq!(follow(answers).await.took, tens_of_pauses());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_has_shown_something_or_lasted_ends_as_it_should() {
    let mut answers = Vec::new();
    for _ in 0..5 {
        answers.push(Page(1, vec![], false));
        answers.push(Slow(vec![], AT_ONCE));
        answers.push(Page(1, vec![], false));
        answers.push(Watched(vec![bookmark(1)]));
    }
    let took = follow(answers).await.took;
    assert_eq!(took, 5 * AT_ONCE + 10 * FIRST_PAUSE);
}

/// A server that sends bookmarks sends one a minute.
#[tokio::test(start_paused = true)]
async fn a_watch_that_falls_silent_is_broken() {
    let silence = Duration::from_secs(3600);
    let answers = vec![
        Slow(vec![], silence),
        Slow(vec![bookmark(1)], silence),
        Silence,
    ];
    let script = Arc::new(Script {
        answers: Mutex::new(answers.into()),
        ..Script::default()
    });
    let mut follower = Follower::new(script, Arc::<Heard>::default(), Pulse::default());
    let mut ends = Vec::new();
    for _ in 0..3 {
        let began = Instant::now();
        ends.push(follower.watch().await.is_ok());
        assert_eq!(began.elapsed(), WATCH_SILENCE);
    }
    assert_eq!(ends, [true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_has_been_healthy_starts_over_at_once() {
    let mut answers = vec![Page(1, vec![], false)];
    for version in 1..=10 {
        answers.push(Watched(vec![
            added("a", version),
            Err(kube::Error::LinesCodecMaxLineLengthExceeded),
        ]));
        answers.push(Page(version, vec![], false));
    }
    assert_eq!(follow(answers).await.took, 10 * FIRST_PAUSE);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_answered_is_asked_again() {
    let came = follow(vec![
        Page(1, vec![object("a", 1)], true),
        Silence,
        Page(2, vec![object("b", 2)], false),
        // The watch stalls, and then the comparison gets no answer.
        Silence,
        Silence,
        Page(2, vec![], false),
        Watched(vec![added("c", 3)]),
    ])
    .await;
    assert_eq!(came.said, ["+a", "+b", "-a uid-a", "synced", "+c"]);
    let asked = [
        "list",
        "list more",
        "list",
        "watch 2",
        "compare",
        "compare",
        "watch 2",
    ];
    assert_eq!(came.asked, asked);
}

/// Without permission to watch, the follower receives no events although lists succeed.
#[tokio::test(start_paused = true)]
async fn a_list_an_event_and_an_end_as_it_should_be_are_signs_of_life_and_a_comparison_is_none() {
    // Each round compares successfully, and then the watch is refused.
    let broken = || {
        let mut answers = vec![Page(1, vec![], false)];
        for _ in 0..10 {
            answers.extend([Refused(403), Page(1, vec![], false)]);
        }
        answers
    };
    let came = follow(broken()).await;
    assert_eq!(came.asked.iter().filter(|a| *a == "compare").count(), 10);
    assert_eq!(came.age, came.took);
    assert!(came.age > Duration::from_secs(60), "{:?}", came.age);
    for sign in [
        vec![Watched(vec![added("a", 2)]), Refused(403)],
        vec![Watched(vec![bookmark(2)]), Refused(403)],
        vec![Slow(vec![], AT_ONCE), Refused(403)],
        vec![Refused(410), Page(2, vec![], false)],
    ] {
        let mut answers = broken();
        answers.extend(sign);
        let came = follow(answers).await;
        assert!(came.age < Duration::from_secs(20), "{:?}", came.asked);
        assert!(came.took > Duration::from_secs(60));
    }
}

/// A watch that has gone silent may have missed events.
#[tokio::test(start_paused = true)]
async fn after_a_silence_everything_is_listed() {
    let came = follow(vec![
        Page(1, vec![object("a", 1)], false),
        Slow(vec![bookmark(1)], Duration::from_secs(3600)),
        Page(2, vec![], false),
    ])
    .await;
    assert_eq!(came.asked, ["list", "watch 1", "list"]);
    assert_eq!(came.said, ["+a", "synced", "-a uid-a", "synced"]);
}

/// After a break a kind may have no events for long.
#[tokio::test(start_paused = true)]
async fn a_watch_that_does_not_end_at_once_lives() {
    let script = Arc::new(Script {
        answers: Mutex::new(vec![Silence].into()),
        ..Script::default()
    });
    let pulse = Pulse::default();
    let mut follower = Follower::new(script, Arc::<Heard>::default(), pulse.clone());
    let minute = Duration::from_secs(60);
    tokio::time::advance(minute).await;
    assert!(
        tokio::time::timeout(minute, follower.watch())
            .await
            .is_err()
    );
    assert_eq!(pulse.age(), minute - AT_ONCE);
}
