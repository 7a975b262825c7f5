//! Writes that end because the lease ends, or because no answer comes.

use k8s_openapi::api::core::v1::{Node, Pod};

use super::*;

#[test]
fn namespace_is_read_from_an_object_path() {
    assert_eq!(namespace_of(&Pod::url_path(&(), Some("team-a"))), "team-a");
    assert_eq!(namespace_of(&Node::url_path(&(), None)), "");
}

fn commands(leadership: Leadership) -> Commands {
    let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    Commands::new(Client::try_from(nowhere).unwrap(), leadership)
}

/// Otherwise a connection that is still being opened could lead to a write after the lease.
#[tokio::test]
async fn write_ends_when_the_lease_ends() {
    let lease = std::time::Duration::from_millis(300);
    let start = Instant::now();
    let commands = commands(Leadership::with_remaining(lease));
    assert!(commands.leadership.request_time() > lease * 10);
    let write = commands.write("ns", std::future::pending::<kube::Result<()>>());
    let error = write.await.unwrap_err();
    assert!(matches!(error, WriteError::Unanswered(_)), "{error}");
    let duration = start.elapsed();
    assert!(lease <= duration && duration < lease * 10, "{duration:?}");
}

#[tokio::test(start_paused = true)]
async fn unanswered_write_times_out_and_counts_as_push_back() {
    let commands = commands(Leadership::for_test());
    for (effect, is_lower) in [(WriteEffect::None, false), (WriteEffect::Persistent, true)] {
        let (start, limit) = (Instant::now(), commands.limiter.limit());
        let never = std::future::pending::<kube::Result<()>>();
        let error = commands
            .write_with_effect(effect, "ns", never)
            .await
            .unwrap_err();
        assert!(matches!(error, WriteError::Unanswered(_)), "{error}");
        assert_eq!(start.elapsed(), commands.leadership.request_time());
        assert_eq!(commands.limiter.limit() < limit, is_lower);
    }
}
