//! Objects in a list, and objects that a later list lacks.

use super::*;

#[tokio::test(start_paused = true)]
async fn object_is_deleted_when_a_later_list_lacks_it() {
    let followed = follow(vec![
        Page(2, vec![object("a", 1)], true),
        Page(2, vec![object("b", 2)], false),
        Watched(vec![
            added("c", 3),
            Ok(WatchEvent::Deleted(object("b", 4))),
            bookmark(5),
        ]),
        Page(5, vec![], false),
        Watched(vec![Ok(WatchEvent::Error(
            Status::failure("", "").with_code(410).boxed(),
        ))]),
        Page(6, vec![object("c", 3)], false),
    ])
    .await;
    assert_eq!(
        followed.events,
        [
            "+a", "+b", "synced", "+c", "-b uid-b", "+c", "-a uid-a", "synced"
        ]
    );
    // The follower resumes the watch, and lists again only once its version is gone.
    let requests = ["list", "list more", "watch 2", "compare", "watch 5", "list"];
    assert_eq!(followed.requests, requests);
}

#[tokio::test(start_paused = true)]
async fn object_of_a_broken_list_is_deleted_when_later_absent() {
    let followed = follow(vec![
        Page(1, vec![object("a", 1)], true),
        Refused(410),
        Page(2, vec![object("b", 2)], false),
    ])
    .await;
    assert_eq!(followed.events, ["+a", "+b", "-a uid-a", "synced"]);
}

#[tokio::test(start_paused = true)]
async fn unobserved_object_is_deleted_with_the_next_list() {
    let sink = Arc::<RecordingSink>::default();
    let found = |name, version| {
        let key = Key::new("", name);
        sink.store.insert_returned(key, config_map(name, version))
    };
    assert!(found("ghost", 5));
    assert!(found("new", 8));
    let followed = follow_into(vec![Page(7, vec![], false)], sink.clone()).await;
    assert_eq!(followed.events, ["-ghost uid-ghost", "synced"]);
    assert_eq!(sink.store.all().len(), 1);
}
