//! When a cycle decides and answers.

use super::*;

/// The operator loses the right to watch nodes, and gets it back.
#[tokio::test(start_paused = true)]
async fn driver_decides_nothing_while_a_watch_is_broken() {
    let mut driver = driver();
    let (before, later) = (Key::new("team-a", "before"), Key::new("team-a", "later"));
    let context = driver.committer.context().clone();
    let (nodes, _pods) = (context.cache.pulse("nodes"), context.cache.pulse("pods"));
    let no_jobs = BTreeSet::new();
    let mark_waiting = |driver: &mut Driver, job: &Key| {
        driver.gangs.entry(job.clone()).or_default().engine_state = EngineState::Waiting;
    };
    let explanation = |job: &Key| context.explanations.read().get(job).cloned();
    mark_waiting(&mut driver, &before);
    let minute = Duration::from_secs(60);
    for _ in 0..3 {
        assert!(!driver.is_watch_broken(&no_jobs));
        assert_eq!(driver.next_pause(), crate::driver::cycle::MAX_IDLE);
        tokio::time::advance(minute).await;
        context.cache.pulse("pods").beat();
    }
    assert!(driver.is_watch_broken(&no_jobs));
    let explained = explanation(&before).unwrap();
    assert_eq!(explained.reason, Reason::CacheNotReady);
    assert!(
        explained.message.contains("the watch of nodes"),
        "{explained:?}"
    );
    // The driver checks the watch again soon, even if the engine has no work.
    assert_eq!(driver.next_pause(), broken_watch::CHECK_INTERVAL);
    mark_waiting(&mut driver, &later);
    assert_eq!(explanation(&later), None);
    assert!(driver.is_watch_broken(&BTreeSet::from([later.clone()])));
    assert_eq!(explanation(&later), Some(explained));
    nodes.beat();
    assert!(!driver.is_watch_broken(&no_jobs));
    assert_eq!((explanation(&before), explanation(&later)), (None, None));
}

/// The restore takes the requests that came before it, and no event follows.
#[tokio::test]
async fn snapshot_asked_during_the_restore_is_answered() {
    let driver = driver();
    let context = driver.committer.context().clone();
    let (answer, snapshot) = oneshot::channel();
    context.send_event(SchedulerEvent::AskSnapshot(answer));
    context.cache.mark_kind_synced();
    tokio::spawn(driver.run());
    let answered = tokio::time::timeout(Duration::from_secs(10), snapshot).await;
    assert!(answered.is_ok_and(|snapshot| snapshot.is_ok()));
}
