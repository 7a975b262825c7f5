//! Objects and events that do not decode.

use super::*;

#[tokio::test(start_paused = true)]
async fn undecodable_object_does_not_stop_other_objects() {
    let followed = follow(vec![
        Page(
            2,
            vec![
                undecodable_item(Some("x"), Some(1)),
                undecodable_item(None, None),
                object("a", 2),
            ],
            false,
        ),
        Watched(vec![
            Ok(WatchEvent::Modified(undecodable_item(Some("a"), Some(3)))),
            added("b", 4),
            // The next event supplies the version that this event lacks.
            Ok(WatchEvent::Added(undecodable_item(None, None))),
            Ok(WatchEvent::Modified(undecodable_item(Some("b"), None))),
            Ok(WatchEvent::Deleted(undecodable_item(Some("x"), Some(7)))),
            Ok(WatchEvent::Deleted(undecodable_item(None, Some(8)))),
        ]),
        Page(8, vec![], false),
        Refused(410),
        Page(9, vec![undecodable_item(Some("b"), Some(6))], false),
    ])
    .await;
    let expected = [
        "?x broken",
        "+a",
        "synced", // Another of its name.
        "-a uid-a",
        "?a broken",
        "+b",
        "-b uid-b",
        "?b broken",
        "-x broken",
        // These objects are not in the list.
        "?b broken",
        "-a broken",
        "synced",
    ];
    assert_eq!(followed.events, expected);
    let requests = ["list", "watch 2", "compare", "watch 8", "list"];
    assert_eq!(followed.requests, requests);
}

/// The watch would return the same undecodable answer again and again.
#[tokio::test(start_paused = true)]
async fn undecodable_event_is_followed_by_a_list() {
    let garbage = || {
        let error = serde_json::from_str::<u8>("no").unwrap_err();
        Err(kube::Error::SerdeError(error))
    };
    let followed = follow(vec![
        Page(2, vec![], false),
        Watched(vec![garbage()]),
        Page(4, vec![object("a", 3)], false),
        Watched(vec![added("b", 5)]),
    ])
    .await;
    assert_eq!(followed.events, ["synced", "+a", "synced", "+b"]);
    assert_eq!(followed.requests, ["list", "watch 2", "list", "watch 4"]);
}
