use super::*;

const LOW_PRIORITY: WritePriority = WritePriority::Low {
    waited: Duration::ZERO,
};

async fn write_once(limiter: &Limiter, pushed_back: bool) {
    let permit = limiter.acquire(WritePriority::Normal, "ns").await;
    permit.report(pushed_back);
}

#[tokio::test]
async fn limit_grows_on_success_and_halves_on_push_back() {
    let limiter = Limiter::default();
    for _ in 0..10_000 {
        write_once(&limiter, false).await;
    }
    assert_eq!(limiter.limit(), MAX_LIMIT);
    write_once(&limiter, true).await;
    assert_eq!(limiter.limit(), MAX_LIMIT / 2);
    for _ in 0..100 {
        write_once(&limiter, true).await;
    }
    assert_eq!(limiter.limit(), MIN_LIMIT);
}

#[tokio::test]
async fn permits_never_exceed_the_limit() {
    let limiter = Limiter::default();
    for pushed_back in [true, false, true, true, false] {
        for _ in 0..200 {
            write_once(&limiter, pushed_back).await;
        }
        let mut held = Vec::new();
        while let Ok(permit) = limiter.semaphore.try_acquire() {
            held.push(permit);
        }
        let debt = limiter.state.lock().debt;
        assert_eq!(held.len(), limiter.limit() + debt);
    }
}

/// Takes all permits.
async fn take_all_permits(limiter: &Limiter) -> Vec<Permit<'_>> {
    let mut held = Vec::new();
    for number in 0..limiter.limit() {
        held.push(
            limiter
                .acquire(WritePriority::Normal, &number.to_string())
                .await,
        );
    }
    held
}

#[tokio::test(start_paused = true)]
async fn low_priority_write_waits_until_few_writes_are_in_flight() {
    let limiter = Limiter::default();
    let mut held = Vec::new();
    for _ in 0..=LOW_PRIORITY_THRESHOLD {
        held.push(limiter.acquire(WritePriority::Normal, "ns").await);
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
        limiter.acquire(LOW_PRIORITY, "ns").await.report(false);
        start.elapsed()
    };
    let ((), one, two) = tokio::join!(free, take(), take());
    assert_eq!(one.max(two), pause.saturating_mul(2));
}

#[tokio::test(start_paused = true)]
async fn low_priority_write_goes_after_all_waiting_normal_writes() {
    let limiter = Limiter::default();
    let mut held = take_all_permits(&limiter).await;
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
        write("event", LOW_PRIORITY),
        write("status", LOW_PRIORITY),
        write("pod", WritePriority::Normal),
        write("another", WritePriority::Normal),
        free,
    );
    assert_eq!(*order.lock(), ["pod", "another", "event", "status"]);
    // The low-priority writes run as soon as few writes are in flight, before their longest wait
    // ends.
    assert_eq!(start.elapsed(), Duration::from_millis(200));
}

#[tokio::test(start_paused = true)]
async fn low_priority_write_gets_a_permit_after_the_maximum_wait() {
    let limiter = &Limiter::default();
    let start = tokio::time::Instant::now();
    // An endless stream of pod writes, of more gangs than there can be permits.
    let pods = futures::future::join_all((0..=MAX_LIMIT).map(|number| async move {
        let namespace = number.to_string();
        loop {
            let permit = limiter.acquire(WritePriority::Normal, &namespace).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            permit.report(false);
        }
    }));
    let told = async {
        let permit = limiter.acquire(LOW_PRIORITY, "ns").await;
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
        took >= MAX_LOW_PRIORITY_WAIT && took < MAX_LOW_PRIORITY_WAIT.saturating_add(next),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn earlier_waiting_time_of_a_low_priority_write_counts() {
    let limiter = Limiter::default();
    let mut held = take_all_permits(&limiter).await;
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
    let late = WritePriority::Low {
        waited: MAX_LOW_PRIORITY_WAIT,
    };
    let ((), early, late) = tokio::join!(free, take(LOW_PRIORITY), take(late));
    // The write gets the first permit, although many writes are still in flight.
    assert_eq!(late, soon);
    assert!(early > late, "{early:?}");
}

#[tokio::test(start_paused = true)]
async fn low_priority_write_does_not_wait_for_hanging_writes() {
    let limiter = Limiter::default();
    let mut held = Vec::new();
    for _ in 0..=LOW_PRIORITY_THRESHOLD {
        held.push(limiter.acquire(WritePriority::Normal, "hangs").await);
    }
    let start = Instant::now();
    limiter.acquire(LOW_PRIORITY, "ns").await.report(false);
    let took = start.elapsed();
    assert!(
        HANG_AFTER <= took && took <= HANG_AFTER + HANG_CHECK_INTERVAL,
        "{took:?}"
    );
}

/// A namespace whose webhooks hang does not hold up writes to other namespaces.
#[tokio::test(start_paused = true)]
async fn namespace_never_takes_all_permits() {
    let limiter = Limiter::default();
    for pushed_back in [false, true] {
        if pushed_back {
            for _ in 0..10 {
                write_once(&limiter, true).await;
            }
            assert_eq!(limiter.limit(), MIN_LIMIT);
        }
        let share: usize = if pushed_back {
            1
        } else {
            INITIAL_LIMIT / 4 * 3
        };
        let many = share.saturating_mul(4);
        let start = Instant::now();
        let hang = futures::future::join_all((0..many).map(|_| async {
            let permit = limiter.acquire(WritePriority::Normal, "hangs").await;
            tokio::time::sleep(Duration::from_secs(10)).await;
            permit.report(false);
        }));
        let other = async {
            tokio::task::yield_now().await;
            let permit = limiter.acquire(WritePriority::Normal, "other").await;
            permit.report(false);
            start.elapsed()
        };
        let (_, waited) = tokio::join!(hang, other);
        assert_eq!(waited, Duration::ZERO);
        // The server still processes all of them, this many at a time.
        assert_eq!(start.elapsed(), Duration::from_secs(40));
        assert!(limiter.state.lock().namespaces.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_wait_passes_the_namespace_permit_to_the_next_write() {
    let limiter = Limiter::default();
    let mut held = Vec::new();
    for _ in 0..INITIAL_LIMIT / 4 * 3 {
        held.push(limiter.acquire(WritePriority::Normal, "ns").await);
    }
    let second = Duration::from_secs(1);
    let mut first = Box::pin(limiter.acquire(WritePriority::Normal, "ns"));
    assert!(tokio::time::timeout(second, &mut first).await.is_err());
    let mut next = Box::pin(limiter.acquire(WritePriority::Normal, "ns"));
    assert!(tokio::time::timeout(second, &mut next).await.is_err());
    held.pop();
    drop(first);
    assert!(tokio::time::timeout(second, next).await.is_ok());
}
