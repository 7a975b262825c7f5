//! TrainingJobs.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// A lookup that found the job in neither store would count it as gone and give its place away.
#[tokio::test]
async fn job_stays_in_the_cache_while_its_decodability_alternates() {
    let case = ContextFixture::new();
    case.jobs(&[("a", "j", &[])]).await;
    let key = Key::new("a", "j");
    let job = case.context.cache.jobs.get(&key).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let mut gone = 0;
            while !over.load(Ordering::Relaxed) {
                gone += usize::from(case.context.cache.job(&key).is_none());
            }
            gone
        });
        for _ in 0..20_000 {
            let broken = Undecodable {
                uid: "a-j".to_owned(),
                generation: None,
                error: String::new(),
            };
            Sink::<TrainingJob>::undecodable(&*case.sink, &key, broken);
            case.sink.apply(key.clone(), (*job).clone());
        }
        over.store(true, Ordering::Relaxed);
        assert_eq!(looks.join().unwrap(), 0);
    });
}
