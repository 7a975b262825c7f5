//! The engine's names of gangs and pods. Each surplus pod, and each slice outside the gang, is a gang
//! of its own in the engine.

use std::ops::Range;

use trellis_api::job::TaskGroup;
use trellis_api::pod_group::NominatedVictim;
use trellis_scheduler::{GangId, PodKey};

use crate::external;
use crate::key::Key;

/// Pods of a job that are placed together outside its gang: a pod above `minReplicas` of an elastic
/// group, a slice of such pods if the group has slices, or a pod of a group with `membership:
/// BestEffort`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SurplusUnit {
    /// Its task group.
    pub group: String,
    /// Index of its first pod.
    pub first: u32,
}

impl SurplusUnit {
    /// Returns the unit whose first pod has that name in the job of that name.
    #[must_use]
    pub fn from_pod_name(job: &str, pod: &str) -> Option<Self> {
        let own = pod.strip_prefix(job)?.strip_prefix('-')?;
        let (group, index) = own.rsplit_once('-')?;
        Some(Self {
            group: group.to_owned(),
            first: index.parse().ok()?,
        })
    }

    /// Returns the name of its first pod.
    #[must_use]
    pub fn pod_name(&self, job: &str) -> String {
        trellis_api::names::pod_name(job, &self.group, self.first)
    }

    /// Returns the unit of its group that has this pod.
    #[must_use]
    pub fn of_pod(group: &TaskGroup, index: u32) -> Self {
        let slice = group.slice_of(index);
        Self {
            group: group.name.clone(),
            first: slice.map_or(index, |slice| slice.start),
        }
    }

    /// Returns the indexes of its pods.
    #[must_use]
    pub fn indexes(&self, group: &TaskGroup) -> Range<u32> {
        let single = self.first..self.first.saturating_add(1);
        group.slice_of(self.first).unwrap_or(single)
    }
}

/// Returns the engine's name of a gang.
#[must_use]
pub fn gang_id(job: &Key) -> GangId {
    GangId::new(job.to_string())
}

/// Returns the job of an engine gang.
#[must_use]
pub fn job_key(id: &GangId) -> Key {
    parse_gang_id(id).0
}

/// Returns the engine's name of a pod.
#[must_use]
pub fn pod_key(pod: &Key) -> PodKey {
    PodKey::new(pod.to_string())
}

/// Returns the engine's name of a surplus unit of that job. The slash cannot occur in the name of an
/// object.
#[must_use]
pub fn surplus_gang_id(job: &Key, unit: &SurplusUnit) -> GangId {
    GangId::new(format!("{job}/{}-{}", unit.group, unit.first))
}

/// Returns the engine's name as a key, for maps that also hold jobs.
#[must_use]
pub fn surplus_unit_key(job: &Key, unit: &SurplusUnit) -> Key {
    let name = format!("{}/{}-{}", job.name, unit.group, unit.first);
    Key::new(&job.namespace, &name)
}

/// Returns the job that an engine gang stands for, and the surplus unit if the gang is one.
#[must_use]
pub fn parse_gang_id(id: &GangId) -> (Key, Option<SurplusUnit>) {
    let (namespace, rest) = id.as_str().split_once('/').unwrap_or(("", id.as_str()));
    let whole = Key::new(namespace, rest);
    if external::is_external(&whole) {
        return (whole, None);
    }
    let Some((job, pod)) = rest.split_once('/') else {
        return (Key::new(namespace, rest), None);
    };
    let member = pod.rsplit_once('-').and_then(|(group, index)| {
        Some(SurplusUnit {
            group: group.to_owned(),
            first: index.parse().ok()?,
        })
    });
    (Key::new(namespace, job), member)
}

/// Returns the victim that a journal names: a gang or a surplus unit. None if no surplus unit can
/// have that name.
#[must_use]
pub fn victim_key(victim: &NominatedVictim) -> Option<Key> {
    let job = Key::new(&victim.namespace, &victim.name);
    let Some(pod) = &victim.pod else {
        return Some(job);
    };
    let member = SurplusUnit::from_pod_name(&victim.name, pod)?;
    Some(surplus_unit_key(&job, &member))
}

/// Returns true if the pod leaves with this victim: the whole gang leaves, or one surplus unit.
#[must_use]
pub fn is_pod_of_victim(victim: &NominatedVictim, group: &str, index: u32) -> bool {
    let Some(pod) = &victim.pod else {
        return true;
    };
    let Some(unit) = SurplusUnit::from_pod_name(&victim.name, pod) else {
        return false;
    };
    let pods = victim.pods.and_then(|pods| u32::try_from(pods).ok());
    let end = unit.first.saturating_add(pods.unwrap_or(1));
    unit.group == group && (unit.first..end).contains(&index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surplus_gang_id_and_pod_name_parse_to_the_same_pod() {
        let job = Key::new("team-a", "llm");
        let member = SurplusUnit {
            group: "big-worker".to_owned(),
            first: 12,
        };
        let id = surplus_gang_id(&job, &member);
        assert_eq!(id.as_str(), "team-a/llm/big-worker-12");
        assert_eq!(parse_gang_id(&id), (job.clone(), Some(member.clone())));
        assert_eq!(parse_gang_id(&gang_id(&job)), (job, None));
        assert_eq!(member.pod_name("llm"), "llm-big-worker-12");
        assert_eq!(
            SurplusUnit::from_pod_name("llm", "llm-big-worker-12"),
            Some(member)
        );
        assert_eq!(SurplusUnit::from_pod_name("llm", "llama-worker-1"), None);
    }
}
