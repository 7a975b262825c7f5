//! Which claims the pods of a plan mount, and where. Pure.

use std::collections::{BTreeMap, BTreeSet};

use trellis_compiler::{CompiledGroup, CompiledJob};

use crate::scheduling::admitted::Admitted;
use crate::watch::SlimClaimSpec;

/// By the name of the claim.
pub type Mounts = BTreeMap<String, Mount>;

/// Where the pods are that mount a claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mount {
    /// Their nodes.
    pub nodes: BTreeSet<String>,
    /// How many they are.
    pub pods: u64,
    /// Of a claim that is made with its pod, for its pod: a generic ephemeral volume.
    pub own: Option<Own>,
}

/// A claim of a pod's own, which the controller manager makes once its pod is there (KEP-1698).
#[derive(Clone, Debug, PartialEq)]
pub struct Own {
    /// The pod.
    pub pod: String,
    /// The pod's uid. None: it is not there yet.
    pub uid: Option<String>,
    /// What the claim will ask for.
    pub asked: SlimClaimSpec,
}

/// A pod that has its node, or is to have it.
#[derive(Clone, Copy, Debug)]
pub struct PlacedPod<'a> {
    /// Its task group.
    pub group: &'a str,
    /// Its index.
    pub index: u32,
    /// Its node.
    pub node: &'a str,
    /// Its uid. None: it is not there yet.
    pub uid: Option<&'a str>,
}

/// What these pods mount. `counted` is what admission makes of them, by group, where that is
/// known.
pub fn mounts<'a>(
    job: &CompiledJob,
    counted: &BTreeMap<String, Admitted>,
    pods: impl IntoIterator<Item = PlacedPod<'a>>,
) -> Mounts {
    let groups: BTreeMap<&str, (&CompiledGroup, Admitted)> = job
        .groups()
        .iter()
        .map(|group| (group.name(), (group, admitted(group, counted))))
        .filter(|(_, (_, pod))| !(pod.claims.is_empty() && pod.ephemeral.is_empty()))
        .collect();
    if groups.is_empty() {
        return Mounts::new();
    }
    let mut mounts = Mounts::new();
    for pod in pods {
        let Some((group, admitted)) = groups.get(pod.group) else {
            continue;
        };
        for claim in &admitted.claims {
            let mount = mounts.entry(claim.clone()).or_default();
            mount.nodes.insert(pod.node.to_owned());
            mount.pods = mount.pods.saturating_add(1);
        }
        for (volume, asked) in &admitted.ephemeral {
            let name = group.pod_name(pod.index);
            let mount = Mount {
                nodes: [pod.node.to_owned()].into(),
                pods: 1,
                own: Some(Own {
                    pod: name.clone(),
                    uid: pod.uid.map(str::to_owned),
                    asked: asked.clone(),
                }),
            };
            mounts.insert(format!("{name}-{volume}"), mount);
        }
    }
    mounts
}

fn admitted(group: &CompiledGroup, counted: &BTreeMap<String, Admitted>) -> Admitted {
    let counted = counted.get(group.name()).cloned();
    counted.unwrap_or_else(|| Admitted::unchanged(group))
}
