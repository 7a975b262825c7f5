//! API servers that do not know a kind.

use super::*;

/// The kind exists in every cluster: a 404 means that the API server, or a proxy in front of it, is
/// broken.
#[tokio::test(start_paused = true)]
async fn an_api_server_that_knows_nothing_of_a_kind_takes_nothing_away() {
    let came = follow(vec![
        Refused(404),
        Page(1, vec![object("a", 1)], false),
        Refused(404),
        Refused(404),
        Page(1, vec![], false),
        Watched(vec![added("b", 2)]),
    ])
    .await;
    assert_eq!(came.said, ["+a", "synced", "+b"]);
    let asked = ["list", "list", "watch 1", "compare", "compare", "watch 1"];
    assert_eq!(came.asked, asked);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_a_cluster_may_be_without_has_no_objects_there() {
    let answers = vec![
        Refused(404),
        Refused(403),
        Page(1, vec![object("a", 1)], false),
        Refused(404),
        Refused(404),
        Page(2, vec![], false),
    ];
    let came = follow_into(answers, Arc::<Heard<true>>::default()).await;
    let said = ["unknown", "+a", "synced", "-a uid-a", "unknown", "unknown"];
    assert_eq!(came.said[..6], said);
    assert_eq!(came.asked[4..], ["list", "list"]);
}
