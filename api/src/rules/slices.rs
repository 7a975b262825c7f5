//! Rules on the slices of task groups.

use std::collections::BTreeSet;

use super::rule::Rule;
use crate::job::{Restart, RestartAction, RestartScope, TaskGroup};
use crate::topology::{Closeness, SliceLayer, SlicePolicy, largest_divisor};

/// A group's topology requests something.
pub const SOME_CLOSENESS: Rule = Rule::new(
    "has(self.required) || has(self.preferred) || (has(self.slices) && size(self.slices) > 0)",
    "must have required, preferred or slices: name a level of a Topology, or remove topology",
);
/// An even split needs a level.
pub const BALANCED: Rule = Rule::new(
    "!has(self.balanced) || !self.balanced || has(self.preferred)",
    "balanced needs preferred: set preferred to a level, or remove balanced",
);
/// A policy of slices needs slices.
pub const SLICE_POLICY: Rule = Rule::new(
    "!has(self.slicePolicy) || (has(self.slices) && size(self.slices) > 0)",
    "slicePolicy needs slices: add slices, or remove it",
);
/// The size of a slice is stated in one way.
pub const SLICE_SIZE: Rule = Rule::new(
    "has(self.pods) != has(self.atMost)",
    "must set either pods or atMost, and not both: set one of them",
);
/// The number of pods in a slice.
pub const SLICE_PODS: Rule = Rule::new("self >= 1 && self <= 4096", "must be 1 to 4096 pods");
/// Each slice of a layer consists of whole slices of the next layer.
pub const SLICE_LAYERS: Rule = Rule::new(
    "self.size() < 2 || (has(self[0].pods) && (!has(self[1].pods) || self[1].pods < 1 || self[0].pods % self[1].pods == 0) && (self.size() < 3 || (has(self[1].pods) && (!has(self[2].pods) || self[2].pods < 1 || self[1].pods % self[2].pods == 0))))",
    "each layer except the last must set pods to a multiple of pods in the next layer: change pods, or move atMost to the last layer",
);
/// Layers have different levels.
pub const SLICE_LEVELS: Rule = Rule::new(
    "self.all(l, self.exists_one(o, o.level == l.level))",
    "must name each level once: name a finer level in the later layer, or remove a layer",
);
/// Slices of one size make up the group.
pub const SLICES_OF_REPLICAS: Rule = Rule::new(
    "!has(self.topology) || !has(self.topology.slices) || size(self.topology.slices) == 0 || !has(self.topology.slices[0].pods) || self.topology.slices[0].pods < 1 || (has(self.replicas) ? self.replicas : 1) % self.topology.slices[0].pods == 0",
    "replicas must be a multiple of topology.slices[0].pods, because all slices have the same size: change pods or replicas, or use atMost",
)
.for_field(".topology.slices");
/// Slices belong to groups of the gang.
pub const SLICES_IN_GANG: Rule = Rule::new(
    "!has(self.topology) || !has(self.topology.slices) || size(self.topology.slices) == 0 || !has(self.membership) || self.membership == 'Gang'",
    "a group with slices is part of the gang: remove membership BestEffort, or remove slices",
)
.for_field(".topology.slices");
/// An elastic group with slices has whole slices in the gang. `atMost` would give slices of another
/// size after a change of `replicas`.
pub const MIN_SLICES: Rule = Rule::new(
    "!has(self.topology) || !has(self.topology.slices) || size(self.topology.slices) == 0 || !has(self.minReplicas) || self.minReplicas >= (has(self.replicas) ? self.replicas : 1) || (has(self.topology.slices[0].pods) && (self.topology.slices[0].pods < 1 || self.minReplicas % self.topology.slices[0].pods == 0))",
    "minReplicas must be a multiple of topology.slices[0].pods, because the gang consists of whole slices: set pods instead of atMost, and make minReplicas a multiple of it",
)
.for_field(".minReplicas");
/// Slices restart alone in groups with slices.
pub const SLICE_SCOPE: Rule = Rule::new(
    "!has(self.restart) || ((!has(self.restart.scope) || self.restart.scope != 'Slice') && (!has(self.restart.rules) || self.restart.rules.all(r, r.action != 'RestartSlice'))) || self.taskGroups.exists(g, has(g.topology) && has(g.topology.slices) && size(g.topology.slices) > 0)",
    "scope Slice and action RestartSlice need a task group with topology.slices: add slices to a group, or use Pod or Group",
)
.for_field(".restart");
/// A bound leaves slices of several pods. CEL has no loop over numbers.
pub const SLICE_BOUND: Rule = Rule::new(
    "true",
    "atMost gives slices of 1 pod, because no number from 2 to atMost divides the number of pods (or pods of the layer before): raise atMost, or change that number",
)
.for_field(".topology.slices");

/// [`SOME_CLOSENESS`].
pub fn some_closeness<'a, T>(request: &'a Closeness) -> impl FnOnce(&T, &()) -> garde::Result + 'a {
    let some =
        request.required.is_some() || request.preferred.is_some() || !request.slices.is_empty();
    move |_, ()| SOME_CLOSENESS.check(some)
}

/// [`BALANCED`].
pub fn balanced(request: &Closeness) -> impl FnOnce(&Option<bool>, &()) -> garde::Result + use<> {
    let has_level = request.preferred.is_some();
    move |balanced, ()| BALANCED.check(has_level || !balanced.unwrap_or_default())
}

/// [`SLICE_POLICY`].
pub fn slice_policy(
    request: &Closeness,
) -> impl FnOnce(&Option<SlicePolicy>, &()) -> garde::Result + use<> {
    let has_slices = !request.slices.is_empty();
    move |policy, ()| SLICE_POLICY.check(policy.is_none() || has_slices)
}

/// [`SLICE_SIZE`].
pub fn slice_size<'a, T>(layer: &'a SliceLayer) -> impl FnOnce(&T, &()) -> garde::Result + 'a {
    let is_one = layer.pods.is_some() != layer.at_most.is_some();
    move |_, ()| SLICE_SIZE.check(is_one)
}

/// [`SLICE_PODS`].
pub fn slice_pods(pods: &i64, _: &()) -> garde::Result {
    SLICE_PODS.check((1..=4_096).contains(pods))
}

/// [`SLICE_LAYERS`] and [`SLICE_LEVELS`].
pub fn slice_layers(layers: &[SliceLayer], _: &()) -> garde::Result {
    let pairs = layers.iter().zip(layers.iter().skip(1));
    for (number, (outer, inner)) in pairs.enumerate() {
        if let Some(fault) = describe_layer_fault(number, outer, inner) {
            return SLICE_LAYERS.violated(&fault);
        }
    }
    let levels: BTreeSet<_> = layers.iter().map(|layer| &layer.level).collect();
    SLICE_LEVELS.check(levels.len() == layers.len())
}

/// [`SLICES_IN_GANG`], [`SLICES_OF_REPLICAS`] and [`SLICE_BOUND`].
pub fn slices_of_group(
    group: &TaskGroup,
) -> impl FnOnce(&Option<Closeness>, &()) -> garde::Result + '_ {
    |topology, ()| {
        let layers = topology.as_ref().map_or(&[][..], |t| &t.slices);
        let Some(first) = layers.first() else {
            return Ok(());
        };
        SLICES_IN_GANG.check(group.is_in_gang())?;
        if let Some(details) = describe_rest(("replicas", group.replicas()), first) {
            return SLICES_OF_REPLICAS.violated(&details);
        }
        check_bound(("replicas", group.replicas()), layers, &group.slice_sizes())
    }
}

/// [`SLICE_BOUND`], for this many pods, with what counts them.
pub(super) fn check_bound(
    (counted, pods): (&str, u32),
    layers: &[SliceLayer],
    sizes: &[u32],
) -> garde::Result {
    let most = layers.last().and_then(|layer| layer.at_most);
    let outer = sizes.iter().rev().nth(1).copied();
    let (counted, split) = match outer {
        Some(outer) => ("pods of the layer before", outer),
        None => (counted, pods),
    };
    match (most.filter(|most| *most > 1), sizes.last()) {
        (Some(most), Some(1)) if split > 1 => {
            let most = u32::try_from(most).unwrap_or(u32::MAX);
            SLICE_BOUND.violated(&describe_bound((counted, split), most))
        }
        _ => Ok(()),
    }
}

/// [`MIN_SLICES`].
pub fn min_slices(group: &TaskGroup) -> impl FnOnce(&Option<i64>, &()) -> garde::Result + '_ {
    |min, ()| {
        let first = group.topology.as_ref().and_then(|t| t.slices.first());
        let (Some(first), Some(min)) = (first.filter(|_| group.is_elastic()), min) else {
            return Ok(());
        };
        let is_multiple = |pods: i64| pods < 1 || min.checked_rem(pods) == Some(0);
        MIN_SLICES.check(first.pods.is_some_and(is_multiple))
    }
}

/// [`SLICE_SCOPE`].
pub fn slice_scope(groups: &[TaskGroup]) -> impl FnOnce(&Option<Restart>, &()) -> garde::Result {
    move |restart, ()| {
        let is_slice = |restart: &Restart| {
            let mut actions = restart.rules.iter().map(|rule| rule.action);
            restart.scope == Some(RestartScope::Slice)
                || actions.any(|action| action == RestartAction::RestartSlice)
        };
        let has_slices = groups.iter().any(TaskGroup::has_slices);
        SLICE_SCOPE.check(has_slices || !restart.as_ref().is_some_and(is_slice))
    }
}

/// Describes why a layer does not consist of whole slices of the next layer. None: it does.
/// `number`: the place of the outer layer in the list.
fn describe_layer_fault(number: usize, outer: &SliceLayer, inner: &SliceLayer) -> Option<String> {
    let next = number.saturating_add(1);
    let Some(pods) = outer.pods else {
        return Some(format!(
            "slices[{number}] does not set pods, which only the last layer may leave out"
        ));
    };
    let part = inner.pods.filter(|part| *part >= 1)?;
    let rest = pods.checked_rem(part).filter(|rest| *rest != 0)?;
    let hint = match pods.saturating_sub(rest) {
        0 => "slices of the coarser level, which comes first, must be larger".to_owned(),
        less => format!(
            "slices[{number}].pods must be a multiple of {part}, such as {less} or {}",
            less.saturating_add(part)
        ),
    };
    Some(format!(
        "slices[{number}].pods is {pods} and slices[{next}].pods is {part}: {hint}"
    ))
}

/// Describes that these pods are no multiple of the size of a slice. None: they are.
pub(super) fn describe_rest((counted, all): (&str, u32), layer: &SliceLayer) -> Option<String> {
    let all = i64::from(all);
    let pods = layer.pods.filter(|pods| *pods >= 1)?;
    let rest = all.checked_rem(pods).filter(|rest| *rest != 0)?;
    let less = all.saturating_sub(rest);
    let more = less.saturating_add(pods);
    let fitting = match less {
        0 => more.to_string(),
        less => format!("{less} or {more}"),
    };
    Some(format!(
        "{counted} is {all} and pods is {pods}: change {counted} to {fitting}, or pods to a divisor of {all}"
    ))
}

/// Describes the nearest numbers that have slices of several pods. A number without them is odd, so
/// its neighbours have slices of two pods at least.
fn describe_bound((counted, split): (&str, u32), most: u32) -> String {
    let size = |number: u32| format!("{number} gives slices of {}", largest_divisor(number, most));
    let neighbours = [split.saturating_sub(1), split.saturating_add(1)];
    format!(
        "{counted} is {split}: {}",
        neighbours.map(size).join(", and ")
    )
}
