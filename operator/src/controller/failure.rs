//! What ended an attempt, and whose fault it was.

use std::collections::BTreeMap;

use trellis_api::Reason;
use trellis_api::names;
use trellis_api::pod_group::Plan;

use crate::scheduling::plan_members;
use crate::watch::{PodPhase, PodView};

/// The first thing that went wrong with an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The pod.
    pub pod: String,
    /// Its node.
    pub node: Option<String>,
    /// Exit code of its container.
    pub exit_code: Option<i32>,
    /// The reason.
    pub reason: Reason,
    /// The kubelet's word for it.
    pub word: String,
    /// The same in words.
    pub message: String,
    /// True if it is the cluster's fault and not the job's.
    pub disruption: bool,
}

/// What is wrong with the attempt, if anything. A wave of failures has many
/// symptoms; what is most telling of its cause comes first: a lost node, then
/// a refusal, then a pod taken away, then a container's own failure. So ranks
/// that fail because their peer's node is gone do not cost the user's budget.
#[must_use]
pub fn first(
    members: &BTreeMap<&str, &PodView>,
    plan: Option<&Plan>,
    lost: &dyn Fn(&str) -> bool,
) -> Option<Fault> {
    let by = |which: &dyn Fn(&str, &PodView) -> Option<Fault>| {
        members.iter().find_map(|(name, pod)| which(name, pod))
    };
    by(&|name, pod| {
        let node = pod.node.as_deref()?;
        (!pod.phase.is_over() && lost(node)).then(|| {
            cluster(
                name,
                pod,
                Reason::NodeLost,
                format!("node {node:?} of pod {name:?} is lost"),
            )
        })
    })
    .or_else(|| {
        by(&|name, pod| match &pod.phase {
            PodPhase::Refused { reason } => {
                let node = pod.node.as_deref().unwrap_or_default();
                let mut fault = cluster(
                    name,
                    pod,
                    Reason::KubeletRefused,
                    format!("the kubelet of node {node:?} refused pod {name:?}: {reason}"),
                );
                fault.word.clone_from(reason);
                Some(fault)
            }
            _ => None,
        })
    })
    .or_else(|| {
        by(&|name, pod| {
            let taken = pod.disrupted || (pod.deleting && !pod.phase.is_over());
            taken.then(|| {
                cluster(
                    name,
                    pod,
                    Reason::PodDisrupted,
                    format!("pod {name:?} is being deleted or evicted by someone else"),
                )
            })
        })
    })
    .or_else(|| missing(members, plan?))
    .or_else(|| {
        by(&|name, pod| match &pod.phase {
            PodPhase::Failed { exit_code, reason } => Some(own(name, pod, *exit_code, reason)),
            _ => None,
        })
    })
}

fn cluster(name: &str, pod: &PodView, reason: Reason, message: String) -> Fault {
    Fault {
        pod: name.to_owned(),
        node: pod.node.clone(),
        exit_code: None,
        reason,
        word: reason.as_str().to_owned(),
        message,
        disruption: true,
    }
}

/// Words for a pod's end that are the node's doing and not the container's
/// (kubelet: node shutdown, a node that came back empty, eviction).
const NODE_WORDS: [&str; 5] = [
    "ContainerStatusUnknown",
    "NodeLost",
    "NodeShutdown",
    "Terminated",
    "Evicted",
];

fn own(name: &str, pod: &PodView, exit_code: Option<i32>, word: &str) -> Fault {
    let node = pod.node.as_deref().unwrap_or_default();
    if NODE_WORDS.contains(&word) {
        let mut fault = cluster(
            name,
            pod,
            Reason::PodDisrupted,
            format!("pod {name:?} was stopped by node {node:?}: {word}"),
        );
        fault.exit_code = exit_code;
        word.clone_into(&mut fault.word);
        return fault;
    }
    let reason = if word == "OOMKilled" {
        Reason::OutOfMemory
    } else {
        Reason::PodFailed
    };
    let code = exit_code.map_or_else(String::new, |c| format!(" with exit code {c}"));
    Fault {
        pod: name.to_owned(),
        node: pod.node.clone(),
        exit_code,
        reason,
        word: word.to_owned(),
        message: format!("pod {name:?} on node {node:?} failed{code}: {word}"),
        disruption: false,
    }
}

/// True for a kubelet's word of refusal (`pkg/kubelet/lifecycle`): another node may do.
#[must_use]
pub fn is_refusal(word: &str) -> bool {
    word.starts_with("OutOf")
        || matches!(
            word,
            "UnexpectedAdmissionError" | "NodeAffinity" | "TopologyAffinityError" | "NodePorts"
        )
}

/// A pod of the plan that is gone: someone deleted it.
fn missing(members: &BTreeMap<&str, &PodView>, plan: &Plan) -> Option<Fault> {
    let planned: i64 = plan
        .assignments
        .iter()
        .fold(0, |sum, a| sum.saturating_add(a.count));
    let there = i64::try_from(members.len()).unwrap_or(i64::MAX);
    if there >= planned {
        return None;
    }
    // Names only when something is missing: the usual case costs one comparison.
    let present: std::collections::BTreeSet<(&str, u32)> = members
        .values()
        .map(|p| (p.group.as_str(), p.index))
        .collect();
    let (group, index, node) =
        plan_members(plan).find(|(group, index, _)| !present.contains(&(*group, *index)))?;
    let what = names::pod("", group, index);
    Some(Fault {
        pod: what.trim_start_matches('-').to_owned(),
        node: Some(node.to_owned()),
        exit_code: None,
        reason: Reason::PodDisrupted,
        word: Reason::PodDisrupted.as_str().to_owned(),
        message: format!("pod {index} of group {group:?} was deleted by someone else"),
        disruption: true,
    })
}
