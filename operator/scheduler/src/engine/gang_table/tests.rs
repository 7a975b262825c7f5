//! Tests that the indexes of the table follow the stages of its gangs.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::table::GangTable;
use super::{PlacedGang, PlacedState};
use crate::gang::{Gang, TaskGroup};
use crate::ids::{GangId, GroupName, PodKey, QueueName};
use crate::quota::Demand;
use crate::resources::Resources;
use crate::state::{Catalog, GangIdx, GangShape, NodeIdx};
use crate::time::Time;

/// A gang of two pods. All gangs have the same pod names.
fn gang(name: &str) -> Gang {
    let group = TaskGroup::new(GroupName::new("w"), 2, Resources::new(), "w".to_owned());
    Gang::new(
        GangId::new(format!("ns/{name}")),
        QueueName::new("q"),
        vec![group],
    )
}

fn shape(gang: &Gang) -> Arc<GangShape> {
    Arc::new(Catalog::default().acquire_shape(gang))
}

fn insert(table: &mut GangTable, name: &str) -> GangIdx {
    let gang = gang(name);
    let shape = shape(&gang);
    table.insert(gang, shape)
}

/// Puts both pods on one node.
fn place(table: &mut GangTable, at: GangIdx) {
    let Some(state) = table.get(at) else { return };
    let (gang, shape) = (Arc::clone(&state.gang), Arc::clone(&state.shape));
    let runs = vec![vec![(NodeIdx::of(0), 2)]];
    let placed = PlacedGang::new(gang, shape, Vec::new(), runs, Time::default());
    table.place(at, placed);
}

fn leaving() -> PlacedState {
    PlacedState::Leaving {
        charged: Demand::default(),
        since: Time::default(),
    }
}

#[test]
fn pod_belongs_to_the_gang_in_which_it_is_still_assumed() {
    let mut table = GangTable::default();
    let (one, other) = (insert(&mut table, "a"), insert(&mut table, "b"));
    let pod = PodKey::new("ns/w-1");
    assert_eq!(table.pod_owner(&pod), None, "no gang is placed");
    place(&mut table, one);
    place(&mut table, other);
    assert_eq!(table.pod_owner(&pod), Some((one, 0, 1)));
    let group = table.placed_mut(one).and_then(|p| p.groups.first_mut());
    assert!(group.is_some_and(|group| group.confirm(1)));
    assert_eq!(table.pod_owner(&pod), Some((other, 0, 1)));
    table.take_placed(other);
    assert_eq!(table.pod_owner(&pod), Some((one, 0, 1)));
    assert_eq!(table.pod_owner(&PodKey::new("ns/w-2")), None);
}

#[test]
fn stopping_gang_leaves_its_name_to_a_new_gang() {
    let mut table = GangTable::default();
    let old = gang("a");
    let shape = shape(&old);
    let stopping = table.insert_stopping(Arc::new(old), shape, 2, Time::default());
    assert_eq!(table.find(&GangId::new("ns/a")), None);
    let new = insert(&mut table, "a");
    assert_eq!(table.iter().map(|(at, _)| at).collect::<Vec<_>>(), [new]);
    assert!(!table.count_stopped_pod(stopping));
    assert!(table.count_stopped_pod(stopping), "the last pod is gone");
    table.remove(stopping);
    assert_eq!(table.find(&GangId::new("ns/a")), Some(new));
}

#[test]
fn place_ends_the_back_off_and_is_refused_to_a_placed_gang() {
    let mut table = GangTable::default();
    let at = insert(&mut table, "a");
    table.get_mut(at).unwrap().not_before = Some(Time::from_millis(5));
    place(&mut table, at);
    assert_eq!(table.get(at).and_then(|state| state.not_before), None);
    place(&mut table, at);
    assert_eq!(table.placed_count(), 1);
}

/// An operation on the gang of a number.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Insert,
    Remove,
    Place,
    Take,
    Nominate,
    Leave,
    Settle,
}

fn any_operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        Just(Operation::Insert),
        Just(Operation::Remove),
        Just(Operation::Place),
        Just(Operation::Take),
        Just(Operation::Nominate),
        Just(Operation::Leave),
        Just(Operation::Settle),
    ]
}

fn apply(table: &mut GangTable, name: &str, operation: Operation) {
    let Some(at) = table.find(&GangId::new(format!("ns/{name}"))) else {
        if matches!(operation, Operation::Insert) {
            insert(table, name);
        }
        return;
    };
    match operation {
        Operation::Insert => {}
        Operation::Remove => {
            table.remove(at);
        }
        Operation::Place => place(table, at),
        Operation::Take => {
            table.take_placed(at);
        }
        Operation::Nominate => {
            table.set_placed_state(at, PlacedState::Nominated);
        }
        Operation::Leave => {
            table.set_placed_state(at, leaving());
        }
        Operation::Settle => {
            table.set_placed_state(at, PlacedState::Settled);
        }
    }
}

/// Returns the gangs whose place meets a condition, from a pass over all gangs.
fn placed_with(table: &GangTable, condition: impl Fn(&PlacedState) -> bool) -> BTreeSet<GangIdx> {
    let all = table.iter();
    let placed = all.filter_map(|(at, state)| Some((at, state.placed()?)));
    let placed = placed.filter(|(_, placed)| condition(placed.state()));
    placed.map(|(at, _)| at).collect()
}

proptest! {
    #[test]
    fn indexes_agree_with_the_stages_after_any_operations(
        operations in prop::collection::vec((0..4_usize, any_operation()), 0..60),
    ) {
        let mut table = GangTable::default();
        for (number, operation) in operations {
            apply(&mut table, ["a", "b", "c", "d"][number], operation);
            let placed = placed_with(&table, |_| true);
            prop_assert_eq!(table.placed_count(), placed.len());
            let nominated: BTreeSet<GangIdx> = table.nominated().map(|(at, _)| at).collect();
            prop_assert_eq!(&nominated, &placed_with(&table, PlacedState::is_nominated));
            let leaving = placed_with(&table, PlacedState::is_leaving);
            prop_assert_eq!(table.leaving().count(), leaving.len());
            prop_assert_eq!(table.has_leaving(), !leaving.is_empty());
            prop_assert_eq!(table.named_group_count(), placed.len());
            let owner = table.pod_owner(&PodKey::new("ns/w-0"));
            prop_assert_eq!(owner.is_some(), !placed.is_empty());
            prop_assert!(owner.is_none_or(|(at, ..)| placed.contains(&at)));
            for (at, state) in table.iter() {
                prop_assert_eq!(table.find(&state.gang.id), Some(at));
            }
        }
    }
}
