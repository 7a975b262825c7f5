//! Snapshots whose scheduler is played by the test.

use std::sync::atomic::AtomicUsize;

use trellis_scheduler::Engine;

use super::super::encoding::Encoding;
use super::super::request::ObjectRequest;
use super::*;

fn turn() -> RequestTurn {
    let turns = Arc::new(tokio::sync::Semaphore::new(1));
    Arc::new(turns.try_acquire_owned().unwrap())
}

/// Returns a context whose scheduler has received no events.
fn context(asked: Arc<AtomicUsize>) -> Arc<Context> {
    let (context, mut heard) = Context::new();
    tokio::spawn(async move {
        loop {
            for feed in heard.next().await {
                match feed {
                    SchedulerEvent::AskSnapshot(answer) => {
                        asked.fetch_add(1, Ordering::SeqCst);
                        let _ = answer.send(Arc::new(Engine::new().snapshot()));
                    }
                    SchedulerEvent::AskQueues(answer) => drop(answer.send(BTreeMap::new())),
                    _ => {}
                }
            }
        }
    });
    context
}

#[tokio::test]
async fn abandoned_work_holds_its_turn_until_it_ends() {
    let view = SnapshotViews::default()
        .current(&context(Arc::default()))
        .await;
    let view = view.ok().unwrap();
    let turn = turn();
    let held = Arc::downgrade(&turn);
    let (go_on, is_told) = std::sync::mpsc::channel::<()>();
    let work = view.run(turn, move |_| is_told.recv());
    let late = tokio::time::timeout(Duration::from_millis(50), work);
    assert!(late.await.is_err());
    assert!(held.upgrade().is_some(), "it is still at work");
    go_on.send(()).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while held.upgrade().is_some() {
        assert!(Instant::now() < deadline, "it is done");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn waiting_explanation_does_not_block_row_requests() {
    let view = SnapshotViews::default()
        .current(&context(Arc::default()))
        .await;
    let view = view.ok().unwrap();
    let other = view.explainer.clone().lock_owned().await;
    let waits = view.explain(Key::new("a", "b"), turn());
    let late = tokio::time::timeout(Duration::from_millis(50), waits);
    assert!(late.await.is_err());
    let rows = view.run(turn(), |view| {
        view.jobs()
            .list(&ObjectRequest::get("/jobstates"), Encoding::Plain)
            .is_ok()
    });
    assert!(rows.await.ok().unwrap());
    drop(other);
    assert!(view.waiting(turn()).await.is_ok());
}

#[tokio::test]
async fn snapshot_view_is_shared_while_fresh_and_dropped_when_idle() {
    let asked = Arc::new(AtomicUsize::new(0));
    let context = context(asked.clone());
    let looks = SnapshotViews::default();
    let (one, other) = tokio::join!(looks.current(&context), looks.current(&context));
    let (one, other) = (one.ok().unwrap(), other.ok().unwrap());
    assert!(Arc::ptr_eq(&one, &other));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let result = one.explain(Key::new("a", "nobody"), turn()).await;
    assert!(result.ok().unwrap().is_none());
    let last = Arc::downgrade(&one);
    drop((one, other));
    tokio::time::pause();
    tokio::time::sleep(ANSWER_TTL.saturating_mul(2)).await;
    let next = looks.current(&context).await.ok().unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 2, "the first was old");
    assert!(last.upgrade().is_none(), "the next has taken its place");
    let last = Arc::downgrade(&next);
    drop(next);
    tokio::time::sleep(IDLE_TTL.saturating_mul(2)).await;
    assert!(last.upgrade().is_none(), "nobody asks any more");
}
