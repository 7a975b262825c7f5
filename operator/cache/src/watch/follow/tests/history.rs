//! Versions that go back, and API servers that lag behind.

use super::*;

/// etcd was restored from a backup: the last version that was seen is in the future.
#[tokio::test(start_paused = true)]
async fn follower_ends_when_the_version_goes_back() {
    // A watch from that version would send no events for a long time.
    let silent = follow(vec![
        Page(7, vec![object("a", 5)], false),
        Watched(vec![bookmark(9)]),
        Page(8, vec![], false),
        Page(8, vec![], false),
    ])
    .await;
    assert!(silent.stopped);
    assert_eq!(silent.requests, ["list", "watch 7", "compare", "compare"]);
    assert_eq!(silent.events, ["+a", "synced"]);

    let listed = follow(vec![
        Page(7, vec![object("a", 5)], false),
        Refused(410),
        Page(6, vec![object("a", 3)], false),
        Page(6, vec![object("a", 3)], false),
    ])
    .await;
    assert!(listed.stopped);
    assert_eq!(listed.events, ["+a", "synced"], "nothing of it is taken");

    // Objects of other kinds change, but none of this kind.
    let forward = follow(vec![
        Page(7, vec![], false),
        Watched(vec![bookmark(7)]),
        Page(9, vec![], false),
        Watched(vec![added("a", 8)]),
    ])
    .await;
    assert!(!forward.stopped);
    assert_eq!(forward.requests[3], "watch 7", "nothing is skipped");
}

/// One of several API servers may lag behind for a moment.
#[tokio::test(start_paused = true)]
async fn list_is_repeated_when_an_api_server_lags() {
    let followed = follow(vec![
        Page(7, vec![object("a", 5)], false),
        Watched(vec![bookmark(9)]),
        Page(8, vec![], false),
        Page(9, vec![], false),
        Refused(410),
        Page(8, vec![object("a", 5)], false),
        Page(9, vec![object("b", 9)], false),
    ])
    .await;
    assert!(!followed.stopped);
    assert_eq!(
        followed.events,
        ["+a", "synced", "+b", "-a uid-a", "synced"]
    );
    assert!(followed.duration >= 2 * MAX_SERVER_LAG);
}
