//! TrainingJobs.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// If a lookup found the job in neither store, the job would count as deleted and lose its place.
#[tokio::test]
async fn job_stays_in_the_cache_while_its_decodability_alternates() {
    let case = ContextFixture::new();
    case.jobs(&[("a", "j", &[])]).await;
    let key = Key::new("a", "j");
    let job = case.context.cache.jobs.get(&key).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let lookups = scope.spawn(|| {
            let mut misses = 0;
            while !is_done.load(Ordering::Relaxed) {
                misses += usize::from(case.context.cache.job(&key).is_none());
            }
            misses
        });
        for _ in 0..20_000 {
            let undecodable = Undecodable {
                uid: "a-j".to_owned(),
                generation: None,
                error: String::new(),
            };
            Sink::<TrainingJob>::undecodable(&*case.sink, &key, undecodable);
            case.sink.apply(key.clone(), (*job).clone());
        }
        is_done.store(true, Ordering::Relaxed);
        assert_eq!(lookups.join().unwrap(), 0);
    });
}
