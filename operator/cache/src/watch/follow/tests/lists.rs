//! Objects in a list, and objects that a later list lacks.

use super::*;

#[tokio::test(start_paused = true)]
async fn what_a_later_list_leaves_out_is_gone() {
    let came = follow(vec![
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
        came.said,
        [
            "+a", "+b", "synced", "+c", "-b uid-b", "+c", "-a uid-a", "synced"
        ]
    );
    // The follower resumes the watch, and lists again only once its version is gone.
    let asked = ["list", "list more", "watch 2", "compare", "watch 5", "list"];
    assert_eq!(came.asked, asked);
}

#[tokio::test(start_paused = true)]
async fn what_a_list_showed_before_it_broke_off_is_gone_when_the_next_leaves_it_out() {
    let came = follow(vec![
        Page(1, vec![object("a", 1)], true),
        Refused(410),
        Page(2, vec![object("b", 2)], false),
    ])
    .await;
    assert_eq!(came.said, ["+a", "+b", "-a uid-a", "synced"]);
}

#[tokio::test(start_paused = true)]
async fn what_came_and_went_unseen_is_gone_with_the_next_list() {
    let heard = Arc::<Heard>::default();
    let found = |name, version| {
        let key = Key::new("", name);
        heard.store.found(key, config_map(name, version))
    };
    assert!(found("ghost", 5));
    assert!(found("new", 8));
    let came = follow_into(vec![Page(7, vec![], false)], heard.clone()).await;
    assert_eq!(came.said, ["-ghost uid-ghost", "synced"]);
    assert_eq!(heard.store.all().len(), 1);
}
