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
        let mut permits = Vec::new();
        while let Ok(permit) = limiter.semaphore.try_acquire() {
            permits.push(permit);
        }
        let debt = limiter.state.lock().debt;
        assert_eq!(permits.len(), limiter.limit() + debt);
    }
}

/// Takes all permits.
async fn take_all_permits(limiter: &Limiter) -> Vec<Permit<'_>> {
    let mut permits = Vec::new();
    for number in 0..limiter.limit() {
        permits.push(
            limiter
                .acquire(WritePriority::Normal, &number.to_string())
                .await,
        );
    }
    permits
}

#[tokio::test(start_paused = true)]
async fn low_priority_write_waits_until_few_writes_are_in_flight() {
    let limiter = Limiter::default();
    let mut permits = Vec::new();
    for _ in 0..=LOW_PRIORITY_THRESHOLD {
        permits.push(limiter.acquire(WritePriority::Normal, "ns").await);
    }
    let start = tokio::time::Instant::now();
    let pause = Duration::from_millis(100);
    let release_permits = async {
        for permit in permits.drain(..) {
            tokio::time::sleep(pause).await;
            permit.report(false);
        }
    };
    let acquire_low = async || {
        limiter.acquire(LOW_PRIORITY, "ns").await.report(false);
        start.elapsed()
    };
    let ((), first, second) = tokio::join!(release_permits, acquire_low(), acquire_low());
    assert_eq!(first.max(second), pause.saturating_mul(2));
}

#[tokio::test(start_paused = true)]
async fn low_priority_write_goes_after_all_waiting_normal_writes() {
    let limiter = Limiter::default();
    let mut permits = take_all_permits(&limiter).await;
    let order = Mutex::new(Vec::new());
    let write = async |name: &'static str, priority| {
        let permit = limiter.acquire(priority, "ns").await;
        order.lock().push(name);
        permit.report(false);
    };
    let start = tokio::time::Instant::now();
    let release_permits = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        permits.pop().unwrap().report(false);
        tokio::time::sleep(Duration::from_millis(100)).await;
        permits.clear();
    };
    tokio::join!(
        write("event", LOW_PRIORITY),
        write("status", LOW_PRIORITY),
        write("pod", WritePriority::Normal),
        write("another", WritePriority::Normal),
        release_permits,
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
    // Endless pod writes of more gangs than the limiter has permits.
    let pods = futures::future::join_all((0..=MAX_LIMIT).map(|number| async move {
        let namespace = number.to_string();
        loop {
            let permit = limiter.acquire(WritePriority::Normal, &namespace).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            permit.report(false);
        }
    }));
    let low_priority = async {
        let permit = limiter.acquire(LOW_PRIORITY, "ns").await;
        permit.report(false);
        start.elapsed()
    };
    let duration = tokio::select! {
        biased;
        _ = pods => Duration::MAX,
        duration = low_priority => duration,
    };
    let tolerance = Duration::from_secs(1);
    assert!(
        duration >= MAX_LOW_PRIORITY_WAIT
            && duration < MAX_LOW_PRIORITY_WAIT.saturating_add(tolerance),
        "{duration:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn earlier_waiting_time_of_a_low_priority_write_counts() {
    let limiter = Limiter::default();
    let mut permits = take_all_permits(&limiter).await;
    let start = Instant::now();
    let pause = Duration::from_millis(100);
    let release_permit = async {
        tokio::time::sleep(pause).await;
        permits.pop().unwrap().report(false);
    };
    let acquire_with = async |priority| {
        limiter.acquire(priority, "ns").await.report(false);
        start.elapsed()
    };
    let waited_long = WritePriority::Low {
        waited: MAX_LOW_PRIORITY_WAIT,
    };
    let ((), new_write, waited_long) = tokio::join!(
        release_permit,
        acquire_with(LOW_PRIORITY),
        acquire_with(waited_long)
    );
    // The write gets the first permit, although many writes are still in flight.
    assert_eq!(waited_long, pause);
    assert!(new_write > waited_long, "{new_write:?}");
}

#[tokio::test(start_paused = true)]
async fn low_priority_write_does_not_wait_for_hanging_writes() {
    let limiter = Limiter::default();
    let mut permits = Vec::new();
    for _ in 0..=LOW_PRIORITY_THRESHOLD {
        permits.push(limiter.acquire(WritePriority::Normal, "hangs").await);
    }
    let start = Instant::now();
    limiter.acquire(LOW_PRIORITY, "ns").await.report(false);
    let duration = start.elapsed();
    assert!(
        HANG_AFTER <= duration && duration <= HANG_AFTER + HANG_CHECK_INTERVAL,
        "{duration:?}"
    );
}

/// A namespace with hanging webhooks does not delay writes to other namespaces.
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
        let writes = share.saturating_mul(4);
        let start = Instant::now();
        let hanging = futures::future::join_all((0..writes).map(|_| async {
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
        let (_, waited) = tokio::join!(hanging, other);
        assert_eq!(waited, Duration::ZERO);
        // The API server processes all writes of the namespace, `share` at a time.
        assert_eq!(start.elapsed(), Duration::from_secs(40));
        assert!(limiter.state.lock().namespaces.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_wait_passes_the_namespace_permit_to_the_next_write() {
    let limiter = Limiter::default();
    let mut permits = Vec::new();
    for _ in 0..INITIAL_LIMIT / 4 * 3 {
        permits.push(limiter.acquire(WritePriority::Normal, "ns").await);
    }
    let second = Duration::from_secs(1);
    let mut first = Box::pin(limiter.acquire(WritePriority::Normal, "ns"));
    assert!(tokio::time::timeout(second, &mut first).await.is_err());
    let mut next = Box::pin(limiter.acquire(WritePriority::Normal, "ns"));
    assert!(tokio::time::timeout(second, &mut next).await.is_err());
    permits.pop();
    drop(first);
    assert!(tokio::time::timeout(second, next).await.is_ok());
}
