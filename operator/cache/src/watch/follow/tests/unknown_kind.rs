//! API servers that do not know a kind.

use super::*;

/// The kind exists in every cluster: a 404 means that the API server, or a proxy in front of it, is
/// broken.
#[tokio::test(start_paused = true)]
async fn unknown_kind_keeps_objects_when_the_kind_is_required() {
    let followed = follow(vec![
        Refused(404),
        Page(1, vec![object("a", 1)], false),
        Refused(404),
        Refused(404),
        Page(1, vec![], false),
        Watched(vec![added("b", 2)]),
    ])
    .await;
    assert_eq!(followed.events, ["+a", "synced", "+b"]);
    let requests = ["list", "list", "watch 1", "compare", "compare", "watch 1"];
    assert_eq!(followed.requests, requests);
}

#[tokio::test(start_paused = true)]
async fn unknown_optional_kind_has_no_objects() {
    let answers = vec![
        Refused(404),
        Refused(403),
        Page(1, vec![object("a", 1)], false),
        Refused(404),
        Refused(404),
        Page(2, vec![], false),
    ];
    let followed = follow_into(answers, Arc::<RecordingSink<true>>::default()).await;
    let expected = ["unknown", "+a", "synced", "-a uid-a", "unknown", "unknown"];
    assert_eq!(followed.events[..6], expected);
    assert_eq!(followed.requests[4..], ["list", "list"]);
}
