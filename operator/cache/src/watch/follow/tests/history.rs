//! Versions that go back, and API servers that lag behind.

use super::*;

/// etcd was restored from a backup: the last version that was seen is in the future.
#[tokio::test(start_paused = true)]
async fn a_history_that_goes_back_ends_it() {
    // A watch from that version would be silent for long.
    let silent = follow(vec![
        Page(7, vec![object("a", 5)], false),
        Watched(vec![bookmark(9)]),
        Page(8, vec![], false),
        Page(8, vec![], false),
    ])
    .await;
    assert!(silent.left);
    assert_eq!(silent.asked, ["list", "watch 7", "compare", "compare"]);
    assert_eq!(silent.said, ["+a", "synced"]);

    let listed = follow(vec![
        Page(7, vec![object("a", 5)], false),
        Refused(410),
        Page(6, vec![object("a", 3)], false),
        Page(6, vec![object("a", 3)], false),
    ])
    .await;
    assert!(listed.left);
    assert_eq!(listed.said, ["+a", "synced"], "nothing of it is taken");

    // Other kinds are written while this one does not change.
    let forward = follow(vec![
        Page(7, vec![], false),
        Watched(vec![bookmark(7)]),
        Page(9, vec![], false),
        Watched(vec![added("a", 8)]),
    ])
    .await;
    assert!(!forward.left);
    assert_eq!(forward.asked[3], "watch 7", "nothing is skipped");
}

/// One of several API servers may lag behind for a moment.
#[tokio::test(start_paused = true)]
async fn an_answer_from_before_is_asked_for_again() {
    let came = follow(vec![
        Page(7, vec![object("a", 5)], false),
        Watched(vec![bookmark(9)]),
        Page(8, vec![], false),
        Page(9, vec![], false),
        Refused(410),
        Page(8, vec![object("a", 5)], false),
        Page(9, vec![object("b", 9)], false),
    ])
    .await;
    assert!(!came.left);
    assert_eq!(came.said, ["+a", "synced", "+b", "-a uid-a", "synced"]);
    assert!(came.took >= 2 * BEHIND);
}
