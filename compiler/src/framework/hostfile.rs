//! Hosts and how many processes each of them takes, in the order of their ranks.

use trellis_api::job::{Role, TaskGroup};

use crate::gang_facts::GangFacts;

/// The groups whose pods run processes, by rank: all groups of the world, but launchers only if
/// they have devices or are the only groups.
fn host_groups<'a>(gang: &GangFacts<'a>) -> Vec<&'a TaskGroup> {
    let mut groups = gang.groups_by_rank();
    groups.retain(|group| group.is_in_world());
    let launches = |group: &TaskGroup| group.role() == Role::Launcher && group.gpus() == 0;
    if groups.iter().any(|group| !launches(group)) {
        groups.retain(|group| !launches(group));
    }
    groups
}

/// A line for each host, from its full name and its processes: its GPUs, at least one.
pub(super) fn host_lines(gang: &GangFacts<'_>, line: impl Fn(&str, u32) -> String) -> String {
    let mut text = String::new();
    for group in host_groups(gang) {
        for host in gang.pod_addresses(group) {
            text.push_str(&line(&host, group.gpus().max(1)));
            text.push('\n');
        }
    }
    text
}

/// As Open MPI and DeepSpeed read it.
pub(super) fn slots_hostfile(gang: &GangFacts<'_>) -> String {
    host_lines(gang, |host, slots| format!("{host} slots={slots}"))
}
