use super::*;

const AFTER_OTHERS: Turn = Turn::AfterOthers {
    waited: Duration::ZERO,
};

async fn one(limiter: &Limiter, pushed_back: bool) {
    let permit = limiter.acquire(Turn::InOrder, "ns").await;
    permit.report(pushed_back);
}

#[tokio::test]
async fn grows_while_all_is_well_and_halves_on_push_back() {
    let limiter = Limiter::default();
    for _ in 0..10_000 {
        one(&limiter, false).await;
    }
    assert_eq!(limiter.limit(), MOST);
    one(&limiter, true).await;
    assert_eq!(limiter.limit(), MOST / 2);
    for _ in 0..100 {
        one(&limiter, true).await;
    }
    assert_eq!(limiter.limit(), LEAST);
}

#[tokio::test]
async fn never_lets_more_through_than_the_limit() {
    let limiter = Limiter::default();
    for pushed_back in [true, false, true, true, false] {
        for _ in 0..200 {
            one(&limiter, pushed_back).await;
        }
        let mut held = Vec::new();
        while let Ok(permit) = limiter.semaphore.try_acquire() {
            held.push(permit);
        }
        let debt = limiter.state.lock().debt;
        assert_eq!(held.len(), limiter.limit() + debt);
    }
}

/// Takes all permits there are.
async fn all(limiter: &Limiter) -> Vec<Permit<'_>> {
    let mut held = Vec::new();
    for number in 0..limiter.limit() {
        held.push(limiter.acquire(Turn::InOrder, &number.to_string()).await);
    }
    held
}

#[tokio::test(start_paused = true)]
async fn a_write_that_lets_others_go_first_waits_until_few_are_in_flight() {
    let limiter = Limiter::default();
    let mut held = Vec::new();
    for _ in 0..=FEW {
        held.push(limiter.acquire(Turn::InOrder, "ns").await);
    }
    let start = tokio::time::Instant::now();
    let pause = Duration::from_millis(100);
    let free = async {
        for permit in held.drain(..) {
            tokio::time::sleep(pause).await;
            permit.report(false);
        }
    };
    let take = async || {
        limiter.acquire(AFTER_OTHERS, "ns").await.report(false);
        start.elapsed()
    };
    let ((), one, two) = tokio::join!(free, take(), take());
    assert_eq!(one.max(two), pause.saturating_mul(2));
}

#[tokio::test(start_paused = true)]
async fn it_waits_for_a_permit_that_nobody_wants() {
    let limiter = Limiter::default();
    let mut held = all(&limiter).await;
    let order = Mutex::new(Vec::new());
    let write = async |name: &'static str, turn| {
        let permit = limiter.acquire(turn, "ns").await;
        order.lock().push(name);
        permit.report(false);
    };
    let start = tokio::time::Instant::now();
    let free = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        held.pop().unwrap().report(false);
        tokio::time::sleep(Duration::from_millis(100)).await;
        held.clear();
    };
    tokio::join!(
        write("event", AFTER_OTHERS),
        write("status", AFTER_OTHERS),
        write("pod", Turn::InOrder),
        write("another", Turn::InOrder),
        free,
    );
    assert_eq!(*order.lock(), ["pod", "another", "event", "status"]);
    // Not once their patience ends: as soon as it is calm.
    assert_eq!(start.elapsed(), Duration::from_millis(200));
}

#[tokio::test(start_paused = true)]
async fn it_waits_no_longer_than_its_patience() {
    let limiter = &Limiter::default();
    let start = tokio::time::Instant::now();
    // Pods without end, of more gangs than there will ever be permits.
    let pods = futures::future::join_all((0..=MOST).map(|number| async move {
        let namespace = number.to_string();
        loop {
            let permit = limiter.acquire(Turn::InOrder, &namespace).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            permit.report(false);
        }
    }));
    let told = async {
        let permit = limiter.acquire(AFTER_OTHERS, "ns").await;
        permit.report(false);
        start.elapsed()
    };
    let took = tokio::select! {
        biased;
        _ = pods => Duration::MAX,
        took = told => took,
    };
    let next = Duration::from_secs(1);
    assert!(
        took >= PATIENCE && took < PATIENCE.saturating_add(next),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn who_has_waited_elsewhere_has_waited() {
    let limiter = Limiter::default();
    let mut held = all(&limiter).await;
    let start = Instant::now();
    let soon = Duration::from_millis(100);
    let free = async {
        tokio::time::sleep(soon).await;
        held.pop().unwrap().report(false);
    };
    let take = async |turn| {
        limiter.acquire(turn, "ns").await.report(false);
        start.elapsed()
    };
    let late = Turn::AfterOthers { waited: PATIENCE };
    let ((), early, late) = tokio::join!(free, take(AFTER_OTHERS), take(late));
    // With the first permit, though it is not calm yet.
    assert_eq!(late, soon);
    assert!(early > late, "{early:?}");
}

#[tokio::test(start_paused = true)]
async fn writes_that_hang_are_none_that_it_waits_for() {
    let limiter = Limiter::default();
    let mut held = Vec::new();
    for _ in 0..=FEW {
        held.push(limiter.acquire(Turn::InOrder, "hangs").await);
    }
    let start = Instant::now();
    limiter.acquire(AFTER_OTHERS, "ns").await.report(false);
    let took = start.elapsed();
    assert!(HANGS <= took && took <= HANGS + LOOK, "{took:?}");
}

/// A namespace whose webhooks hang does not hold up writes to other namespaces.
#[tokio::test(start_paused = true)]
async fn one_namespace_never_has_all_permits() {
    let limiter = Limiter::default();
    for pushed_back in [false, true] {
        if pushed_back {
            for _ in 0..10 {
                one(&limiter, true).await;
            }
            assert_eq!(limiter.limit(), LEAST);
        }
        let share: usize = if pushed_back { 1 } else { FIRST / 4 * 3 };
        let many = share.saturating_mul(4);
        let start = Instant::now();
        let hang = futures::future::join_all((0..many).map(|_| async {
            let permit = limiter.acquire(Turn::InOrder, "hangs").await;
            tokio::time::sleep(Duration::from_secs(10)).await;
            permit.report(false);
        }));
        let other = async {
            tokio::task::yield_now().await;
            let permit = limiter.acquire(Turn::InOrder, "other").await;
            permit.report(false);
            start.elapsed()
        };
        let (_, waited) = tokio::join!(hang, other);
        assert_eq!(waited, Duration::ZERO);
        // They are carried out all the same, so many at a time.
        assert_eq!(start.elapsed(), Duration::from_secs(40));
        assert!(limiter.state.lock().namespaces.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn who_stops_waiting_for_its_namespace_leaves_its_turn_to_the_next() {
    let limiter = Limiter::default();
    let mut held = Vec::new();
    for _ in 0..FIRST / 4 * 3 {
        held.push(limiter.acquire(Turn::InOrder, "ns").await);
    }
    let second = Duration::from_secs(1);
    let mut first = Box::pin(limiter.acquire(Turn::InOrder, "ns"));
    assert!(tokio::time::timeout(second, &mut first).await.is_err());
    let mut next = Box::pin(limiter.acquire(Turn::InOrder, "ns"));
    assert!(tokio::time::timeout(second, &mut next).await.is_err());
    held.pop();
    drop(first);
    assert!(tokio::time::timeout(second, next).await.is_ok());
}
