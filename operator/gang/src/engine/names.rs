//! The engine's names of gangs and pods. Each surplus pod is a gang of its own in the engine.

use trellis_api::pod_group::NominatedVictim;
use trellis_scheduler::{GangId, PodKey};

use crate::external;
use crate::key::Key;

/// A surplus pod of a job: above `minReplicas` of an elastic group, or in a group with `membership:
/// BestEffort`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SurplusPodId {
    /// Its task group.
    pub group: String,
    /// Its index.
    pub index: u32,
}

impl SurplusPodId {
    /// Returns the pod of that name in the job of that name.
    #[must_use]
    pub fn from_pod_name(job: &str, pod: &str) -> Option<Self> {
        let own = pod.strip_prefix(job)?.strip_prefix('-')?;
        let (group, index) = own.rsplit_once('-')?;
        Some(Self {
            group: group.to_owned(),
            index: index.parse().ok()?,
        })
    }

    /// Returns the name of the pod.
    #[must_use]
    pub fn pod_name(&self, job: &str) -> String {
        trellis_api::names::pod_name(job, &self.group, self.index)
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

/// Returns the engine's name of a surplus pod of that job. The slash cannot occur in the name of an
/// object.
#[must_use]
pub fn surplus_gang_id(job: &Key, member: &SurplusPodId) -> GangId {
    GangId::new(format!("{job}/{}-{}", member.group, member.index))
}

/// Returns the engine's name as a key, for maps that also hold jobs.
#[must_use]
pub fn surplus_pod_key(job: &Key, member: &SurplusPodId) -> Key {
    let name = format!("{}/{}-{}", job.name, member.group, member.index);
    Key::new(&job.namespace, &name)
}

/// Returns the job that an engine gang stands for, and the surplus pod if the gang is one.
#[must_use]
pub fn parse_gang_id(id: &GangId) -> (Key, Option<SurplusPodId>) {
    let (namespace, rest) = id.as_str().split_once('/').unwrap_or(("", id.as_str()));
    let whole = Key::new(namespace, rest);
    if external::is_external(&whole) {
        return (whole, None);
    }
    let Some((job, pod)) = rest.split_once('/') else {
        return (Key::new(namespace, rest), None);
    };
    let member = pod.rsplit_once('-').and_then(|(group, index)| {
        Some(SurplusPodId {
            group: group.to_owned(),
            index: index.parse().ok()?,
        })
    });
    (Key::new(namespace, job), member)
}

/// Returns the victim that a journal names: a gang or a surplus pod. None if no surplus pod can
/// have that name.
#[must_use]
pub fn victim_key(victim: &NominatedVictim) -> Option<Key> {
    let job = Key::new(&victim.namespace, &victim.name);
    let Some(pod) = &victim.pod else {
        return Some(job);
    };
    let member = SurplusPodId::from_pod_name(&victim.name, pod)?;
    Some(surplus_pod_key(&job, &member))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surplus_gang_id_and_pod_name_parse_to_the_same_pod() {
        let job = Key::new("team-a", "llm");
        let member = SurplusPodId {
            group: "big-worker".to_owned(),
            index: 12,
        };
        let id = surplus_gang_id(&job, &member);
        assert_eq!(id.as_str(), "team-a/llm/big-worker-12");
        assert_eq!(parse_gang_id(&id), (job.clone(), Some(member.clone())));
        assert_eq!(parse_gang_id(&gang_id(&job)), (job, None));
        assert_eq!(member.pod_name("llm"), "llm-big-worker-12");
        assert_eq!(
            SurplusPodId::from_pod_name("llm", "llm-big-worker-12"),
            Some(member)
        );
        assert_eq!(SurplusPodId::from_pod_name("llm", "llama-worker-1"), None);
    }
}
