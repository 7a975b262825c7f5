//! The fewest crossings of a ring in which the pods of each task group stay together.
//!
//! A walk through the `d` domains of a group crosses at least `d - 1` times, and it may begin and
//! end in any two of them. Two neighbouring groups share a border without a crossing if one ends in
//! the domain in which the next one begins. So the fewest crossings are those within the groups,
//! plus one for each border that is not shared. A group with several domains cannot share both of
//! its borders in one domain: it would have to return there, which costs as much as the border.

use std::collections::BTreeSet;

/// The domain in which two neighbouring groups meet. None: they meet in different domains.
type Border = Option<u32>;

/// Number of domains of a border that are tried. The borders before and after it exclude at most
/// two, so a third one always remains.
const TRIED_DOMAINS: usize = 3;

/// Returns the fewest crossings, given the domains of each group in the order of the ring. No group
/// is empty.
pub(super) fn least_crossings(groups: &[BTreeSet<u32>]) -> usize {
    let within = groups.iter().map(|group| group.len().saturating_sub(1));
    let all: usize = within.fold(groups.len(), usize::saturating_add);
    all.saturating_sub(most_shared_borders(groups))
}

/// Returns the greatest number of borders that groups can share at the same time.
fn most_shared_borders(groups: &[BTreeSet<u32>]) -> usize {
    let next = groups.iter().cycle().skip(1);
    let borders: Vec<Vec<Border>> = groups.iter().zip(next).map(border_options).collect();
    let Some((last, others)) = borders.split_last() else {
        return 0;
    };
    let ring = |first: &Border| {
        // The options of the border before the next group, each with the number of shared borders.
        let mut before = vec![(*first, 0_usize)];
        let closing = [*first];
        let ends = others.iter().map(Vec::as_slice).chain([closing.as_slice()]);
        for (group, ends) in groups.iter().zip(ends) {
            let best = |end: &Border| {
                let mut starts = before
                    .iter()
                    .filter(|(start, _)| can_join(group, *start, *end));
                let most = starts.by_ref().map(|(_, shared)| *shared).max()?;
                Some((*end, most.saturating_add(usize::from(end.is_some()))))
            };
            before = ends.iter().filter_map(best).collect();
        }
        before.first().map(|(_, shared)| *shared)
    };
    last.iter().filter_map(ring).max().unwrap_or(0)
}

/// Returns the ways in which two neighbouring groups can meet.
fn border_options((group, next): (&BTreeSet<u32>, &BTreeSet<u32>)) -> Vec<Border> {
    let common = group.intersection(next).take(TRIED_DOMAINS);
    common.copied().map(Some).chain([None]).collect()
}

/// True if a group can have these two borders.
fn can_join(group: &BTreeSet<u32>, start: Border, end: Border) -> bool {
    start.is_none() || start != end || group.len() == 1
}
