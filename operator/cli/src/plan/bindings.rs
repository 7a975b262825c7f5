//! What the claims of planned jobs would be bound to before their first pod is created.

use std::sync::Arc;

use trellis_gang::Held;
use trellis_gang::binding::{Mounts, Step, Stock, Stuck, choose, mounts};
use trellis_gang::key::Key;
use trellis_gang::observed::{SELECTED_NODE, SlimClaimRef};
use trellis_scheduler::Placement;

use super::outcome::Planned;
use super::snapshot::Snapshot;

/// Each job that would run says what its claims would be bound to. One that cannot have them
/// where its pods would be waits: those before it have taken them, or no volume is reached there.
pub(super) fn bind(planned: &mut [Planned], snapshot: &mut Snapshot) {
    for job in planned {
        let (Some(compiled), Ok(place)) = (&job.compiled, &job.place) else {
            continue;
        };
        let mounts = mounts(compiled, &Default::default(), pods(&place.placement));
        match steps(&job.key, &mounts, snapshot) {
            Ok(steps) => {
                job.claims = steps.iter().filter_map(told).collect();
                for (claim, step) in &steps {
                    carry_out(&Key::new(&job.key.namespace, claim), step, snapshot);
                }
            }
            Err(stuck) => job.place = Err(Held::waits(stuck.reason, stuck.message)),
        }
    }
}

/// Those that come after find it so.
fn carry_out(key: &Key, step: &Step, snapshot: &mut Snapshot) {
    let Some(claim) = snapshot.claims.as_mut().and_then(|all| all.get_mut(key)) else {
        return;
    };
    let claim = Arc::make_mut(claim);
    match step {
        Step::Bound | Step::Wait => {}
        Step::Give(volume) => {
            if let Some(volume) = snapshot.volumes.get_mut(volume) {
                let volume = Arc::make_mut(volume);
                volume.spec.claim_ref = Some(SlimClaimRef {
                    namespace: key.namespace.to_string(),
                    name: key.name.to_string(),
                    uid: claim.metadata.uid.clone(),
                });
                // In a file it may be that nobody says.
                claim.metadata.namespace = Some(key.namespace.to_string());
            }
        }
        Step::Provision(node) => {
            let annotations = claim.metadata.annotations.get_or_insert_default();
            annotations.insert(SELECTED_NODE.to_owned(), node.clone());
        }
    }
}

fn pods(placement: &Placement) -> impl Iterator<Item = (&str, &str, u64)> {
    placement.groups().iter().flat_map(|group| {
        let runs = group.runs.iter();
        runs.map(|(node, count)| (group.group.as_str(), node.as_str(), u64::from(*count)))
    })
}

fn steps(job: &Key, mounts: &Mounts, snapshot: &Snapshot) -> Result<Vec<(String, Step)>, Stuck> {
    // Where nobody has said which claims there are, every node reaches them.
    match snapshot.claims {
        None => Ok(Vec::new()),
        Some(_) => choose(
            mounts,
            &Stock::of(&snapshot.storage(&job.namespace), mounts),
        ),
    }
}

fn told((claim, step): &(String, Step)) -> Option<String> {
    match step {
        Step::Bound | Step::Wait => None,
        Step::Give(volume) => Some(format!("{claim}: bound to volume {volume}")),
        Step::Provision(node) => Some(format!("{claim}: provisioned for node {node}")),
    }
}
