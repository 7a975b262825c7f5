//! Splits pods over as few domains as possible, as evenly as their room allows.

use std::cmp::Reverse;

use super::domain_counts::min_domains;

/// A part of the pods: the index of a domain, and the number of slices in it.
pub(super) type DomainPart = (usize, u64);

/// Splits `count` slices over the fewest domains that hold them. The smallest part is as large as
/// possible; the parts differ by at most one slice, if the domains have room for that. `rooms` has
/// the number of slices that each domain holds, the preferred domain first. None: the domains
/// together hold fewer slices.
///
/// Kueue calls this balanced placement (KEP-2724).
pub(super) fn split_evenly(rooms: &[u64], count: u64) -> Option<Vec<DomainPart>> {
    let amounts = rooms.iter().map(|room| u128::from(*room));
    let domains = min_domains(amounts, u128::from(count));
    let mut largest = rooms.to_vec();
    largest.sort_unstable_by_key(|room| Reverse(*room));
    // The largest domains hold all slices, so the smallest part is bounded only by the last of them.
    let last = largest.get(domains.checked_sub(1)?)?;
    let least = count.checked_div(u64::try_from(domains).ok()?)?.min(*last);
    let chosen = choose_domains(rooms, (domains, least), count)?;
    Some(level(&chosen, count))
}

/// Chooses this many domains that each hold at least `least` slices and together `count`. A domain
/// comes before a later one, unless the rest would then hold too little.
fn choose_domains(
    rooms: &[u64],
    (domains, least): (usize, u64),
    count: u64,
) -> Option<Vec<DomainPart>> {
    let enough = rooms.iter().copied().enumerate();
    let mut open: Vec<DomainPart> = enough.filter(|(_, room)| *room >= least).collect();
    let mut chosen: Vec<DomainPart> = Vec::with_capacity(domains);
    let mut left = count;
    while let Some(others) = domains.checked_sub(chosen.len().saturating_add(1)) {
        // The largest of the other domains decide if the rest can still hold the slices.
        let mut largest: Vec<u64> = open.iter().map(|(_, room)| *room).collect();
        largest.sort_unstable_by_key(|room| Reverse(*room));
        let sum = |domains: usize| {
            largest
                .iter()
                .take(domains)
                .copied()
                .fold(0, u64::saturating_add)
        };
        let (without, with) = (sum(others), sum(others.saturating_add(1)));
        let smallest = largest.get(..others).and_then(<[u64]>::last).copied();
        let fits = |(_, room): &DomainPart| {
            // A domain that is one of the largest leaves the next largest to the others.
            let beside = match smallest.is_some_and(|smallest| *room >= smallest) {
                true => with.saturating_sub(*room),
                false => without,
            };
            room.saturating_add(beside) >= left
        };
        let next = open.iter().position(fits)?;
        let (at, room) = open.remove(next);
        left = left.saturating_sub(room);
        chosen.push((at, room));
    }
    (left == 0).then_some(chosen)
}

/// Gives each of these domains the same number of slices, up to its room. The first domains get one
/// more if the number does not divide evenly. The domains together hold `count` slices.
fn level(domains: &[DomainPart], count: u64) -> Vec<DomainPart> {
    let mut by_room: Vec<(u64, usize)> = Vec::with_capacity(domains.len());
    by_room.extend(
        domains
            .iter()
            .enumerate()
            .map(|(place, (_, room))| (*room, place)),
    );
    // The domains with the least room are filled first; the others share the rest.
    by_room.sort_unstable_by_key(|(room, place)| (*room, Reverse(*place)));
    let mut parts: Vec<DomainPart> = domains.iter().map(|(at, _)| (*at, 0)).collect();
    let mut left = count;
    for (done, (room, place)) in by_room.iter().enumerate() {
        let open = u64::try_from(by_room.len().saturating_sub(done)).unwrap_or(1);
        let share = left.checked_div(open).unwrap_or(0).min(*room);
        if let Some((_, part)) = parts.get_mut(*place) {
            *part = share;
        }
        left = left.saturating_sub(share);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_equal_if_the_domains_have_room() {
        assert_eq!(
            split_evenly(&[16, 16, 16], 24),
            Some(vec![(0, 12), (1, 12)])
        );
        assert_eq!(split_evenly(&[16, 16], 17), Some(vec![(0, 9), (1, 8)]));
        // Domains 1 and 2 allow 8 and 8, domains 0 and 1 only 11 and 5.
        assert_eq!(split_evenly(&[5, 12, 8], 16), Some(vec![(1, 8), (2, 8)]));
        assert_eq!(split_evenly(&[5, 12], 16), Some(vec![(0, 5), (1, 11)]));
        assert_eq!(split_evenly(&[9, 4, 16], 9), Some(vec![(0, 9)]));
        assert_eq!(split_evenly(&[3, 3], 7), None);
        assert_eq!(split_evenly(&[], 1), None);
    }
}
