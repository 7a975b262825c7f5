//! Hosts and how many processes each of them takes, in the order of their ranks.

use trellis_api::job::{Role, TaskGroup};

use crate::gang::Gang;

/// The groups whose pods run processes, by rank: all groups of the world, but launchers only if
/// they have devices or are the only groups.
fn groups<'a>(gang: &Gang<'a>) -> Vec<&'a TaskGroup> {
    let mut groups = gang.by_rank();
    groups.retain(|group| group.is_in_world());
    let launches = |group: &TaskGroup| group.role() == Role::Launcher && group.gpus() == 0;
    if groups.iter().any(|group| !launches(group)) {
        groups.retain(|group| !launches(group));
    }
    groups
}

/// A line for each host, from its full name and its processes: its GPUs, at least one.
pub(super) fn lines(gang: &Gang<'_>, line: impl Fn(&str, u32) -> String) -> String {
    let mut text = String::new();
    for group in groups(gang) {
        for host in gang.addresses(group) {
            text.push_str(&line(&host, group.gpus().max(1)));
            text.push('\n');
        }
    }
    text
}

/// As Open MPI and DeepSpeed read it.
pub(super) fn slots(gang: &Gang<'_>) -> String {
    lines(gang, |host, slots| format!("{host} slots={slots}"))
}
