//! Refusals of the API server by rules of the chart and of the CRDs, which are written in CEL.
//! The simulated API server evaluates no CEL, so the rules on which promises rest stand here again.

use serde_json::Value;
use trellis_api_server::{AdmissionRequest, Cause, Object, Status};

use crate::cluster::{LEADER_TERMS, OPERATOR_NAMESPACE};

/// Name of the operator's service account.
pub(crate) const OPERATOR: &str = "system:serviceaccount:trellis-system:trellis-operator";

/// The kinds whose writes the policy `trellis-leader` judges, with the subresources.
const FENCED: &[(&str, &[&str])] = &[
    ("pods", &["", "binding", "eviction", "status"]),
    ("configmaps", &[""]),
    ("persistentvolumeclaims", &[""]),
    ("services", &[""]),
    ("networkpolicies", &[""]),
    ("externalsecrets", &[""]),
];

/// Refuses the writes of replicas that do not lead, as the policy `trellis-leader` does.
pub(crate) fn refuse_stale_leaders(request: &AdmissionRequest<'_>) -> Result<(), Status> {
    let plural = request.kind.plural.as_str();
    let is_fenced = match request.kind.group.as_str() {
        "trellis.dev" => plural != "leaderterms",
        _ => FENCED.iter().any(|(kind, subresources)| {
            *kind == plural && subresources.contains(&request.subresource)
        }),
    };
    if request.user.name != OPERATOR || !is_fenced {
        return Ok(());
    }
    let Some(term) = request.get(&LEADER_TERMS, OPERATOR_NAMESPACE, "trellis-operator") else {
        return Ok(());
    };
    let leader = term["spec"]["pod"]["uid"].as_str().unwrap_or_default();
    let pods = request
        .user
        .extra
        .get("authentication.kubernetes.io/pod-uid");
    let leads = pods.is_some_and(|pods| pods.iter().any(|pod| pod == leader));
    if !leader.is_empty() && !leads {
        return Err(request.forbid("only the leader may write: its pod is another"));
    }
    let epoch = term["spec"]["epoch"].as_i64().unwrap_or(0);
    let journal = request
        .object
        .filter(|_| plural == "podgroups" && request.subresource == "status");
    let written = journal.and_then(|journal| journal["status"]["epoch"].as_i64());
    if written.unwrap_or(epoch) < epoch {
        return Err(request.forbid("only the leader may write: its epoch is higher"));
    }
    Ok(())
}

/// Refuses a journal whose epoch falls, as a rule of the CRD does.
pub(crate) fn refuse_lower_epochs(request: &AdmissionRequest<'_>) -> Result<(), Status> {
    if request.kind.plural != "podgroups" {
        return Ok(());
    }
    let epoch =
        |object: Option<&Value>| object.and_then(|object| object["status"]["epoch"].as_i64());
    match (epoch(request.old.map(Object::value)), epoch(request.object)) {
        (Some(old), Some(new)) if new < old => {
            let cause = Cause::invalid("status.epoch", &new.into(), "it never falls");
            Err(Status::invalid(request.kind, request.name, &[cause]))
        }
        _ => Ok(()),
    }
}
