//! Tests of when heads become stale, and of the report of reservations.

use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::*;
use crate::backfill::plan::StartPlan;
use crate::gang::Gang;
use crate::placement::Placement;
use crate::queueing::WaitKind;
use crate::quota::Demand;
use crate::state::{Catalog, QueueIdx};

fn gang(at: usize) -> Gang {
    let id = GangId::new(format!("ns/{at}"));
    Gang::new(id, QueueName::new("q"), Vec::new())
}

fn head(at: usize, first_end: Option<i64>) -> Head {
    let end = first_end.map(Time::from_millis);
    Head {
        gang_idx: GangIdx::of(at),
        key: OrderKey::for_gang(&gang(at)),
        gang: Arc::new(gang(at)),
        demand: Demand::default(),
        usable_nodes: FixedBitSet::new(),
        plan: StartPlan {
            start: end,
            first_end: end,
            groups: Vec::new(),
            reserved_room: Vec::new(),
        },
        placement: Placement::new(),
    }
}

fn quota_head(at: usize, first_end: Option<i64>) -> QuotaHead {
    QuotaHead::from_head(&head(at, first_end), QueueIdx::of(0))
}

/// Blocks a gang that waits for quota or for room.
fn block(table: &mut ReservationTable, at: usize, kind: WaitKind) -> bool {
    let gang = gang(at);
    let shape = Catalog::default().acquire_shape(&gang);
    let mut blocked = BlockedGang::new(&gang.queue, OrderKey::for_gang(&gang));
    blocked.add(kind, 0, &shape);
    table.insert_blocked(GangIdx::of(at), blocked)
}

/// Computes the heads: these.
fn renew(table: &mut ReservationTable, heads: impl IntoIterator<Item = Head>) {
    table.start_renewal(0);
    heads.into_iter().for_each(|head| table.push_head(head));
}

#[test]
fn heads_expire_after_the_first_end_that_they_rely_on() {
    let mut table = ReservationTable::default();
    renew(
        &mut table,
        [head(0, Some(9)), head(1, Some(4)), head(2, None)],
    );
    let after = Time::from_millis(5);
    assert_eq!(table.expires_at(), Some(after));
    table.check(Time::from_millis(4), 0);
    assert!(!table.is_stale());
    table.check(Time::from_millis(4), 1);
    assert!(table.is_stale(), "packing has changed");
    renew(&mut table, [head(1, Some(4))]);
    table.check(after, 0);
    assert!(table.is_stale(), "the end is over");
    renew(&mut table, []);
    table.set_first_quota_end(Some(Time::from_millis(2)));
    assert_eq!(table.expires_at(), Some(Time::from_millis(3)));
}

#[test]
fn start_that_respects_the_heads_leaves_them_valid_but_not_settled() {
    let mut table = ReservationTable::default();
    renew(&mut table, [head(0, None)]);
    assert!(table.is_settled());
    table.note_start(true);
    assert!(!table.is_stale() && !table.is_settled());
    table.note_start(false);
    table.note_start(true);
    assert!(table.is_stale(), "only a new computation settles it");
}

#[test]
fn quota_head_goes_with_its_gang_and_when_an_earlier_gang_waits() {
    let mut table = ReservationTable::default();
    let queue = QueueName::new("q");
    assert!(block(&mut table, 5, WaitKind::Quota));
    assert!(!block(&mut table, 5, WaitKind::Quota), "this is known");
    table.insert_quota_head(queue.clone(), quota_head(5, None));
    table.note_quota_wait(&queue, &OrderKey::for_gang(&gang(7)));
    assert!(table.quota_head(&queue).is_some() && !table.is_stale());
    table.note_quota_wait(&queue, &OrderKey::for_gang(&gang(3)));
    assert!(table.quota_head(&queue).is_none() && table.is_stale());
    renew(&mut table, []);
    table.insert_quota_head(queue.clone(), quota_head(5, None));
    table.remove_blocked(GangIdx::of(5));
    assert!(table.quota_head(&queue).is_none() && table.is_stale());
}

#[test]
fn quota_head_expires_alone_and_is_dropped_by_each_change() {
    let mut table = ReservationTable::default();
    let queue = QueueName::new("q");
    table.insert_quota_head(queue.clone(), quota_head(0, Some(4)));
    table.check(Time::from_millis(4), 0);
    assert!(table.quota_head(&queue).is_some());
    let aside = table.set_quota_heads_aside();
    assert!(table.quota_head(&queue).is_none());
    table.put_back_quota_heads(aside);
    table.check(Time::from_millis(5), 0);
    assert!(table.quota_head(&queue).is_none() && !table.is_stale());
    table.insert_quota_head(queue.clone(), quota_head(0, None));
    table.mark_heads_stale();
    assert!(table.quota_head(&queue).is_some());
    table.mark_stale();
    assert!(table.quota_head(&queue).is_none());
}

#[test]
fn removal_of_a_head_or_of_the_first_gang_of_a_pool_makes_heads_stale() {
    let mut table = ReservationTable::default();
    block(&mut table, 1, WaitKind::Capacity);
    block(&mut table, 2, WaitKind::Capacity);
    renew(&mut table, [head(0, None)]);
    table.remove_blocked(GangIdx::of(2));
    assert!(!table.is_stale(), "another gang is first");
    table.remove_blocked(GangIdx::of(1));
    assert!(table.is_stale());
    renew(&mut table, [head(0, None)]);
    table.remove_blocked(GangIdx::of(0));
    assert!(table.is_stale(), "it was head");
}

#[test]
fn report_names_only_new_and_changed_reservations() {
    let mut table = ReservationTable::default();
    let reported = |table: &mut ReservationTable| {
        let news = table.report().into_iter();
        news.map(|r| r.gang.as_str().to_owned()).collect::<Vec<_>>()
    };
    renew(&mut table, [head(0, Some(1)), head(1, Some(1))]);
    assert_eq!(reported(&mut table), ["ns/0", "ns/1"]);
    assert!(reported(&mut table).is_empty());
    let before = table.start_renewal(0).unwrap();
    table.push_head(head(0, Some(1)));
    table.push_head(head(1, Some(2)));
    assert!(table.differs_from(&before));
    assert_eq!(reported(&mut table), ["ns/1"]);
    renew(&mut table, [head(1, Some(2))]);
    assert!(reported(&mut table).is_empty());
    assert_eq!(
        table.reported().len(),
        1,
        "the other gang has no reservation"
    );
}
