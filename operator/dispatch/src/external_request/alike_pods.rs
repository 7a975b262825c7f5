//! Groups a gang's pods by their request, with the nodes that their volumes allow.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::Reason;
use trellis_api::pod_group::PlannedPod;
use trellis_cache::Cache;
use trellis_gang::GangExplanation;
use trellis_gang::external::ephemeral_claims;
use trellis_gang::external::external_request::{AlikePods, pod_claims};
use trellis_gang::key::Key;
use trellis_gang::observed::TargetPod;
use trellis_gang::requirements::claims::find_claim_volume;
use trellis_gang::requirements::constraints;
use trellis_gang::requirements::volumes::VolumeRequirement;
use trellis_scheduler::Constraints;

use crate::external_request::MemberPod;

/// Most different requests in one gang: each is placed separately.
const MAX_REQUESTS: usize = 256;

pub(super) type GroupedPods = (Vec<AlikePods>, BTreeMap<String, BTreeSet<String>>, bool);

/// Returns the pods by request, the claims of each, and whether a claim keeps all of them on one
/// node.
pub(super) fn group_pods(
    cache: &Cache,
    namespace: &str,
    namespace_labels: &BTreeMap<String, String>,
    members: &[MemberPod<'_>],
) -> Result<GroupedPods, GangExplanation> {
    let storage = cache.storage(namespace);
    let mut volumes: BTreeMap<String, VolumeRequirement> = BTreeMap::new();
    let mut mounted_by: BTreeMap<String, usize> = BTreeMap::new();
    let mut of_pods = BTreeMap::new();
    for member in members {
        let claims = pod_claims(member.name, member.spec);
        let own = ephemeral_claims::claim_names(member.name, member.spec);
        for claim in &claims {
            if own.contains(claim) {
                ephemeral_claims::check_claim(member.name, &member.pod.uid, claim, &storage)?;
            }
            let count = mounted_by.entry(claim.clone()).or_default();
            *count = count.saturating_add(1);
            if !volumes.contains_key(claim) {
                let found = find_claim_volume(claim, &storage).map_err(|(reason, what)| {
                    let message = format!(
                        "pod {:?} mounts PersistentVolumeClaim {claim:?}, which {what}",
                        member.name
                    );
                    GangExplanation::waiting(reason, message)
                })?;
                volumes.insert(claim.clone(), found);
            }
        }
        if !claims.is_empty() {
            of_pods.insert(member.name.to_owned(), claims);
        }
    }
    let of_one_node = |claim: &&String| {
        let several = mounted_by.get(*claim).is_some_and(|pods| *pods > 1);
        several && volumes.get(*claim).is_some_and(|mounted| mounted.one_node)
    };
    let of_all = |claim: &String| mounted_by.get(claim) == Some(&members.len());
    let one_node = volumes.keys().filter(of_one_node).any(of_all);
    let label = |node: &str, key: &str| {
        let node = cache.nodes.get(&Key::new("", node))?;
        node.metadata.labels.as_ref()?.get(key).cloned()
    };
    let is_repelled = cache
        .repulsions
        .read()
        .can_repel_namespace(namespace, namespace_labels);
    let mut groups: Vec<AlikePods> = Vec::new();
    for member in members {
        let own = of_pods.get(member.name).into_iter().flatten();
        let mut reach: Vec<_> = own
            .clone()
            .filter_map(|claim| volumes.get(claim))
            .flat_map(|mounted| mounted.node_terms.iter().cloned())
            .collect();
        reach.sort_unstable();
        reach.dedup();
        let kept_out = match is_repelled {
            true => cache.repulsions.read().closed_domains(
                TargetPod {
                    namespace,
                    namespace_labels,
                    labels: &member.pod.labels,
                },
                label,
            ),
            false => BTreeSet::new(),
        };
        let pod = PlannedPod {
            name: member.name.to_owned(),
            uid: member.pod.uid.clone(),
        };
        let mut new = AlikePods {
            request: member.pod.request.clone(),
            constraints: Constraints {
                volumes: reach,
                kept_out,
                ..constraints::from_pod(member.spec)
            },
            one_node: own.clone().any(|claim| of_one_node(&claim)),
            pods: Vec::new(),
        };
        let is_full = groups.len() >= MAX_REQUESTS;
        let like = groups.iter_mut().find(|group| {
            (&group.request, &group.constraints, group.one_node)
                == (&new.request, &new.constraints, new.one_node)
        });
        match like {
            Some(group) => group.pods.push(pod),
            None if is_full => {
                let message = format!(
                    "the pods of the gang ask for more than {MAX_REQUESTS} different things (requests, nodes, volumes): make them alike, or make several gangs of them"
                );
                return Err(GangExplanation::waiting(
                    Reason::ConstraintNotSupported,
                    message,
                ));
            }
            None => {
                new.pods.push(pod);
                groups.push(new);
            }
        }
    }
    Ok((groups, of_pods, one_node))
}
